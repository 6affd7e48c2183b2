// One photo of the gallery, which a lead corrects: draws, moves and deletes boxes, splits, merges and retypes chains.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Box } from "../api";
import { markOf } from "../colours";
import * as api from "./api";
import type { GalleryBox, GalleryChain, GalleryEntry, OwnAnswer, PhotoInfo, SessionResponse } from "./schema";
import { ColouredCaptions, boxNumber, colouredBoxes, type Pointed } from "./coloured_chains";
import { Keys } from "./dialogs";
import { Drawing, type DrawingControl } from "./drawing";
import { Frame } from "./frame";
import { ChangedBy, type Chosen } from "./gallery";
import { isKey, useKeys } from "./keys";
import { Failure, useSubmit } from "./login";
import { Overlay } from "./overlay";
import { modelTag } from "./proposals";
import { TASK_TEXTS, answerLabel, describeStage } from "./tasks";
import { useUnsaved } from "./unsaved";

const ACTIONS: Record<string, string> = {
  draw: "drew a box",
  move: "moved a box",
  delete: "deleted a box",
  split: "split phrases off",
  merge: "merged phrases",
  retype: "changed the types",
  decide: "decided",
};

/** What the lead is in the middle of: a box (of which one is moved), or a merge. */
type Mode = { kind: "box"; moved: GalleryBox | null } | { kind: "merge" } | null;

interface Props {
  id: string;
  session: SessionResponse;
  from: Chosen;
  place: string; // in the list
  onBefore: (() => void) | undefined;
  onNext: (() => void) | undefined;
}

