import { useEffect, useRef, useState } from "preact/hooks";
import type { Box } from "../api";
import type { Guideline, PhotoInfo, QualificationTest, QuestionInfo } from "./schema";
import { Answers } from "./answers";
import { Captions } from "./captions";
import type { WorkQueue } from "./work_queue";
import { BadPhrase, Comment, Help } from "./dialogs";
import { keepDraft, readDraft, type Draft } from "./drafts";
import { Drawing, type DrawingControl } from "./drawing";
import { Frame, type FrameControl } from "./frame";
import { Guide } from "./guidelines";
import { GroupSorter, groupPlaces, groupsAlone, type Groups } from "./groups";
import { isKey, useKeys } from "./keys";
import { Overlay, type StyledBox } from "./overlay";
import { acceptedBoxes, judgedBoxes, proposalLine, proposedBoxes } from "./proposals";
import { QuestionText } from "./question_text";
import { CANCEL, TASK_TEXTS, describeTest, isWritten, stepChoices, type Choice, type Step } from "./tasks";

// A key pressed twice by mistake must not answer the next question too.
const TOO_SOON_MS = 250;
const FAST_STEP = 6;
const MAX_TEXT = 500;
// What may be below the edge without hiding a word.
const HIDDEN_PX = 6;
const ARROWS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

interface Props {
  queue: WorkQueue;
  question: QuestionInfo;
  hasPicture: boolean;
  guideline: Guideline | null;
  testOf: QualificationTest | null;
  isGuideOpen: boolean;
  onGuide: (isOpen: boolean) => void;
}

