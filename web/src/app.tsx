import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { addressOf, HOME, usePageState, type PageState } from "./address";
import * as api from "./api";
import type { SearchResponse, TileEntry } from "./schema";
import { useDrop } from "./drop";
import { Filters } from "./filters";
import { Grid, type Start } from "./grid";
import { KEYS_TITLE, Keys } from "./keys";
import { PhotoView } from "./photo";
import { Selection } from "./selection";
import { SearchBox } from "./search";
import { useFavourites, usePhotos, useSearch } from "./lists";
import type { MarkedPhrase } from "./sentence";
import { useUpload } from "./upload";

export function App() {
  const [state, go, close] = usePageState();
  const [dropped, setDropped] = useState<File | null>(null);
  const [activePhrase, setActivePhrase] = useState<number | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const cameFrom = useRef<Start | null>(null);

  const sent = state.q || state.like ? null : dropped; // a search in the address takes precedence
  const upload = useUpload(sent);
  const isSearch = Boolean(state.like || sent || !api.isOnlyFilters(state.q));
  const library = usePhotos(state.like || sent ? "" : state.q, !isSearch);
  const found = useSearch(state, sent, isSearch);
  const photos: readonly TileEntry[] = isSearch ? (found.answer?.hits ?? NONE) : library.photos;
  const favourites = useFavourites();
  const [albumChanges, setAlbumChanges] = useState(0);
  const [typed, setTyped] = useState({ q: "", sentence: "" }); // about a photo that a query found
  const [showsKeys, setShowsKeys] = useState(false);
  const [phrases, setPhrases] = useState<MarkedPhrase[]>([]); // of the query, as located in its results

  const searchFor = (file: File) => {
    cameFrom.current = null;
    setLooking(false);
    setDropped(file);
    go({ ...HOME });
  };
  const isOver = useDrop(searchFor);
  const [isLooking, setLooking] = useState(false); // into the photo that was dropped
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  const choose = (ids: string[], isRange: boolean) => {
    const next = new Set(chosen);
    for (const id of ids) if (isRange || !next.delete(id)) next.add(id);
    setChosen(next);
  };

  useEffect(() => {
    document.title = state.q ? `${state.q} – deixis` : "deixis";
  }, [state.q]);

  const open = (index: number) => {
    const photo = photos[index];
    if (!photo) return;
    cameFrom.current = { id: photo.id, scroll: state.photo ? (cameFrom.current?.scroll ?? 0) : scrollY };
    go({ photo: photo.id }, state.photo ? "replace" : "push");
    if (!state.photo) scrollTo({ top: 0 });
  };
  // Where the open photo is among the tiles, itself or as one of those that are almost the same.
  const index = photos.findIndex((tile) => [tile, ...tile.duplicates].some(({ id }) => id === state.photo));
  const step = index < 0 ? undefined : (by: number) => open(index + by);

  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      if (event.metaKey || event.ctrlKey || event.altKey || showsKeys) return;
      if (event.key === "/" && !isTyping) {
        event.preventDefault();
        field.current?.focus();
        field.current?.select();
      } else if (event.key === "?" && !isTyping) setShowsKeys(true);
      else if (event.key === "Escape" && !isTyping) {
        if (state.photo) close();
        else if (isLooking) setLooking(false);
        else setChosen(null);
      } else if (state.photo && !isTyping && event.key === "ArrowLeft") step?.(-1);
      else if (state.photo && !isTyping && event.key === "ArrowRight") step?.(1);
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
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
  const ask = (q: string) => type(q, "push");
  const shown = photos[index];
  const sentence = typed.q === state.q ? typed.sentence : state.q;
  const onSentence = (text: string) => setTyped({ q: state.q, sentence: text });

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
          q={state.q}
          dropped={sent !== null}
          droppedUrl={upload?.url ?? ""}
          likeId={state.like}
          phrases={state.photo ? [] : phrases}
          active={activePhrase}
          onActive={setActivePhrase}
          onType={type}
          onFile={searchFor}
        />
      </header>
      {sent && isLooking ? (
        <PhotoView
          {...{ id: "", file: sent, upload, query: "", position: "", alike: [], sentence, onSentence }}
          onBack={() => setLooking(false)}
        />
      ) : state.photo ? (
        <PhotoView
          id={state.photo}
          onFolder={(folder) => {
            cameFrom.current = null;
            go({ ...HOME, q: api.inFolder(folder) });
          }}
          query={isSearch ? state.q : ""}
          sentence={isSearch || typed.q === state.q ? sentence : ""}
          onSentence={onSentence}
          next={shown && photos[index + 1]?.id}
          isFavourite={favourites.ids.has(state.photo)}
          onFavourite={() => favourites.change([state.photo], favourites.ids.has(state.photo))}
          position={index >= 0 && photos.length > 1 ? `${index + 1} of ${photos.length}` : ""}
          alike={shown ? [shown, ...shown.duplicates].filter(({ id }) => id !== state.photo) : []}
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
          <h1 class="unseen">{state.q ? `Photos for “${state.q}”` : isSearch ? "Similar photos" : "All photos"}</h1>
          <Filters q={state.q} changes={albumChanges + favourites.ids.size} onQuery={ask} />
          {(photos.length > 0 || chosen) && (
            <Selection
              q={state.q}
              chosen={chosen}
              favourites={favourites}
              onChosen={setChosen}
              onAlbums={() => {
                setAlbumChanges(albumChanges + 1);
                if (state.q.includes("album:")) library.again();
              }}
            />
          )}
          <p class="reading" aria-live="polite">
            {sent && (
              <button class="link" onClick={() => setLooking(true)}>
                Caption and describe this photo
              </button>
            )}
            {sent && found.answer && found.answer.hits.length > 0 && " · "}
            {isSearch ? (
              <ResultSummary found={found} all={state.all} onAll={(all) => go({ all }, "replace")} q={state.q} onQuery={ask} />
            ) : (
              Boolean(library.total) && counted(library.total!)
            )}
          </p>
          <Notice
            isSearch={isSearch}
            found={found}
            library={library}
            state={state}
            onAll={() => go({ all: true }, "replace")}
            onQuery={ask}
          />
          <Grid
            hasUnlikely={state.all}
            hasMonths={!isSearch || Boolean(found.answer?.is_listing)}
            favourites={favourites.ids}
            key={`${state.q} ${state.like} ${sent?.name ?? ""}`}
            photos={photos}
            query={isSearch ? (found.answer?.query ?? "") : ""}
            activePhrase={activePhrase}
            onPhrases={setPhrases}
            addressOf={(id) => addressOf({ ...state, photo: id })}
            start={cameFrom.current}
            onOpen={open}
            isChoosing={chosen !== null}
            chosen={chosen ?? undefined}
            onChoose={choose}
            onNearEnd={isSearch ? undefined : library.more}
            onLeaveTop={() => field.current?.focus()}
          />
        </main>
      )}
      <button class="quiet keys-button" aria-label={KEYS_TITLE} title={KEYS_TITLE} onClick={() => setShowsKeys(true)}>
        ?
      </button>
      {showsKeys && <Keys onClose={() => setShowsKeys(false)} />}
      {isOver && <div class="drop">Drop a photo to find others like it</div>}
    </>
  );
}