export function CorrectionPage({ id, session, from, place: listed, onBefore, onNext }: Props) {
  const [entry, setEntry] = useState<GalleryEntry | null>(null);
  const [chosen, setChosen] = useState(from.mention); // a mention of the chain
  const [mode, setMode] = useState<Mode>(from.isDrawing ? { kind: "box", moved: null } : null);
  const [box, setBox] = useState<Box | null>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const drawing = useRef<DrawingControl>(null);
  const captions = useRef<HTMLDivElement>(null);
  // Where the phrase to merge with is pressed.
  useEffect(() => {
    if (mode?.kind === "merge") captions.current?.scrollIntoView({ block: "nearest" });
  }, [mode?.kind]);
  useUnsaved(mode?.kind === "box" && box && !sameBox(box, mode.moved?.xyxy) ? "the box" : "");
  const { failure, isBusy, run } = useSubmit();
  useEffect(() => void run(async () => setEntry(await api.galleryPhoto(id))), []);

  const place = entry?.chains.findIndex(({ mentions }) => mentions.includes(chosen)) ?? -1;
  const chain = entry?.chains[place];
  const leave = () => {
    setMode(null);
    setBox(null);
  };
  const take = (work: () => Promise<GalleryEntry>) =>
    void run(async () => {
      try {
        setEntry(await work());
        leave();
      } catch (error) {
        const isOld = error instanceof api.RequestError && error.status === 422;
        if (isOld) setEntry(await api.galleryPhoto(id)); // it may have changed meanwhile
        throw error;
      }
    });
  const correct = (wanted: Omit<api.Correction, "mention">) =>
    chain && take(() => api.correct(id, entry!.last_event, { mention: chain.mentions[0]!, ...wanted }));
  const undo = () => entry?.corrections.length && take(() => api.undoCorrection(id));
  const redo = () => entry?.can_redo && take(() => api.redoCorrection(id));
  const saveBox = () => {
    const drawn = drawing.current?.box();
    if (mode?.kind !== "box" || !drawn) return;
    correct(mode.moved ? { action: "move", box_id: mode.moved.id, box: drawn } : { action: "draw", box: drawn });
  };
  const pick = (to: number, mention: string) => {
    const other = entry!.chains[to]!;
    if (mode?.kind === "merge" && chain && other !== chain) return correct({ action: "merge", other: mention });
    if (mode?.kind === "box") return;
    leave();
    setChosen(other === chain ? "" : mention);
  };

  const chains = entry?.chains ?? [];
  const pickPlace = (to: number) => chains[to] && pick(to, chains[to].mentions[0]!);
  /** Choose the phrase after, or before, the chosen one; the tenth and later ones have no key of their own. */
  const pickNear = (by: number) => {
    const to = (place + by + chains.length) % chains.length;
    if (chains.length > 1 || place < 0) pickPlace(place < 0 && by < 0 ? chains.length - 1 : to);
  };
  const pointAtNext = () => {
    const at = chain!.boxes.findIndex(({ id: each }) => each === pointed?.box);
    setPointed({ place, box: chain!.boxes[(at + 1) % chain!.boxes.length]!.id });
  };
  const pointedBox = chain?.boxes.find(({ id: each }) => each === pointed?.box) ?? (chain?.boxes.length === 1 ? chain.boxes[0] : undefined);
  const remove = (each: GalleryBox) => correct({ action: "delete", box_id: each.id, ending: "no box" });
  useKeys((key, event) => {
    const isControl = event.ctrlKey || event.metaKey;
    const letter = key.toLowerCase();
    const canCorrect = !mode && chain && !chain.is_linking && !isBusy;
    const keys: Record<string, () => unknown> = {
      "?": () => setHelpOpen(true),
      escape: () => (mode ? leave() : setChosen("")),
      ...(mode?.kind !== "box" && { n: () => pickNear(1), p: () => pickNear(-1) }),
      ...(mode?.kind === "box" && { enter: saveBox, b: () => drawing.current?.put(middleOf(entry!.photo)) }),
      ...(!mode && chain?.boxes.length && { b: pointAtNext }),
      ...(canCorrect && { d: () => setMode({ kind: "box", moved: null }), m: () => setMode({ kind: "merge" }) }),
      ...(canCorrect && isUnended(chain) && { a: () => correct({ action: "decide", ending: "complete" }) }),
      ...(canCorrect && pointedBox && { e: () => setMode({ kind: "box", moved: pointedBox }), delete: () => remove(pointedBox) }),
      ...(!mode && onBefore && { k: onBefore }),
      ...(!mode && onNext && { j: onNext }),
      ...(!mode && { g: () => location.assign("#/gallery") }),
    };
    if (mode?.kind !== "box" && isKey(event, key) && Number(key) > 0) {
      pickPlace(Number(key) - 1);
      return true;
    }
    if (mode?.kind === "box" && key.startsWith("Arrow")) {
      const step = event.repeat ? 6 : 1;
      const [right, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key]!;
      return Boolean(drawing.current?.nudge(right! * step, down! * step, event.shiftKey));
    }
    const act = isControl
      ? letter === "z"
        ? event.shiftKey
          ? redo
          : undo
        : letter === "y"
          ? redo
          : undefined
      : isKey(event, key)
        ? keys[letter]
        : undefined;
    act?.();
    return Boolean(act);
  });

  if (!entry) return <main class="notice">{failure || "One moment …"}</main>;
  const drawn = mode?.kind === "box" ? { moved: mode.moved?.id ?? "" } : undefined;
  const shown = colouredBoxes(entry.chains, place, drawn, pointed);
  const owners = entry.chains.flatMap((each, at) => each.boxes.map((owned): Pointed => ({ place: at, box: owned.id })));
  return (
    <main class="work correction" tabIndex={-1}>
      <Frame photo={entry.photo} hasPicture={session.photos} label="Photo" isDrawing={mode?.kind === "box"}>
        <Overlay
          photo={entry.photo}
          boxes={shown}
          onPick={mode?.kind === "box" ? undefined : (index) => pickPlace(owners[index]!.place)}
          onPoint={(index) => setPointed(index === null ? null : owners[index]!)}
        />
        {mode?.kind === "box" && (
          <Drawing
            key={mode.moved?.id ?? "new"}
            photo={entry.photo}
            initial={mode.moved?.xyxy}
            control={drawing}
            onBox={setBox}
            onUndo={() => undefined}
          />
        )}
      </Frame>
      <section class="asking" aria-label="Corrections">
        <p class="task-line">
          {from.mention && <a href="#/review">← Review</a>}
          <a href="#/gallery">← Gallery</a>
          {session.user?.role === "owner" && <a href={`#/phrases/${id}`}>Edit phrases</a>}
          <h1>
            {entry.name}
            {listed && ` · ${listed}`}
          </h1>
          <span class="chip">{entry.stage}</span>
          <ChangedBy entry={entry} />
        </p>
        <p class="row correction-undo">
          <button disabled={isBusy || !entry.corrections.length} onClick={() => void undo()}>
            Undo <kbd>Ctrl Z</kbd>
          </button>
          <button disabled={isBusy || !entry.can_redo} onClick={() => void redo()}>
            Redo <kbd>Ctrl Y</kbd>
          </button>
          {onBefore && (
            <button disabled={mode?.kind === "box"} onClick={onBefore}>
              ← Before <kbd>K</kbd>
            </button>
          )}
          {onNext && (
            <button disabled={mode?.kind === "box"} onClick={onNext}>
              Next → <kbd>J</kbd>
            </button>
          )}
          <button class="quiet by-keys" onClick={() => setHelpOpen(true)}>
            <kbd>?</kbd> Keys
          </button>
        </p>
        <Failure line={failure} />
        {mode?.kind === "merge" && chain ? (
          <p class="hint" role="status">
            Press a phrase that means the same as “{chain.phrases[0]}”.{" "}
            <button class="link" onClick={leave}>
              Cancel
            </button>
          </p>
        ) : mode ? null : (
          <p class="hint">{chain ? "Press the phrase again to see all boxes." : "Press a phrase to correct it."}</p>
        )}
        <div ref={captions}>
          <ColouredCaptions
            captions={entry.captions}
            chains={entry.chains}
            chosen={place}
            pointed={pointed}
            onPick={pick}
            onPoint={setPointed}
          />
        </div>
        {chain && mode?.kind === "box" && (
          <div class="answers" role="group" aria-label="Box">
            <p class="hint">
              {box ? "Drag its sides and corners, or use the arrow keys." : "Drag over the photo, or press B."}
            </p>
            <button class="answer is-main" disabled={isBusy || !box} onClick={saveBox}>
              <kbd>Enter</kbd>
              <span>Save the box</span>
            </button>
            <button class="answer" onClick={leave}>
              <kbd>Esc</kbd>
              <span>Cancel</span>
            </button>
          </div>
        )}
        {chain && mode?.kind !== "box" && (
          <ChainPanel
            key={chain.mentions.join()}
            chain={chain}
            place={place}
            types={session.types}
            isBusy={isBusy}
            pointed={pointed}
            onPoint={setPointed}
            onMode={setMode}
            onCorrect={correct}
            onDelete={remove}
          />
        )}
        <OwnAnswers answers={entry.answers} />
        <Disagreements entry={entry} />
        {entry.corrections.length > 0 && (
          <details class="story" open>
            <summary>Corrections ({entry.corrections.length})</summary>
            <ol>
              {entry.corrections.map(({ event, who, at, action, phrase }) => (
                <li key={event}>
                  <b dir="auto">{who}</b> {ACTIONS[action] ?? action}: <span dir="auto">“{phrase}”</span>
                  <span class="soft"> {new Date(at).toLocaleString("en-GB")}</span>
                </li>
              ))}
            </ol>
          </details>
        )}
      </section>
      {isHelpOpen && <Keys lines={KEYS} onClose={() => setHelpOpen(false)} />}
    </main>
  );
}

