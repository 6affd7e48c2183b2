// Editing the phrases of the captions before workers are asked about them.
import { useEffect, useState } from "preact/hooks";
import { markOf } from "../colours";
import * as api from "./api";
import type { PhrasesResponse, SessionResponse } from "./schema";
import { Failure, useSubmit } from "./login";
import { Frame } from "./frame";
import { parseMentionId, splitWords, type Word } from "./caption_words";
import { useUnsaved } from "./unsaved";

interface Props {
  id: string;
  session: SessionResponse;
  onNext: (() => void) | undefined;
}

export function PhrasesPage({ id, session, onNext }: Props) {
  const [shown, setShown] = useState<PhrasesResponse | null>(null);
  const [phrases, setPhrases] = useState<api.Phrase[]>([]);
  const [chosen, setChosen] = useState("");
  const [begun, setBegun] = useState<{ caption: number; word: Word } | null>(null);
  const [isSaved, setSaved] = useState(false);
  const [refused, setRefused] = useState("");
  const { failure, isBusy, run } = useSubmit();

  const take = (found: PhrasesResponse) => {
    setShown(found);
    setPhrases(found.phrases.map(({ id: place, types }) => ({ id: place, types })));
  };
  useEffect(() => void run(async () => take(await api.phrases(id))), []);
  const isEdited = shown !== null && !isSaved && !isSame(phrases, shown.phrases);
  useUnsaved(isEdited ? "the phrases" : "");
  if (!shown) return <main class="notice">{failure || "One moment …"}</main>;

  const change = (to: api.Phrase[]) => {
    setPhrases(to);
    setSaved(false);
  };
  const press = (caption: number, word: Word) => {
    setRefused("");
    if (begun?.caption !== caption) return setBegun({ caption, word });
    const made = `${caption}:${Math.min(begun.word.start, word.start)}-${Math.max(begun.word.end, word.end)}`;
    setBegun(null);
    const other = phrases.find((phrase) => overlaps(phrase.id, made));
    if (other) {
      const { start, end } = parseMentionId(other.id);
      const text = shown.captions.find(({ number }) => number === caption)!.text;
      return setRefused(`This would overlap with “${[...text].slice(start, end).join("")}”. Remove that phrase first.`);
    }
    change([...phrases, { id: made, types: [] }]);
    setChosen(made);
  };
  const save = async () => {
    take(await api.putPhrases(id, phrases));
    setSaved(true);
    setChosen("");
  };
  const goOn = () =>
    void run(async () => {
      if (isEdited) await save();
      onNext?.();
    });

  const edited = phrases.find((phrase) => phrase.id === chosen);
  return (
    <main class="work phrases-work" tabIndex={-1}>
      <Frame photo={shown.photo} hasPicture={session.photos} label="Photo" />
      <section class="asking">
        <p class="task-line">
          <a href={`#/gallery/${id}`}>← Photo</a>
          <a href="#/gallery">← Gallery</a>
          {shown.begun && <span class="chip">people have begun here</span>}
        </p>
        <h1>Phrases</h1>
        <p class="hint">
          Questions are about these phrases. Put them right before people begin; afterwards a change is a reviewer’s
          decision.
        </p>
        <p class="hint">Press the first and the last word of a new phrase. Press a phrase to change or remove it.</p>
        {shown.captions.map(({ number, text }) => (
          <p key={number} class="sentence words" dir="auto">
            {splitWords(
              text,
              phrases.filter((phrase) => parseMentionId(phrase.id).caption === number),
            ).map((word) => {
              if (!word.isWord) return word.text;
              const isBegun = begun?.caption === number && begun.word.start === word.start;
              return (
                <button
                  key={word.start}
                  dir="auto"
                  class={
                    word.phrase
                      ? `word is-phrase${word.phrase === chosen ? " is-chosen" : ""}`
                      : `word${isBegun ? " is-begun" : ""}`
                  }
                  style={word.phrase ? { "--mark": markOf(0).colour } : undefined}
                  aria-pressed={word.phrase ? word.phrase === chosen : isBegun}
                  onClick={() =>
                    word.phrase ? setChosen(word.phrase === chosen ? "" : word.phrase) : press(number, word)
                  }
                >
                  {word.text}
                </button>
              );
            })}
          </p>
        ))}
        {edited && (
          <fieldset class="types">
            <legend>Types</legend>
            {session.types.map((type) => (
              <label key={type} class="check">
                <input
                  type="checkbox"
                  checked={edited.types.includes(type)}
                  onChange={() => change(phrases.map((each) => (each === edited ? withType(each, type) : each)))}
                />
                {type}
              </label>
            ))}
            <p class="hint">None: deixis finds them out.</p>
            <button
              onClick={() => {
                change(phrases.filter((each) => each !== edited));
                setChosen("");
              }}
            >
              Remove this phrase
            </button>
          </fieldset>
        )}
        <Failure line={failure || refused} />
        <p class="row">
          <button class="main" disabled={isBusy} onClick={() => void run(save)}>
            Save
          </button>
          {onNext && (
            <button disabled={isBusy} onClick={goOn}>
              {isEdited ? "Save, next photo →" : "Next photo →"}
            </button>
          )}
          <span role="status">{isSaved ? "Saved." : isEdited && "Not saved yet."}</span>
        </p>
      </section>
    </main>
  );
}

function isSame(one: readonly api.Phrase[], other: readonly api.Phrase[]): boolean {
  const text = (phrases: readonly api.Phrase[]) =>
    phrases
      .map(({ id, types }) => `${id} ${[...types].sort()}`)
      .sort()
      .join();
  return text(one) === text(other);
}

function withType(phrase: api.Phrase, type: string): api.Phrase {
  const types = phrase.types.includes(type) ? phrase.types.filter((each) => each !== type) : [...phrase.types, type];
  return { ...phrase, types };
}

function overlaps(one: string, other: string): boolean {
  const [a, b] = [parseMentionId(one), parseMentionId(other)];
  return a.caption === b.caption && a.start < b.end && b.start < a.end;
}