const NONE: readonly TileEntry[] = [];

/** The number of results, and the unknown words. */
function ResultSummary(
  props: { found: ReturnType<typeof useSearch>; all: boolean; onAll: (all: boolean) => void } & QueryProps,
) {
  const { answer } = props.found;
  if (!answer || !answer.hits.length) return null;
  if (answer.is_listing)
    return (
      <>
        {answer.hits.length < answer.searched ? `The last ${answer.hits.length} of ` : ""}
        {counted(answer.searched)}
      </>
    );
  const hasProbabilities = answer.hits[0]!.probability !== null;
  return (
    <>
      {props.all
        ? `The ${answer.hits.length} closest`
        : answer.hits.length < api.SHOWN_RESULTS
          ? counted(answer.hits.length)
          : `The ${answer.hits.length} most likely photos`}
      {hasProbabilities && " · "}
      {hasProbabilities && (
        <button class="link" onClick={() => props.onAll(!props.all)}>
          {props.q
            ? props.all
              ? "only likely ones"
              : "unlikely ones too"
            : props.all
              ? "only similar ones"
              : "less similar ones too"}
        </button>
      )}
      {!hasProbabilities && " · ranked without percentages: this index has no calibration"}
      <Readings answer={answer} q={props.q} onQuery={props.onQuery} before=" · " />
      {answer.unknown_words.length > 0 && ` · not understood: ${quoted(answer.unknown_words)}`}
      <OtherQueries answer={answer} q={props.q} onQuery={props.onQuery} before=" · " />
    </>
  );
}

interface QueryProps {
  q: string;
  onQuery: (q: string) => void;
}

const MOST_SUGGESTIONS = 3;