const KEYS: readonly [string[], string][] = [
  [["1", "…", "9"], "Choose a phrase by its number, or the phrase to merge with"],
  [["N"], "The next phrase"],
  [["P"], "The phrase before"],
  [["D"], "Draw a box"],
  [["B"], "Point at the next box of the phrase; while drawing, a box in the middle of the photo"],
  [["E"], "Move the box that is pointed at"],
  [["Delete"], "Delete the box that is pointed at"],
  [["M"], "Merge with another phrase"],
  [["A"], "All boxes are there"],
  [["Ctrl", "Z"], "Undo; Ctrl Y redoes"],
  [["J"], "The next photo of the list"],
  [["K"], "The photo before"],
  [["G"], "Back to the gallery, where / searches, and J and K go through the photos"],
  [["Esc"], "Leave what was begun"],
];

interface PanelProps {
  chain: GalleryChain;
  place: number;
  types: readonly string[];
  isBusy: boolean;
  pointed: Pointed | null;
  onPoint: (pointed: Pointed | null) => void;
  onMode: (mode: Mode) => void;
  onCorrect: (wanted: Omit<api.Correction, "mention">) => void;
  onDelete: (box: GalleryBox) => void;
}

/** What can be done with one chain. */
function ChainPanel(props: PanelProps) {
  const { chain, place, types, isBusy, pointed, onPoint, onMode, onCorrect, onDelete } = props;
  const [marked, setMarked] = useState<string[]>([]); // phrases to split off
  const canSplit = marked.length > 0 && marked.length < chain.mentions.length;
  return (
    <section class="chain-panel" style={{ "--mark": markOf(place).colour }} aria-label={`Phrase ${place + 1}`}>
      <p class="task-line">
        <span class="task-name">
          {place + 1} · {chain.is_linking ? "still being linked" : stageName(chain)}
        </span>
        {chain.corrected_by.length > 0 && (
          <span class="chip is-changed">corrected by {new Intl.ListFormat("en").format(chain.corrected_by)}</span>
        )}
      </p>
      {chain.mentions.length > 1 ? (
        <fieldset class="chain-phrases">
          <legend class="hint">Phrases that mean the same. Tick those that do not belong here to split them off.</legend>
          {chain.mentions.map((mention, index) => (
            <label key={mention} class="check">
              <input
                type="checkbox"
                disabled={chain.is_linking}
                checked={marked.includes(mention)}
                onChange={() =>
                  setMarked(
                    marked.includes(mention) ? marked.filter((each) => each !== mention) : [...marked, mention],
                  )
                }
              />
              <span dir="auto">{chain.phrases[index]}</span>
            </label>
          ))}
        </fieldset>
      ) : (
        <p class="chain-phrases" dir="auto">
          “{chain.phrases[0]}”
        </p>
      )}
      <p class="row">
        {chain.mentions.length > 1 && (
          <button
            disabled={isBusy || !canSplit || chain.is_linking}
            onClick={() => onCorrect({ action: "split", mentions: marked })}
          >
            Split off
          </button>
        )}
        <button disabled={isBusy || chain.is_linking} onClick={() => onMode({ kind: "merge" })}>
          Merge with … <kbd>M</kbd>
        </button>
        <button disabled={isBusy || chain.is_linking} onClick={() => onMode({ kind: "box", moved: null })}>
          Draw a box <kbd>D</kbd>
        </button>
      </p>
      <ul class="chain-boxes">
        {chain.boxes.map((each, index) => (
          <li
            key={each.id}
            class={pointed?.box === each.id ? "is-pointed" : ""}
            onMouseEnter={() => onPoint({ place, box: each.id })}
            onMouseLeave={() => onPoint(null)}
            onFocusIn={() => onPoint({ place, box: each.id })}
          >
            <span>
              Box {boxNumber(chain, place, index)}{" "}
              <span class={each.model ? "chip is-model" : "soft"}>
                {each.model ? modelTag(each.model) : `by ${each.by}`}
              </span>{" "}
              {each.waits && <span class="soft">not judged yet</span>}
            </span>
            <span class="row-actions">
              <button class="link" disabled={isBusy} onClick={() => onMode({ kind: "box", moved: each })}>
                Move
              </button>
              <button
                class="link"
                disabled={isBusy}
                onClick={() => onDelete(each)}
              >
                Delete
              </button>
            </span>
          </li>
        ))}
      </ul>
      {!chain.is_linking && (
        <p class="row" role="group" aria-label="Decide">
          {isUnended(chain) && (
            <button disabled={isBusy} onClick={() => onCorrect({ action: "decide", ending: "complete" })}>
              All boxes are there <kbd>A</kbd>
            </button>
          )}
          {endings(chain).map(([ending, label]) => (
            <button key={ending} disabled={isBusy} onClick={() => onCorrect({ action: "decide", ending })}>
              {label}
            </button>
          ))}
        </p>
      )}
      <details>
        <summary>Types: {chain.types.join(", ")}</summary>
        <div class="types" role="group" aria-label="Types">
          {types.map((type) => (
            <label key={type} class="check">
              <input
                type="checkbox"
                disabled={isBusy || (chain.types.length === 1 && chain.types[0] === type)}
                checked={chain.types.includes(type)}
                onChange={() => onCorrect({ action: "retype", types: toggled(chain.types, type) })}
              />
              {type}
            </label>
          ))}
        </div>
      </details>
    </section>
  );
}