/** One question: the photo, what is asked about it, and the ways to answer. */
export function Work({ queue, question, hasPicture, guideline, testOf, isGuideOpen, onGuide }: Props) {
  const [open, setOpen] = useState<"comment" | "bad phrase" | "help" | null>(null);
  const [draft] = useState(() => readDraft(question.token));
  const [remark, setRemark] = useState(draft.remark);
  const [groups, setGroups] = useState(() => draft.groups ?? groupsAlone(question));
  const [text, setText] = useState(draft.text);
  const [unsent, setUnsent] = useState(draft.comment);
  const [box, setBox] = useState<Box | null>(null);
  const [step, setStep] = useState<Step | null>(question.task === "quality" && draft.box ? "adjusted" : null);
  const [hasMore, setMore] = useState(false); // below the edge
  const [isAllShown, setAllShown] = useState<boolean | null>(null); // not measured yet
  const [accepted, setAccepted] = useState(-1);
  const [isReady, setReady] = useState(false);
  const [isSettled, setSettled] = useState(false);
  const frame = useRef<FrameControl>(null);
  const drawing = useRef<DrawingControl>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const asked = useRef<HTMLDivElement>(null);
  const shownFor = useRef(0);

  const asking = TASK_TEXTS[question.task];
  const isDrawing = question.task === "drawing" || step === "adjusted";
  const choices = step ? stepChoices(step, question) : asking.choices(question);
  const proposed = proposedBoxes(question);
  const canAnswer = isReady && isSettled && isAllShown === true;

  // Captions, or the phrases to sort, must have been on the screen: what does not fit has to be scrolled to.
  const lookAtEnd = () => {
    const shown = asked.current;
    const captions = shown?.querySelector(".captions");
    const last = question.task === "group" ? shown?.querySelector(".groups") : captions;
    if (!shown || !captions || !last) return;
    const isBelow = (part: Element) => bottomOf(part) - bottomOf(shown) > HIDDEN_PX;
    const isHidden = isBelow(last);
    setMore(isBelow(captions));
    clearTimeout(shownFor.current); // what was there for a moment, while the page was laid out, was not seen
    shownFor.current = window.setTimeout(() => setAllShown((was) => was || !isHidden), TOO_SOON_MS);
  };
  useEffect(() => {
    const watched = new ResizeObserver(lookAtEnd);
    watched.observe(asked.current!);
    return () => {
      watched.disconnect();
      clearTimeout(shownFor.current);
    };
  }, []);
  const kept = useRef(draft);
  const keep = (part: Partial<Draft>) => {
    kept.current = { ...kept.current, ...part };
    keepDraft(question.token, kept.current);
  };

  const sortInto = (sorted: Groups) => {
    setGroups(sorted);
    keep({ groups: sorted });
  };

  useEffect(() => {
    if (document.activeElement === document.body) heading.current?.focus();
    const settled = setTimeout(() => setSettled(true), TOO_SOON_MS);
    return () => clearTimeout(settled);
  }, []);

  // Asked of the drawing itself: a key may come before a change of the box is painted.
  const boxNow = () => drawing.current?.box() ?? null;
  const leaveStep = () => {
    setStep(null);
    setBox(null);
    keep({ box: null });
  };
  const showMore = () => asked.current?.scrollBy({ top: 0.8 * asked.current.clientHeight });
  const answer = ({ answer: said, key, box: wrong }: Choice) => {
    if (said === CANCEL && step) return leaveStep();
    if (isAllShown === false) {
      queue.tell({ line: "There is more below. Look at it, then answer.", kind: "plain" });
      requestAnimationFrame(() => requestAnimationFrame(showMore)); // the notice takes room
      return;
    }
    if (!canAnswer)
      return queue.tell({ line: isReady ? "That was too soon for this question. Press it again." : "The photo is not here yet.", kind: "plain" });
    if (isWritten(question)) return text.trim() ? send(text, null) : undefined;
    if (question.own || said === "grouped") return send(said, null);
    const drawn = key === "Enter" ? boxNow() : (wrong ?? null);
    if (key === "Enter" && !drawn) return;
    if (said === "adjusted" && !drawn) return setStep(said);
    if (said === "wrong box" && !drawn) {
      if (question.boxes.length > 1) return setStep(said);
      return send(said, question.boxes[0]!);
    }
    if (said === "no more" && boxNow())
      return queue.tell({ line: "There is a box. Send it with Enter, or remove it with Esc first.", kind: "plain" });
    send(said, drawn);
  };
  const send = (said: string, drawn: Box | null) => {
    const sorted = question.task === "group" ? { groups: groups.map((group) => [...group]) } : {};
    queue.answer(question, { answer: said, box: drawn, remark, guideline: guideline?.version ?? null, ...sorted });
  };
  const skip = (badPhrase: string | null, said = remark) =>
    isSettled && queue.skip(question, { bad_phrase: badPhrase, remark: said });
  const accept = () => {
    const wanted = proposed[accepted + 1];
    if (!wanted) return;
    setAccepted(accepted + 1);
    drawing.current?.put(wanted);
  };
  const begin = () => drawing.current?.put(middleOf(question.photo));

  const leave = () => {
    if (step) leaveStep();
    else if (boxNow()) drawing.current?.remove();
    else if (isGuideOpen) onGuide(false);
  };
  const keys: Record<string, () => void> = {
    "+": () => frame.current?.zoom(1),
    "=": () => frame.current?.zoom(1),
    "-": () => frame.current?.zoom(-1),
    "0": () => frame.current?.zoom(0),
    u: () => queue.undo(),
    s: () => skip(null),
    c: () => setOpen("comment"),
    ...(question.mentions.length && { x: () => setOpen("bad phrase") }),
    g: () => onGuide(!isGuideOpen),
    "?": () => setOpen("help"),
    escape: leave,
    ...(question.task === "drawing" && { a: accept, b: begin, delete: leave, backspace: leave }),
  };
  const move = ([right, down]: [number, number], event: KeyboardEvent) => {
    const step = event.repeat ? FAST_STEP : 1;
    const hasMoved = drawing.current?.nudge(right * step, down * step, event.shiftKey);
    if (!hasMoved) frame.current?.pan(right, down);
  };

  useKeys((key, event) => {
    const arrow = isKey(event, key) ? ARROWS[key] : undefined;
    if (arrow) move(arrow, event);
    if (arrow || event.repeat) return Boolean(arrow);
    const isUndo = (event.ctrlKey || event.metaKey) && key.toLowerCase() === "z";
    const choice = choices.find((each, place) => isKey(event, each.key) || isKey(event, `${place + 1}`));
    const chosen = choice && (() => answer(choice));
    const act = isUndo ? keys.u : (chosen ?? (isKey(event, key) ? keys[key.toLowerCase()] : undefined));
    act?.();
    return Boolean(act);
  });

  return (
    <main
      class={`work${isGuideOpen && guideline ? " has-guide" : ""}`}
      style={{ "--photo-ratio": question.photo.height / question.photo.width }}
    >
      <Frame
        photo={question.photo}
        hasPicture={hasPicture}
        label="Photo"
        control={frame}
        isDrawing={isDrawing}
        onReady={setReady}
      >
        <Overlay photo={question.photo} boxes={laidOut(question, accepted >= 0 ? [] : proposed, step)} />
        {isDrawing && (
          <Drawing
            photo={question.photo}
            initial={draft.box ?? question.new_box}
            control={drawing}
            onBox={(drawn) => {
              setBox(drawn);
              keep({ box: drawn });
            }}
            onUndo={() => queue.undo()}
          />
        )}
      </Frame>
      <section class="asking" aria-label="Question">
        <div class="asked-about" ref={asked} onScroll={lookAtEnd}>
          <p class="task-line">
            <span class="task-name">{asking.name}</span>
            {question.test && (
              <span class="chip">
                Test question{testOf && testOf.of > 0 ? ` ${describeTest(testOf)}` : ""}
              </span>
            )}
          </p>
          <h1 ref={heading} tabIndex={-1}>
            <QuestionText question={question} />
          </h1>
          {question.task === "group" && <GroupSorter question={question} groups={groups} onGroups={sortInto} />}
          {question.proposal && (
            <p class="suggestion">
              <span class="chip is-model">{proposalLine(question)}</span>
              {accepted + 1 < proposed.length && (
                <button onClick={accept}>
                  <kbd>A</kbd> {accepted < 0 ? "Take it" : "Take the next one"}
                </button>
              )}
            </p>
          )}
          {isWritten(question) && (
            <form class="written-answer" onSubmit={(event) => (event.preventDefault(), answer(choices[0]!))}>
              <input
                type="text"
                aria-label="Your answer"
                autocomplete="off"
                maxLength={MAX_TEXT}
                value={text}
                dir="auto"
                onInput={({ currentTarget: { value } }) => (setText(value), keep({ text: value }))}
              />
            </form>
          )}
          <p class={question.own ? "hint is-needed" : "hint"}>{asking.hint(question)}</p>
          <Captions
            captions={question.captions}
            mentions={question.mentions.map(({ id }) => id)}
            isOneColour={question.task !== "link"}
            places={question.task === "group" ? groupPlaces(question, groups) : undefined}
          />
          {isDrawing && (
            <p class="hint drawing-hint">
              {box ? (
                <>
                  Drag its sides and corners
                  <span class="by-keys">, or use the arrow keys; with Shift they resize it</span>.
                </>
              ) : (
                <>
                  Drag over the photo, or{" "}
                  <button class="link" onClick={begin}>
                    begin in the middle
                  </button>
                  <span class="by-keys">
                    {" "}
                    <kbd>B</kbd> and use the arrow keys
                  </span>
                  .
                </>
              )}
            </p>
          )}
          {unsent && (
            <p class="kept-remark">
              <button class="link" onClick={() => setOpen("comment")}>
                Your comment is not finished
              </button>{" "}
              <kbd>C</kbd>
            </p>
          )}
          {remark && (
            <p class="kept-remark">
              <span class="soft">Your comment goes with the answer:</span> <span dir="auto">{remark}</span>
            </p>
          )}
        </div>
        {hasMore && (
          <button class="more-below" onClick={showMore}>
            More below ↓
          </button>
        )}
        <Answers choices={choices} canAnswer={canAnswer} hasBox={box !== null || question.task === "group" || Boolean(text.trim())} onAnswer={answer} />
        <Tools
          canUndo={queue.canUndo}
          hasPhrases={question.mentions.length > 0}
          isGuideOpen={isGuideOpen}
          onUndo={() => queue.undo()}
          onSkip={() => skip(null)}
          onOpen={setOpen}
          onGuide={() => onGuide(!isGuideOpen)}
        />
      </section>
      {isGuideOpen && guideline && (
        <aside class="guide-panel" aria-label="Guidelines">
          <button class="quiet guide-close" onClick={() => onGuide(false)}>
            Hide <kbd>G</kbd>
          </button>
          <Guide task={question.task} guideline={guideline} />
        </aside>
      )}
      {open === "comment" && (
        <Comment
          remark={unsent || remark}
          onClose={(text) => {
            const isChanged = text !== remark;
            setUnsent(isChanged ? text : "");
            keep({ comment: isChanged ? text : "" });
            setOpen(null);
          }}
          onKeep={(said) => {
            setRemark(said);
            setUnsent("");
            keep({ comment: "", remark: said });
            setOpen(null);
          }}
          onSkip={(said) => skip(null, said)}
        />
      )}
      {open === "bad phrase" && (
        <BadPhrase mentions={question.mentions} onClose={() => setOpen(null)} onChoose={(id) => skip(id)} />
      )}
      {open === "help" && <Help question={question} onClose={() => setOpen(null)} />}
    </main>
  );
}