/** What was read differently than typed, with a link to the same query with these words quoted. */
function Readings({ answer, q, onQuery, before = "" }: QueryProps & { answer: SearchResponse; before?: string }) {
  return (
    <>
      {answer.readings.map(({ kind, text, read_as: readAs }, place) => (
        <span key={text}>
          {place ? " · " : before}
          {kind === "date" && `only ${readAs}`}
          {kind === "spelling" && (
            <>
              showing <em>{readAs}</em>
            </>
          )}
          {kind === "part" && `nothing for the whole sentence; photos with “${readAs}”`}
          {kind === "name" && `“${text}” may be a name of a person or a place, and the models know none`}
          {(kind === "date" || kind === "spelling") && (
            <>
              ;{" "}
              <button class="link" onClick={() => onQuery(replaceWord(q, text, `"${text}"`))}>
                search for “{text}” instead
              </button>
            </>
          )}
          {kind === "name" && readAs && (
            <>
              ;{" "}
              <button class="link" onClick={() => onQuery(readAs)}>
                photos in folders of that name
              </button>
            </>
          )}
        </span>
      ))}
    </>
  );
}

/** The query with known words in place of unknown ones. */
function OtherQueries({ answer, q, onQuery, before = "" }: QueryProps & { answer: SearchResponse; before?: string }) {
  const { suggestions } = answer;
  const links: { text: string; query: string }[] = [];
  for (const [word, near] of Object.entries(suggestions ?? {}))
    for (const other of near) links.push({ text: `try “${other}”`, query: replaceWord(q, word, other) });
  return (
    <>
      {links.slice(0, MOST_SUGGESTIONS).map(({ text, query }, place) => (
        <span key={query}>
          {place ? " · " : before}
          <button class="link" onClick={() => onQuery(query)}>
            {text}
          </button>
        </span>
      ))}
    </>
  );
}

/** A sentence with words replaced, in any case; with the new ones added if they are not there as such. */
function replaceWord(sentence: string, word: string, other: string): string {
  const before = sentence.split(new RegExp(`(?<![\\p{L}\\p{N}])${word}(?![\\p{L}\\p{N}])`, "iu"))[0]!;
  return before === sentence ? `${sentence} ${other}` : before + other + sentence.slice(before.length + word.length);
}

interface NoticeProps {
  isSearch: boolean;
  found: ReturnType<typeof useSearch>;
  library: ReturnType<typeof usePhotos>;
  state: PageState;
  onAll: () => void;
  onQuery: (q: string) => void;
}

function Notice({ isSearch, found, library, state, onAll, onQuery }: NoticeProps) {
  const { failure, isRefused } = isSearch ? found : library;
  if (failure) return <Message title={isRefused ? "This cannot be searched for." : "Something went wrong."} line={failure} />;
  if (isSearch && found.answer && !found.answer.hits.length)
    return (
      <Message title="Nothing found." line={emptyReason(found.answer, state.q)}>
        <p>
          <Readings answer={found.answer} q={state.q} onQuery={onQuery} />
        </p>
        <p>
          <OtherQueries answer={found.answer} q={state.q} onQuery={onQuery} />
        </p>
        {found.answer.searched > 0 && !state.all && <button onClick={onAll}>Show the closest anyway</button>}
      </Message>
    );
  if (!isSearch && state.q && library.reason)
    return <Message title="Nothing found." line={`No photo passes the filters of “${state.q}”: ${library.reason}.`} />;
  if (!isSearch && !state.q && library.total !== null && !library.photos.length)
    return (
      <Message title="No photos yet.">
        <p>
          Add photos with <code>deixis index PHOTOS</code>; they appear here while it runs.
        </p>
      </Message>
    );
  return null;
}

function Message(props: { title: string; line?: string; children?: preact.ComponentChildren }) {
  return (
    <div class="notice">
      <h2>{props.title}</h2>
      {props.line && <p>{props.line}</p>}
      {props.children}
    </div>
  );
}

function emptyReason(answer: SearchResponse, q: string): string {
  const { photos, searched, unknown_words: unknown, filter_reason: reason } = answer;
  if (!photos) return "There are no photos yet.";
  if (!searched) return `None of ${counted(photos)} passes the filters of “${q}”${reason ? `: ${reason}` : ""}.`;
  if (unknown.length) return `The models do not know ${quoted(unknown)}. They understand English only.`;
  return q ? `No photo is likely to show “${q}”.` : "No similar photo.";
}

const quoted = (words: readonly string[]) => words.map((word) => `“${word}”`).join(", ");

export const counted = (count: number) => (count === 1 ? "1 photo" : `${count.toLocaleString("en")} photos`);
