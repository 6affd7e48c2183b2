import { useEffect, useRef, useState } from "preact/hooks";
import type { Box } from "../api";
import * as api from "./api";
import type { GalleryBox, HistoryResponse, ReviewInfo, SessionResponse } from "./schema";
import { Captions } from "./captions";
import { Frame } from "./frame";
import { isKey, useKeys } from "./keys";
import { Overlay, type StyledBox } from "./overlay";
import { boxTag, modelTag } from "./proposals";
import { describeJudgement, describeStage, describeWho } from "./tasks";

const DECISIONS: Record<string, string> = {
  box: "A box can be drawn: ask people to draw it",
  scene: "It is the scene or the place",
  "no box": "No box can be drawn",
  all: "All boxes are there",
  more: "A box is missing: ask people to draw it",
  keep: "Keep the phrase",
  drop: "Drop the phrase",
  seen: "Read, nothing to do",
  yes: "Yes, the same",
  no: "No, not the same",
  good: "The box is good",
  bad: "The box is bad",
  right: "The region is right",
  wrong: "The region is wrong",
  "ask again": "Ask those who skipped it again",
};

/** What waits for a reviewer: one thing at a time, with all that was said about it. */
export function ReviewPage({ session }: { session: SessionResponse }) {
  const [items, setItems] = useState<ReviewInfo[] | null>(null);
  const [total, setTotal] = useState(0);
  const [at, setAt] = useState(0);
  const [failure, setFailure] = useState("");
  const [decided, setDecided] = useState<{ event: number; line: string } | null>(null);
  const isSending = useRef(false); // a second press would decide on the next one unseen
  const shown = useRef("");

  const look = async () => {
    try {
      const found = await api.review();
      setItems(found.items);
      setTotal(found.total);
      const same = found.items.findIndex((each) => keyOf(each) === shown.current);
      setAt((place) => (same >= 0 ? same : Math.min(place, Math.max(0, found.items.length - 1))));
    } catch (error) {
      setFailure(api.errorMessage(error));
    }
  };
  useEffect(() => void look(), []);

  const item = items?.[at];
  shown.current = item ? keyOf(item) : "";
  const attempt = async (work: () => Promise<void>) => {
    if (isSending.current) return;
    isSending.current = true;
    setFailure("");
    try {
      await work();
    } catch (error) {
      setFailure(api.errorMessage(error));
    } finally {
      isSending.current = false;
    }
    await look();
  };
  /** Go on at once: to list a long queue again takes a while. */
  const remove = (gone: ReviewInfo) => {
    setItems((listed) => listed && listed.filter((each) => each !== gone));
    setAt((place) => Math.max(0, Math.min(place, (items?.length ?? 0) - 2)));
  };
  const decide = (decision: string) =>
    item &&
    attempt(async () => {
      if (decision === "seen") {
        await api.seen(item.photo.id);
        remove(item);
        return setDecided(null);
      }
      const { event } = await api.decide(item.photo.id, item.mention, decision);
      setDecided({ event, line: `“${item.phrase}”: ${DECISIONS[decision]?.toLowerCase()}.` });
      remove(item);
    });
  const undo = (event: number) =>
    attempt(async () => {
      await api.undo(event);
      setDecided(null);
    });

  const go = (by: number) => setAt(Math.max(0, Math.min(at + by, (items?.length ?? 0) - 1)));
  useKeys((key, event) => {
    if (!isKey(event, key) || event.repeat) return false;
    const decision = item?.decisions[Number(key) - 1];
    const keys: Record<string, () => unknown> = {
      j: () => go(1),
      ArrowDown: () => go(1),
      k: () => go(-1),
      ArrowUp: () => go(-1),
      ...(decided && { u: () => undo(decided.event) }),
      ...(item && canDraw(item) && { d: () => location.assign(galleryOf(item, "/draw")) }),
      ...(item?.can_split && { s: () => location.assign(galleryOf(item)) }),
    };
    const act = decision ? () => decide(decision) : keys[key];
    act?.();
    return Boolean(act);
  });

  if (!items) return <main class="notice">{failure || "One moment …"}</main>;
  return (
    <main class="review" tabIndex={-1}>
      <section class="review-list" aria-label="What waits">
        <h1>
          Review <span class="soft">{total.toLocaleString("en")}</span>
        </h1>
        <ol>
          {items.map((each, place) => (
            <li key={keyOf(each)}>
              <button
                class={`review-item${place === at ? " is-active" : ""}`}
                aria-current={place === at ? "true" : undefined}
                onClick={() => setAt(place)}
              >
                <span class="review-phrase" dir="auto">
                  {each.phrase}
                </span>
                <span class="soft">
                  {each.remark === null ? each.reason : "a comment"}
                  {each.holds_up && <span class="chip">holds up work</span>}
                </span>
              </button>
            </li>
          ))}
        </ol>
      </section>
      <p class="status" role="status">
        {failure && <span class="status-line is-trouble">{failure}</span>}
        {decided && !failure && (
          <span class="status-line is-good">
            {decided.line}{" "}
            <button class="link" onClick={() => void undo(decided.event)}>
              Undo <kbd>U</kbd>
            </button>
          </span>
        )}
      </p>
      {item ? (
        <Item
          key={keyOf(item)}
          item={item}
          session={session}
          onDecide={(said) => void decide(said)}
          onUndo={undo}
        />
      ) : (
        <div class="notice">
          <h1>Nothing waits for you.</h1>
          <p>
            Phrases on which people disagree, questions that nobody is left to answer, phrases that they call bad, and
            their comments come here.
          </p>
        </div>
      )}
    </main>
  );
}