interface ToolsProps {
  canUndo: boolean;
  hasPhrases: boolean;
  isGuideOpen: boolean;
  onUndo: () => void;
  onSkip: () => void;
  onOpen: (what: "comment" | "bad phrase" | "help") => void;
  onGuide: () => void;
}

function Tools({ canUndo, hasPhrases, isGuideOpen, onUndo, onSkip, onOpen, onGuide }: ToolsProps) {
  return (
    <div class="tools" role="group" aria-label="More">
      <button class="quiet" disabled={!canUndo} onClick={onUndo}>
        <kbd>U</kbd> Undo
      </button>
      <button class="quiet" onClick={onSkip}>
        <kbd>S</kbd> Skip
      </button>
      <button class="quiet" onClick={() => onOpen("comment")}>
        <kbd>C</kbd> Comment
      </button>
      <button class="quiet" disabled={!hasPhrases} onClick={() => onOpen("bad phrase")}>
        <kbd>X</kbd> Bad phrase
      </button>
      <button class="quiet" aria-pressed={isGuideOpen} onClick={onGuide}>
        <kbd>G</kbd> Guidelines
      </button>
      <button class="quiet by-keys" onClick={() => onOpen("help")}>
        <kbd>?</kbd> Keys
      </button>
    </div>
  );
}

/** The boxes that are looked at, not drawn. */
function laidOut(question: QuestionInfo, proposed: readonly Box[], step: Step | null): StyledBox[] {
  const judged = step === "adjusted" ? [] : judgedBoxes(question);
  const suggested = proposed.map((box): StyledBox => ({ box, look: "asked", isModel: true, tag: "model" }));
  return [...acceptedBoxes(question), ...judged, ...suggested];
}

const bottomOf = (element: Element) => element.getBoundingClientRect().bottom;

const middleOf = ({ width, height }: PhotoInfo): Box => [0.3 * width, 0.3 * height, 0.7 * width, 0.7 * height];
