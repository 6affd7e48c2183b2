// The question with the phrases it is about, each in the colour of its marks in the captions.
import { markOf } from "../colours";
import type { QuestionInfo } from "./schema";
import { TASK_TEXTS } from "./tasks";

export function QuestionText({ question }: { question: QuestionInfo }) {
  const parts = TASK_TEXTS[question.task].question(question).split(/\u2068(.*?)\u2069/su);
  return (
    <>
      {parts.map((text, place) => {
        if (place % 2 === 0) return text;
        const colour = markOf(question.task === "link" ? (place - 1) / 2 : 0).colour;
        return (
          <mark key={place} class="asked" dir="auto" style={{ "--mark": colour }}>
            {text}
          </mark>
        );
      })}
    </>
  );
}