/** What people said to the lead's own question. */
function OwnAnswers({ answers }: { answers: readonly OwnAnswer[] }) {
  if (!answers.length) return null;
  const result = ({ answer, is_open }: OwnAnswer) =>
    is_open ? "people are asked" : typeof answer === "number" ? answer.toFixed(1) : (answer ?? "no majority");
  return (
    <details class="story" open>
      <summary>
        Answers: <span dir="auto">{answers[0]!.question}</span>
      </summary>
      <ol>
        {answers.map((each, place) => (
          <li key={place}>
            {each.phrase && <span dir="auto">“{each.phrase}” </span>}
            <b dir="auto">{result(each)}</b>
            {each.by.length > 0 && (
              <span class="soft" dir="auto">
                {" "}
                {each.by.map((who, at) => `${who}: ${each.answers[at]}`).join(", ")}
              </span>
            )}
          </li>
        ))}
      </ol>
    </details>
  );
}

function Disagreements({ entry }: { entry: GalleryEntry }) {
  if (!entry.disagreements.length) return null;
  const phrase = (mention: string) => {
    const chain = entry.chains.find(({ mentions }) => mentions.includes(mention));
    return chain?.phrases[chain.mentions.indexOf(mention)] ?? mention;
  };
  return (
    <details class="story" open>
      <summary>People disagreed ({entry.disagreements.length})</summary>
      <ol>
        {entry.disagreements.map(({ task, mention, answers }) => (
          <li key={`${task} ${mention} ${answers}`}>
            {mention && <span dir="auto">“{phrase(mention)}”</span>} {TASK_TEXTS[task].name}:{" "}
            {answers.map(([who, answer]) => `${who} ${answerLabel(task, answer)}`).join(", ")}
          </li>
        ))}
      </ol>
    </details>
  );
}

const isUnended = ({ boxes, stage }: GalleryChain) => boxes.length > 0 && stage !== "complete";

const stageName = (chain: GalleryChain) =>
  chain.stage === "not visual"
    ? chain.is_scene
      ? "scene or place"
      : "no box"
    : chain.stage in TASK_TEXTS
      ? `people are asked: ${describeStage(chain.stage)}`
      : describeStage(chain.stage);

function endings(chain: GalleryChain): [string, string][] {
  const now = chain.stage !== "not visual" ? "" : chain.is_scene ? "scene" : "no box";
  const all: [string, string][] = [
    ["scene", "Scene or place"],
    ["no box", "No box"],
    ["open", "Ask people again"],
  ];
  return all.filter(([ending]) => ending !== now);
}

const sameBox = (box: Box, other: readonly number[] | undefined) => other?.every((side, at) => side === box[at]) ?? false;

const toggled = (types: readonly string[], type: string) =>
  types.includes(type) ? types.filter((each) => each !== type) : [...types, type];

const middleOf = ({ width, height }: PhotoInfo): Box => [0.3 * width, 0.3 * height, 0.7 * width, 0.7 * height];
