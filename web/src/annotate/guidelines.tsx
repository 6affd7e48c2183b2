import { useState } from "preact/hooks";
import * as api from "./api";
import type { Example, Guideline, SessionResponse, Task } from "./schema";
import { FormattedText } from "./formatted_text";
import { TASK_TEXTS, answerLabel } from "./tasks";
import { mayLeave, useUnsaved } from "./unsaved";

/** What an answer should mind, with examples. */
export function Guide({ task, guideline }: { task: Task; guideline: Guideline }) {
  return (
    <div class="guide">
      <h2>{TASK_TEXTS[task].name}</h2>
      <FormattedText text={guideline.text} />
      {guideline.examples.length > 0 && <h3>Examples</h3>}
      <ul class="examples">
        {guideline.examples.map((example, place) => (
          <li key={place}>
            <p class="example-shown" dir="auto">
              {example.shown}
            </p>
            <p>
              <strong>{answerLabel(task, example.answer)}</strong>
              {example.why && <span dir="auto"> – {example.why}</span>}
            </p>
          </li>
        ))}
      </ul>
    </div>
  );
}

interface PageProps {
  guidelines: api.Guidelines;
  isOwner: boolean;
  answers: SessionResponse["tasks"];
  onChange: (guidelines: api.Guidelines) => void;
}

/** All guidelines; their owner can edit them. */
export function GuidelinesPage({ guidelines, isOwner, answers, onChange }: PageProps) {
  const [edited, setEdited] = useState<Task | null>(null);
  return (
    <main class="page is-narrow" tabIndex={-1}>
      <h1>Guidelines</h1>
      {isOwner && <p class="lead">Everybody sees them beside the questions. Change what your photos need.</p>}
      {api.TASKS.flatMap((task) => (guidelines[task] ? [{ task, guideline: guidelines[task] }] : [])).map(({ task, guideline }) => (
        <section key={task} class="card">
          {edited === task ? (
            <Edit
              task={task}
              answers={answers[task] ?? []}
              guideline={guideline}
              onDone={(said) => {
                if (said) onChange({ ...guidelines, [task]: said });
                setEdited(null);
              }}
            />
          ) : (
            <>
              <Guide task={task} guideline={guideline} />
              {isOwner && (
                <button class="card-action" onClick={() => mayLeave() && setEdited(task)} aria-label={`Edit: ${TASK_TEXTS[task].name}`}>
                  Edit
                </button>
              )}
            </>
          )}
        </section>
      ))}
    </main>
  );
}

interface EditProps {
  task: Task;
  answers: readonly string[]; // empty if people write them
  guideline: Guideline;
  onDone: (said: Guideline | null) => void;
}

function Edit({ task, answers, guideline, onDone }: EditProps) {
  const [text, setText] = useState(guideline.text);
  const [examples, setExamples] = useState(guideline.examples);
  const [failure, setFailure] = useState("");
  const isEdited = text !== guideline.text || JSON.stringify(examples) !== JSON.stringify(guideline.examples);
  useUnsaved(isEdited ? "the guideline" : "");
  const change = (place: number, what: Partial<Example>) =>
    setExamples(examples.map((each, at) => (at === place ? { ...each, ...what } : each)));
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      onDone(await api.putGuideline(task, { text, examples: examples.filter(({ shown }) => shown.trim()) }));
    } catch (error) {
      setFailure(api.errorMessage(error));
    }
  };
  return (
    <form class="edit" onSubmit={save}>
      <h2>{TASK_TEXTS[task].name}</h2>
      <label>
        Text <span class="soft">(an empty line begins a paragraph, “- ” a list)</span>
        <textarea
          dir="auto"
          rows={8}
          maxLength={10000}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <h3>Examples</h3>
      {examples.map((example, place) => (
        <fieldset key={place} class="example-edit">
          <legend class="unseen">Example {place + 1}</legend>
          <label>
            Shown
            <input
              dir="auto"
              maxLength={500}
              value={example.shown}
              onInput={(event) => change(place, { shown: event.currentTarget.value })}
            />
          </label>
          <label>
            Answer
            {answers.length ? (
              <select value={example.answer} onChange={(event) => change(place, { answer: event.currentTarget.value })}>
                {answers.map((answer) => (
                  <option key={answer} value={answer}>
                    {answerLabel(task, answer)}
                  </option>
                ))}
              </select>
            ) : (
              <input dir="auto" value={example.answer} onInput={(event) => change(place, { answer: event.currentTarget.value })} />
            )}
          </label>
          <label class="is-wide">
            Why
            <input
              dir="auto"
              maxLength={500}
              value={example.why}
              onInput={(event) => change(place, { why: event.currentTarget.value })}
            />
          </label>
          <button type="button" class="quiet" onClick={() => setExamples(examples.filter((_, at) => at !== place))}>
            Remove
          </button>
        </fieldset>
      ))}
      <p class="row">
        <button
          type="button"
          disabled={examples.length >= 20}
          onClick={() => setExamples([...examples, { shown: "", answer: answers[0] ?? "", why: "" }])}
        >
          Add an example
        </button>
      </p>
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      <p class="row">
        <button class="main" type="submit">
          Save
        </button>
        <button type="button" onClick={() => onDone(null)}>
          Cancel
        </button>
      </p>
    </form>
  );
}