interface ItemProps {
  item: ReviewInfo;
  session: SessionResponse;
  onDecide: (decision: string) => void;
  onUndo: (event: number) => void;
}

function Item({ item, session, onDecide, onUndo }: ItemProps) {
  const [story, setStory] = useState<HistoryResponse | null>(null);
  useEffect(() => {
    api.story(item.photo.id).then(setStory, () => undefined);
  }, []);
  const chain = story?.chains.find(({ mentions }) => mentions.includes(item.mention));
  const mentions = item.mentions.length > 1 ? item.mentions : (chain?.mentions ?? [item.mention]);
  const captions = story?.captions.filter(({ parts }) =>
    parts.some(({ mention }) => mention && mentions.includes(mention)),
  );
  return (
    <>
      <Frame photo={item.photo} hasPicture={session.photos} label="Photo">
        <Overlay photo={item.photo} boxes={item.region ? [regionOf(item.region)] : laidOut(chain?.boxes ?? [])} />
      </Frame>
      <section class="asking" aria-label="To decide">
        <p class="task-line">
          <span class="task-name">{item.remark === null ? sentence(item.reason) : "A comment"}</span>
        </p>
        <h2 class="asked-phrase" dir="auto">
          “{item.phrase}”
        </h2>
        {item.remark !== null && (
          <blockquote class="said-remark" dir="auto">
            {item.remark}
          </blockquote>
        )}
        {captions && <Captions captions={captions} mentions={mentions} isOneColour />}
        <div class="answers is-dense" role="group" aria-label="Decisions">
          {item.decisions.map((decision, place) => (
            <button
              key={decision}
              class="answer"
              disabled={decision === "all" && chain?.boxes.every(({ waits }) => waits)}
              onClick={() => onDecide(decision)}
            >
              <kbd>{place + 1}</kbd>
              <span>{DECISIONS[decision] ?? decision}</span>
            </button>
          ))}
        </div>
        {canDraw(item) && (
          <p class="row">
            <a class="button" href={galleryOf(item, "/draw")}>
              Draw the box yourself <kbd>D</kbd>
            </a>
          </p>
        )}
        {item.can_split && (
          <p class="row">
            <a class="button" href={galleryOf(item)}>
              Split: choose the phrases that belong apart <kbd>S</kbd>
            </a>
          </p>
        )}
        <p class="hint" hidden={item.region !== null}>
          <a href={galleryOf(item)}>Correct it in the gallery</a>: draw, move and delete boxes, split and merge phrases.
        </p>
        {chain && (
          <details class="story" open={item.remark === null}>
            <summary>What was said ({chain.told.length})</summary>
            <ol>
              {chain.told.map((told) => (
                <li key={told.event}>
                  <b dir="auto">{describeWho(told)}</b> {describeJudgement(told.said)}
                  <span class="soft"> → {describeStage(told.led_to)}</span>
                  <button
                    class="link"
                    aria-label={`Take back: ${describeJudgement(told.said)} of ${describeWho(told)}`}
                    onClick={() => onUndo(told.event)}
                  >
                    take back
                  </button>
                </li>
              ))}
            </ol>
          </details>
        )}
      </section>
    </>
  );
}

const keyOf = ({ event, mention }: ReviewInfo) => `${event} ${mention}`;

/** People would be asked to draw, which the reviewer can do as well. */
const canDraw = ({ decisions }: ReviewInfo) => decisions.includes("box") || decisions.includes("more");

const galleryOf = ({ photo, mention }: ReviewInfo, what = "") =>
  `#/gallery/${encodeURIComponent(photo.id)}/${encodeURIComponent(mention)}${what}`;

const regionOf = (box: Box): StyledBox => ({ box, look: "asked", isModel: true, tag: "model" });

/** The boxes of a chain; the one that waits for a judgement is in question, if there is one. */
function laidOut(boxes: readonly GalleryBox[]): StyledBox[] {
  const isOneJudged = boxes.some(({ waits }) => waits);
  return boxes.map(({ xyxy, model, waits }, place) => ({
    box: xyxy,
    look: waits || !isOneJudged ? "asked" : "other",
    isModel: Boolean(model),
    tag: boxTag(`${place + 1}`, modelTag(model), waits && "not judged yet"),
  }));
}

const sentence = (line: string) => (line ? line[0]!.toUpperCase() + line.slice(1) : "");
