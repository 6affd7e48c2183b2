// What a test question teaches: the answer that was given, the right one, and why.
import { useEffect, useRef } from "preact/hooks";
import type { Box } from "../api";
import type { Guideline, QuestionInfo } from "./schema";
import { Captions } from "./captions";
import { Frame } from "./frame";
import { Guide } from "./guidelines";
import { isKey, useKeys } from "./keys";
import { Overlay, type StyledBox } from "./overlay";
import { acceptedBoxes, judgedBoxes } from "./proposals";
import { QuestionText } from "./question_text";
import { TASK_TEXTS, answerLabel, describeTest } from "./tasks";
import type { Taught } from "./work_queue";

const TOO_SOON_MS = 250;

interface Props {
  taught: Taught;
  hasPicture: boolean;
  guideline: Guideline | null;
  isGuideOpen: boolean;
  onProceed: () => void;
}

export function LessonView({ taught: { question, said, lesson, standing }, hasPicture, guideline, isGuideOpen, onProceed }: Props) {
  const button = useRef<HTMLButtonElement>(null);
  const shownAt = useRef(performance.now());
  useEffect(() => button.current?.focus(), []);
  // A key that was pressed twice to answer must not leave the lesson.
  const proceed = () => {
    if (performance.now() - shownAt.current > TOO_SOON_MS) onProceed();
  };
  useKeys((_, event) => {
    if (!isKey(event, "Enter") || event.repeat) return false;
    proceed();
    return true;
  });
  const answer = said.kind === "answer" ? said.answer : "";
  const drawn = said.kind === "answer" ? said.box : null;
  const labelled = (each: string) => answerLabel(question.task, each);
  const examples = guideline?.examples.filter((each) => each.answer === lesson.answer) ?? [];
  return (
    <main class={`work${isGuideOpen && guideline ? " has-guide" : ""}`}>
      <Frame photo={question.photo} hasPicture={hasPicture} label="Photo" isDrawing={false} onReady={() => undefined}>
        <Overlay photo={question.photo} boxes={laidOut(question, drawn, lesson.boxes)} />
      </Frame>
      <section class="asking lesson" aria-label="What was right">
        <div class="asked-about">
          <p class="task-line">
            <span class="task-name">{TASK_TEXTS[question.task].name}</span>
            {standing?.test && <span class="chip">Test: {describeTest(standing.test, false)}</span>}
          </p>
          <h1>
            <QuestionText question={question} />
          </h1>
          <p class={`verdict ${lesson.correct ? "is-good" : "is-trouble"}`} role="status">
            <b>{lesson.correct ? "That was right." : "That was not right."}</b> You answered “{labelled(answer)}”.
            {!lesson.correct && answer !== lesson.answer && ` The right answer is “${labelled(lesson.answer)}”.`}
          </p>
          {lesson.why && (
            <p class="why" dir="auto">
              {lesson.why}
            </p>
          )}
          {!lesson.correct && examples.length > 0 && (
            <>
              <p class="hint">From the guidelines, also “{labelled(lesson.answer)}”:</p>
              <ul class="examples">
                {examples.map((example, place) => (
                  <li key={place} dir="auto">
                    {example.shown}
                    {example.why && ` – ${example.why}`}
                  </li>
                ))}
              </ul>
            </>
          )}
          <Captions
            captions={question.captions}
            mentions={question.mentions.map(({ id }) => id)}
            isOneColour={question.task !== "link"}
          />
        </div>
        <div class="answers" role="group" aria-label="Answers">
          <button ref={button} class="answer is-main" onClick={proceed}>
            <kbd>Enter</kbd>
            <span>Next question</span>
          </button>
        </div>
      </section>
      {isGuideOpen && guideline && (
        <aside class="guide-panel is-beside" aria-label="Guidelines">
          <Guide task={question.task} guideline={guideline} />
        </aside>
      )}
    </main>
  );
}

function laidOut(question: QuestionInfo, drawn: Box | null, right: readonly Box[]): StyledBox[] {
  return [
    ...acceptedBoxes(question).map((each): StyledBox => ({ ...each, look: "other" })),
    ...right.map((box): StyledBox => ({ box, look: "right", tag: "annotators" })),
    ...(drawn ? [{ box: drawn, look: "asked", tag: "yours" } as StyledBox] : judgedBoxes(question)),
  ];
}
