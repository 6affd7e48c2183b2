import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { addressOf, HOME, usePlace, type Place } from "./address";
import * as api from "./api";
import { useDrop } from "./drop";
import { Grid, type Start } from "./grid";
import { PhotoView } from "./photo";
import { SearchBox } from "./search";
import { useFound, useLibrary } from "./lists";
import type { Spanned } from "./sentence";

export function App() {
  const [place, go] = usePlace();
  const [dropped, setDropped] = useState<File | null>(null);
  const [activePhrase, setActivePhrase] = useState<number | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const cameFrom = useRef<Start | null>(null);

  const sent = place.q || place.like ? null : dropped; // the address of a search goes before
  const isSearch = Boolean(place.q || place.like || sent);
  const library = useLibrary(!isSearch);
  const found = useFound(place, sent);
  const photos = isSearch ? (found.answer?.hits ?? NONE) : library.photos;
  const phrases = useMemo(() => phrasesOf(found.answer), [found.answer]);

  const searchFor = (file: File) => {
    cameFrom.current = null;
    setDropped(file);
    go({ ...HOME });
  };
  const isOver = useDrop(searchFor);

  useEffect(() => {
    document.title = place.q ? `${place.q} – deixis` : "deixis";
  }, [place.q]);

  const open = (index: number) => {
    const photo = photos[index];
    if (!photo) return;
    cameFrom.current = { id: photo.id, scroll: place.photo ? (cameFrom.current?.scroll ?? 0) : scrollY };
    go({ photo: photo.id }, place.photo ? "replace" : "push");
    if (!place.photo) scrollTo({ top: 0 });
  };
  const close = () => go({ photo: "" }, "replace");
  const step = (by: number) => open(photos.findIndex(({ id }) => id === place.photo) + by);

  useEffect(() => {
    const keyed = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.key === "/" && !isTyping) {
        event.preventDefault();
        field.current?.focus();
        field.current?.select();
      } else if (event.key === "Escape" && !isTyping) {
        if (place.photo) close();
        else if (isSearch) clear();
      } else if (place.photo && !isTyping && event.key === "ArrowLeft") step(-1);
      else if (place.photo && !isTyping && event.key === "ArrowRight") step(1);
    };
    addEventListener("keydown", keyed);
    return () => removeEventListener("keydown", keyed);
  });

  const clear = () => {
    cameFrom.current = null;
    setDropped(null);
    go({ ...HOME });
  };
  const type = useCallback((q: string, how: "push" | "replace") => {
    cameFrom.current = null;
    setDropped(null);
    setActivePhrase(null);
    go({ ...HOME, q }, how);
  }, []);
  const index = photos.findIndex(({ id }) => id === place.photo);
  const shown = photos[index];

  return (
    <>
      <header class="top">
        <a
          class="name"
          href="/"
          aria-label="deixis, all photos"
          onClick={(event) => {
            event.preventDefault();
            clear();
          }}
        >
          de<span>i</span>xis
        </a>
        <SearchBox
          field={field}
          q={place.q}
          dropped={sent}
          likeId={place.like}
          phrases={place.photo ? [] : phrases}
          active={activePhrase}
          onActive={setActivePhrase}
          onType={type}
          onFile={searchFor}
        />
      </header>
      {place.photo ? (
        <PhotoView
          id={place.photo}
          query={place.q}
          position={index >= 0 && photos.length > 1 ? `${index + 1} of ${photos.length}` : ""}
          alike={shown && "duplicates" in shown ? shown.duplicates : []}
          onOpen={(photo) => go({ photo })}
          onBack={close}
          onStep={step}
          onLike={(like) => {
            cameFrom.current = null;
            setDropped(null);
            go({ ...HOME, like });
          }}
        />
      ) : (
        <main class="browse">
          <p class="reading" aria-live="polite">
            {isSearch ? (
              <Reading found={found} all={place.all} onAll={(all) => go({ all }, "replace")} />
            ) : (
              library.total !== null && counted(library.total)
            )}
          </p>
          <Notice
            isSearch={isSearch}
            found={found}
            library={library}
            place={place}
            onAll={() => go({ all: true }, "replace")}
          />
          <Grid
            key={isSearch ? `${place.q} ${place.like} ${sent?.name ?? ""}` : "all"}
            photos={photos}
            activePhrase={activePhrase}
            placeOfSpan={(span) => phrases.findIndex((each) => each.span.join() === span.join())}
            addressOf={(id) => addressOf({ ...place, photo: id })}
            start={cameFrom.current}
            onOpen={open}
            onNearEnd={isSearch ? undefined : library.more}
            onLeaveTop={() => field.current?.focus()}
          />
        </main>
      )}
      {isOver && <div class="drop">Drop a photo to find others like it</div>}
    </>
  );
}

