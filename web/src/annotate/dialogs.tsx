import { useState } from "preact/hooks";
import type { MentionInfo, QuestionInfo } from "./schema";
import { Dialog } from "./dialog";
import { proposedBoxes } from "./proposals";
import { TASK_TEXTS } from "./tasks";

const LONGEST = 1000;

interface CommentProps {
  remark: string;
  onClose: (text: string) => void; // not sent, and not lost
  onKeep: (remark: string) => void;
  onSkip: (remark: string) => void;
}

export function Comment({ remark, onClose, onKeep, onSkip }: CommentProps) {
  const [text, setText] = useState(remark);
  return (
    <Dialog title="A comment on this question" onClose={() => onClose(text.trim())}>
      <form
        class="edit"
        onSubmit={(event) => {
          event.preventDefault();
          onKeep(text.trim());
        }}
      >
        <label>
          What should a reviewer know?
          <textarea
            dir="auto"
            rows={4}
            maxLength={LONGEST}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onKeep(text.trim());
            }}
          />
        </label>
        <p class="row">
          <button class="main" type="submit">
            Send it with my answer
          </button>
          <button type="button" disabled={!text.trim()} onClick={() => onSkip(text.trim())}>
            Send it and skip the question
          </button>
        </p>
      </form>
    </Dialog>
  );
}

interface BadPhraseProps {
  mentions: readonly MentionInfo[];
  onClose: () => void;
  onChoose: (id: string) => void;
}

export function BadPhrase({ mentions, onClose, onChoose }: BadPhraseProps) {
  const keyed = (event: KeyboardEvent) => {
    const mention = mentions[Number(event.key) - 1];
    if (mention) onChoose(mention.id);
  };
  return (
    <Dialog title="A bad phrase" onClose={onClose}>
      <div onKeyDown={keyed}>
        <p class="hint">
          For words that were marked wrongly: half a phrase, two phrases in one, or no phrase at all. The question is
          given back.
        </p>
        <div class="answers">
          {mentions.map(({ id, text }, place) => (
            <button key={id} class="answer" onClick={() => onChoose(id)}>
              <kbd>{place + 1}</kbd>
              <span dir="auto">“{text}” is a bad phrase</span>
            </button>
          ))}
        </div>
      </div>
    </Dialog>
  );
}

export function Help({ question, onClose }: { question: QuestionInfo; onClose: () => void }) {
  const isDrawing = question.task === "drawing";
  const lines: [string[], string][] = [
    ...TASK_TEXTS[question.task].choices(question).map(({ key, label }): [string[], string] => [[key], label]),
    ...(isDrawing
      ? ([
          [["B"], "A box in the middle of the photo"],
          [["← ↑ ↓ →"], "Move the box by a pixel; hold to go faster"],
          [["Shift", "← ↑ ↓ →"], "Its right and lower sides"],
          [["Esc"], "Remove the box"],
          ...(proposedBoxes(question).length ? [[["A"], "Take the suggested box"]] : []),
        ] as [string[], string][])
      : []),
    [["+", "−", "0"], "Larger, smaller, fit; or Ctrl and the wheel, or two fingers"],
    [["U"], "Take the last answer back"],
    [["S"], "Skip: give the question back"],
    [["C"], "A comment for the reviewers"],
    [["X"], "A phrase that is none"],
    [["G"], "Guidelines"],
  ];
  return <Keys lines={lines} onClose={onClose} />;
}

export function Keys({ lines, onClose }: { lines: readonly [string[], string][]; onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {lines.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd dir="auto">{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
