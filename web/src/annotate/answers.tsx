import type { Question } from "./api";
import { TASK_TEXTS } from "./tasks";

interface Props {
  question: Question;
  canAnswer: boolean;
  hasBox: boolean;
  onAnswer: (answer: string) => void;
}

/** The ways to answer, each with its key; none looks more right than another. Those that cannot be pressed yet keep the focus. */
export function Answers({ question, canAnswer, hasBox, onAnswer }: Props) {
  return (
    <div class="answers" role="group" aria-label="Answers">
      {TASK_TEXTS[question.task].choices(question).map(({ answer, key, label }) => {
        const isOff = !canAnswer || (answer === "drawn" ? !hasBox : answer === "no more" && hasBox);
        return (
          <button
            key={answer}
            class={answer === "drawn" ? "answer is-main" : "answer"}
            aria-disabled={isOff}
            aria-keyshortcuts={key}
            onClick={() => !isOff && onAnswer(answer)}
          >
            <kbd>{key}</kbd>
            <span>{label}</span>
          </button>
        );
      })}
    </div>
  );
}