const NONE: readonly api.Hit[] = [];

/** How much was found, and what was not understood. */
function Reading(props: { found: ReturnType<typeof useFound>; all: boolean; onAll: (all: boolean) => void }) {
  const { answer } = props.found;
  if (!answer || !answer.hits.length) return null;
  const canTell = answer.hits[0]!.probability !== null; // which ones are likely
  return (
    <>
      {props.all ? `The ${answer.hits.length} closest` : counted(answer.hits.length)}
      {canTell && " · "}
      {canTell && (
        <button class="link" onClick={() => props.onAll(!props.all)}>
          {props.all ? "only likely ones" : "show all"}
        </button>
      )}
      {answer.unknown_words.length > 0 && ` · not understood: ${quoted(answer.unknown_words)}`}
    </>
  );
}

interface NoticeProps {
  isSearch: boolean;
  found: ReturnType<typeof useFound>;
  library: ReturnType<typeof useLibrary>;
  place: Place;
  onAll: () => void;
}

function Notice({ isSearch, found, library, place, onAll }: NoticeProps) {
  const failure = isSearch ? found.failure : library.failure;
  if (failure) return <Said title="That did not work." line={failure} />;
  if (isSearch && found.answer && !found.answer.hits.length)
    return (
      <Said title="Nothing found." line={whyNothing(found.answer, place.q)}>
        {found.answer.searched > 0 && !place.all && <button onClick={onAll}>Show the closest anyway</button>}
      </Said>
    );
  if (!isSearch && library.total !== null && !library.photos.length)
    return (
      <Said title="No photos yet.">
        <p>
          Fill the index with <code>deixis index PHOTOS</code>; they appear here as it goes.
        </p>
      </Said>
    );
  return null;
}

function Said(props: { title: string; line?: string; children?: preact.ComponentChildren }) {
  return (
    <div class="notice">
      <h1>{props.title}</h1>
      {props.line && <p>{props.line}</p>}
      {props.children}
    </div>
  );
}

function whyNothing({ photos, searched, unknown_words: unknown }: api.Found, q: string): string {
  if (!photos) return "There are no photos here yet.";
  if (!searched) return `None of ${counted(photos)} passes the filters of “${q}”.`;
  if (unknown.length) return `The models do not know ${quoted(unknown)}, so they cannot look for that. They read English.`;
  return q ? `No photo here seems to show “${q}”.` : "No photo here looks like it.";
}

const quoted = (words: readonly string[]) => words.map((word) => `“${word}”`).join(", ");

const counted = (count: number) => (count === 1 ? "1 photo" : `${count.toLocaleString("en")} photos`);

/** The phrases that any hit has, in the order of the sentence: their places give their colours. */
function phrasesOf(answer: api.Found | null): Spanned[] {
  const found = new Map<string, api.FoundPhrase>();
  for (const hit of answer?.hits ?? []) for (const phrase of hit.phrases) found.set(phrase.span.join(), phrase);
  const inOrder = [...found.values()].sort((one, other) => one.span[0] - other.span[0]);
  return inOrder.map(({ text, span }, place) => ({ text, span, place }));
}
