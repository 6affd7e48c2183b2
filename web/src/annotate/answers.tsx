import type { Choice } from "./tasks";

interface Props {
  choices: readonly Choice[];
  canAnswer: boolean;
  hasBox: boolean;
  onAnswer: (choice: Choice) => void;
}

/** The ways to answer, each with its key; none looks more right than another. Those that cannot be pressed yet keep the focus. */
export function Answers({ choices, canAnswer, hasBox, onAnswer }: Props) {
  const isRating = choices.every(({ key, label }) => key === label);
  const sendsBox = choices.some(({ key }) => key === "Enter");
  return (
    <div class={`answers${choices.length > 3 ? " is-dense" : ""}${isRating ? " is-rating" : ""}`} role="group" aria-label="Answers">
      {choices.map((choice) => {
        const { answer, key, label } = choice;
        const isOff = !canAnswer || (key === "Enter" ? !hasBox : answer === "no more" && hasBox);
        return (
          <button
            key={`${answer} ${label}`}
            class={sendsBox && key === "Enter" ? "answer is-main" : "answer"}
            aria-disabled={isOff}
            aria-keyshortcuts={key}
            onClick={() => onAnswer(choice)}
          >
            {!isRating && <kbd>{key}</kbd>}
            <span>{label}</span>
          </button>
        );
      })}
    </div>
  );
}
