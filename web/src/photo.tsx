import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { DescribedRegion, FoundPhrase, PhotoDetails, PhotoEntry } from "./schema";
import { Boxes, type ShownBox } from "./boxes";
import { markOf } from "./colours";
import { MarkedField } from "./sentence";
import type { Size } from "./upload";

interface Props {
  id: string; // empty for a file of the user
  file?: File;
  upload?: Size | null; // of the file
  query: string;
  sentence: string;
  onSentence: (sentence: string) => void;
  position: string;
  alike: readonly PhotoEntry[];
  onOpen?: (id: string) => void;
  onBack: () => void;
  onStep?: (by: number) => void;
  next?: string; // the id of the next photo
  isFavourite?: boolean;
  onFavourite?: () => Promise<string>; // the message of an error
  onLike?: (id: string) => void;
  onFolder?: (path: string) => void;
}

// Below this presence a phrase is shown as uncertain.
const UNSURE = 0.4;
const WAIT_MS = 300;
const SLIDE_MS = 4000;
const SWIPE = 50;

/** One photo: its caption, its regions, and the phrases of any sentence. */
export function PhotoView(props: Props) {
  const { id } = props;
  const [details, setDetails] = useState<PhotoDetails | null>(null);
  const [failure, setFailure] = useState("");
  const [note, setNote] = useState("");
  const { sentence, onSentence: setSentence, next } = props;
  const [active, setActive] = useState<number | null>(null);
  const [region, setRegion] = useState<number | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const source = props.file ?? id;
  const caption = useCaption(source);
  const regions = useRegions(source);
  const grounding = useGrounding(source, sentence, props.query);
  const { upload } = props;
  const screen = useFullScreen();
  const [isPlaying, setPlaying] = useState(false);
  const favour = async () => setNote((await props.onFavourite?.()) ?? "");

  useEffect(() => {
    if (!next) return;
    new Image().src = api.image(next); // so that it appears at once
    if (!isPlaying) return;
    const waiting = setTimeout(() => props.onStep?.(1), SLIDE_MS);
    return () => clearTimeout(waiting);
  }, [next, isPlaying]);
  useEffect(() => setPlaying((was) => was && screen.isFull && Boolean(next)), [screen.isFull, next]);
  const slides = () => {
    setPlaying(!isPlaying);
    if (!screen.isFull) screen.toggle();
  };
  useKeys({
    f: screen.toggle,
    s: slides,
    "*": () => void favour(),
    d: () => !props.file && api.download([id]),
    Escape: screen.isFull && screen.toggle,
  });

  useEffect(() => {
    const stop = new AbortController();
    setDetails(null);
    setFailure("");
    setNote("");
    setActive(null);
    setRegion(null);
    if (!props.file) api.photo(id, stop.signal).then(setDetails, (error) => api.wasAborted(error) || setFailure(api.errorMessage(error)));
    return () => stop.abort();
  }, [id]);

  if (failure)
    return (
      <main class="notice">
        <h1>This photo cannot be shown.</h1>
        <p>{failure}</p>
        <button onClick={props.onBack}>Back</button>
      </main>
    );

  const size = upload ?? details;
  const isShown = size && !upload?.isUnknown;
  const phrases = grounding.phrases.map((phrase, place) => ({ ...phrase, place }));
  const shown: ShownBox[] = phrases
    .filter((phrase) => !phrase.absent || active === phrase.place)
    .flatMap((phrase) => phrase.boxes.map((box) => ({ box, place: phrase.place, isGuess: phrase.guess })));
  const one = region === null ? null : regions[region];

  return (
    <main class="photo">
      <Picture isFull={screen.isFull} onStep={props.onStep} details={upload ?? (details && { ...details, isOriginalShown: SHOWN.test(details.name) })} id={id} alt={caption.text || details?.name || "Your photo"}>
        {isShown && !one && !isPlaying && (
          <Boxes boxes={shown} width={size.width} height={size.height} active={active} onActive={setActive} />
        )}
        {isShown && one && (
          <Boxes
            boxes={[{ box: one.box, place: -1, label: one.phrases[0]?.text ?? `${region! + 1}` }]}
            width={size.width}
            height={size.height}
            active={null}
          />
        )}
      </Picture>
      {screen.isFull && (
        <div class={isPlaying ? "screen-bar is-playing" : "screen-bar"}>
          {props.onStep && (
            <button onClick={() => props.onStep?.(-1)} aria-label="Previous photo">
              ←
            </button>
          )}
          {props.onStep && <button onClick={slides}>{isPlaying ? "Pause" : "Slide show"}</button>}
          {props.onStep && (
            <button onClick={() => props.onStep?.(1)} aria-label="Next photo">
              →
            </button>
          )}
          <button onClick={screen.toggle}>Leave full screen</button>
        </div>
      )}
      <aside>
        <nav class="photo-nav">
          <button class="quiet" onClick={props.onBack} title="Esc">
            ← Back
          </button>
          <span class="position">{props.position}</span>
          {props.onFavourite && (
            <button class={props.isFavourite ? "quiet star is-active" : "quiet star"} aria-pressed={props.isFavourite} onClick={favour} title="*">
              {props.isFavourite ? "★" : "☆"} <span class="unseen">Favourite</span>
            </button>
          )}
        </nav>
        {note && (
          <p class="hint" role="alert">
            {note}
          </p>
        )}
        <h1 class={caption.text ? "caption" : "unseen"}>{caption.text || details?.name || "Your photo"}</h1>
        {caption.note && <p class="hint">{caption.note}</p>}
        <section>
          <h2>Point with words</h2>
          <MarkedField
            field={field}
            label="A sentence about this photo"
            placeholder={caption.text ? `Such as: ${caption.text}` : "Type a sentence about this photo"}
            text={sentence}
            phrases={phrases}
            active={active}
            onActive={setActive}
            onText={setSentence}
          />
          <ol class="phrases">
            {phrases.map((phrase) => (
              <PhraseLine key={phrase.place} phrase={phrase} active={active} onActive={setActive} />
            ))}
          </ol>
          <p class="hint" aria-live="polite">
            {grounding.note}
          </p>
        </section>
        {regions.length > 0 && (
          <section>
            <h2>In this photo</h2>
            <ul class="regions">
              {regions.map((each, place) => (
                <li key={place}>
                  <button
                    class={`region${region === place ? " is-active" : ""}`}
                    onPointerEnter={() => setRegion(place)}
                    onPointerLeave={() => setRegion(null)}
                    onFocus={() => setRegion(place)}
                    onBlur={() => setRegion(null)}
                    onClick={() => each.phrases[0] && setSentence(each.phrases[0].text)}
                  >
                    {isShown && <Crop picture={upload?.url ?? api.thumbnail(id)} photo={size} box={each.box} />}
                    {each.phrases[0] && <span class="words">{each.phrases[0].text}</span>}
                  </button>
                </li>
              ))}
            </ul>
          </section>
        )}
        {props.alike.length > 0 && (
          <section>
            <h2>Almost the same</h2>
            <ul class="alike">
              {props.alike.map((photo) => (
                <li key={photo.id}>
                  <button onClick={() => props.onOpen?.(photo.id)} aria-label={photo.name}>
                    <img src={api.thumbnail(photo.id)} alt="" />
                  </button>
                </li>
              ))}
            </ul>
          </section>
        )}
        {details && (
          <footer class="about">
            <p>
              {details.name}
              <br />
              {[day(details), details.camera, `${details.width} × ${details.height}`].filter(Boolean).join(" · ")}
              {details.folder && (
                <>
                  <br />
                  <button class="link" onClick={() => props.onFolder?.(details.folder)}>
                    {`Folder ${details.folder}`}
                  </button>
                </>
              )}
            </p>
            <p class="file-actions">
              <a href={api.original(id)} target="_blank" rel="noopener">
                Open the original
              </a>
              <a href={api.original(id, true)} download="">
                Download
              </a>
              <button class="link" onClick={screen.toggle} title="f">
                Full screen
              </button>
              <button class="link" onClick={slides} title="s">
                Slide show
              </button>
            </p>
            <p class="photo-actions">
              <button onClick={() => props.onLike?.(id)}>More like this</button>
              {props.onStep && (
                <span class="steps">
                  <button class="quiet" onClick={() => props.onStep?.(-1)} aria-label="Previous photo">
                    ←
                  </button>
                  <button class="quiet" onClick={() => props.onStep?.(1)} aria-label="Next photo">
                    →
                  </button>
                </span>
              )}
            </p>
          </footer>
        )}
      </aside>
    </main>
  );
}

/** Calls functions by key, unless somebody types; a key that was used goes no further. */
function useKeys(actions: Record<string, (() => void) | false | null>) {
  const latest = useRef(actions);
  latest.current = actions;
  // A layout effect: keys work as soon as the photo is shown.
  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      const action = latest.current[event.key];
      if (!action || isTyping || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      action();
    };
    addEventListener("keydown", onKeyDown, true);
    return () => removeEventListener("keydown", onKeyDown, true);
  }, []);
}

/** Whether the photo fills the screen: that of the browser where it can, as on all computers, or else its window. */
function useFullScreen() {
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    const follow = () => document.fullscreenElement ?? setFull(false);
    document.addEventListener("fullscreenchange", follow);
    return () => {
      document.removeEventListener("fullscreenchange", follow);
      if (document.fullscreenElement) void document.exitFullscreen();
    };
  }, []);
  const toggle = () => {
    setFull(!isFull);
    if (document.fullscreenElement) void document.exitFullscreen();
    else if (!isFull) document.documentElement.requestFullscreen?.().catch(() => undefined);
  };
  return { isFull, toggle };
}

const ZOOM = 2.5;
const MIDDLE = { x: 50, y: 50 };
// The formats that all browsers show; others are zoomed as JPEG.
const SHOWN = /\.(jpe?g|png|webp|gif|avif|bmp)$/i;

interface PictureProps {
  id: string;
  details: Size | null;
  alt: string;
  isFull: boolean;
  onStep?: (by: number) => void;
  children: preact.ComponentChildren;
}

function Picture(props: PictureProps) {
  const { id, details } = props;
  const [zoom, setZoom] = useState<{ x: number; y: number } | null>(null);
  useEffect(() => setZoom(null), [id, details?.url]);
  const at = (event: MouseEvent) => {
    const frame = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return { x: (100 * (event.clientX - frame.left)) / frame.width, y: (100 * (event.clientY - frame.top)) / frame.height };
  };
  useKeys({ z: () => setZoom(zoom ? null : MIDDLE), Escape: zoom && (() => setZoom(null)) });
  const touched = useRef<Touch | null>(null);
  const swipe = (event: TouchEvent) => {
    const [from, to] = [touched.current, event.changedTouches[0]];
    touched.current = null;
    if (!from || !to || zoom || (visualViewport?.scale ?? 1) > 1.01) return;
    const [x, y] = [to.clientX - from.clientX, to.clientY - from.clientY];
    if (Math.abs(x) > SWIPE && Math.abs(x) > 2 * Math.abs(y)) props.onStep?.(x < 0 ? 1 : -1);
  };
  const look = zoom ? { transform: `scale(${ZOOM})`, transformOrigin: `${zoom.x}% ${zoom.y}%` } : {};
  const [state, setState] = useState({ id, is: "loading" });
  const is = state.id === id ? state.is : "loading";
  const shape = details
    ? { aspectRatio: `${details.width} / ${details.height}`, "--ratio": `${details.width / details.height}` }
    : {};
  return (
    <div
      class={props.isFull ? "stage is-full" : "stage"}
      onTouchStart={(event) => (touched.current = event.touches.length === 1 ? event.touches[0]! : null)}
      onTouchEnd={swipe}
    >
      <figure
        style={shape}
        class={zoom ? "is-zoomed" : ""}
        onDblClick={(event) => setZoom(zoom ? null : at(event))}
        onPointerMove={(event) => zoom && setZoom(at(event))}
      >
        {is !== "broken" && (
          <button class="zoom" aria-pressed={zoom !== null} title="z" onClick={() => setZoom(zoom ? null : MIDDLE)}>
            {zoom ? "Fit" : "Zoom"}
          </button>
        )}
        <div class="zoomed" style={look}>
        {details && (
          <>
            {!details.url && <img class="picture-small" src={api.thumbnail(id)} alt="" />}
            <img
              key={id}
              class={`picture${is === "there" ? " is-there" : ""}`}
              src={details.url ?? (zoom && details.isOriginalShown ? api.original(id) : api.image(id))}
              alt={props.alt}
              onLoad={() => setState({ id, is: "there" })}
              onError={() => setState({ id, is: "broken" })}
            />
          </>
        )}
        {props.children}
        </div>
        {is === "broken" && (
          <figcaption>
            {details?.isUnknown
              ? "This photo cannot be shown."
              : "The file itself cannot be read any more; this is its thumbnail."}
          </figcaption>
        )}
      </figure>
    </div>
  );
}

type PlacedPhrase = LocatedPhrase & { place: number };

function PhraseLine(props: { phrase: PlacedPhrase; active: number | null; onActive: (place: number | null) => void }) {
  const { phrase, active, onActive } = props;
  const mark = markOf(phrase.place);
  const isUnsure = phrase.presence !== null && phrase.presence < UNSURE;
  return (
    <li>
      <button
        class={`phrase-line${active === phrase.place ? " is-active" : ""}${phrase.absent ? " is-absent" : ""}`}
        data-place={phrase.place}
        onPointerEnter={() => onActive(phrase.place)}
        onPointerLeave={() => onActive(null)}
        onFocus={() => onActive(phrase.place)}
        onBlur={() => onActive(null)}
      >
        <span class="number" style={phrase.absent ? {} : { background: mark.colour, color: mark.ink }}>
          {`${mark.number}${phrase.guess ? "?" : ""}`}
        </span>
        <span class="words">{phrase.text}</span>
        <span class="sure">{phrase.guess ? "a guess" : phrase.absent ? "probably not here" : isUnsure ? "not sure" : ""}</span>
      </button>
    </li>
  );
}

const CROP = 56;

/** A region of a photo, cropped from its thumbnail. */
function Crop({ picture, photo, box }: { picture: string; photo: Size; box: api.Box }) {
  const [x1, y1, x2, y2] = box;
  const scale = CROP / Math.max(1, Math.min(x2 - x1, y2 - y1));
  const [width, height] = [photo.width * scale, photo.height * scale];
  const from = (middle: number, side: number) => -Math.max(0, Math.min(middle * scale - CROP / 2, side - CROP));
  const look = {
    backgroundImage: `url("${picture}")`,
    backgroundSize: `${width}px ${height}px`,
    backgroundPosition: `${from((x1 + x2) / 2, width)}px ${from((y1 + y2) / 2, height)}px`,
  };
  return <span class="crop" style={look} />;
}

function useCaption(id: api.Source) {
  const [said, setSaid] = useState({ text: "", note: "" });
  useEffect(() => {
    setSaid({ text: "", note: "" });
    const stop = new AbortController();
    api.caption(id, stop.signal).then(
      ({ captions: [best] }) =>
        setSaid(
          best?.sure === false
            ? { text: "", note: `Not sure: perhaps ${best.text}.` }
            : { text: capitalize(best?.text ?? ""), note: "" },
        ),
      (error) => api.wasAborted(error) || setSaid({ text: "", note: api.errorMessage(error) }),
    );
    return () => stop.abort();
  }, [id]);
  return said;
}

const MOST_REGIONS = 8;

function useRegions(id: api.Source): DescribedRegion[] {
  const [described, setDescribed] = useState<DescribedRegion[]>([]);
  useEffect(() => {
    setDescribed([]);
    const stop = new AbortController();
    api.describe(id, stop.signal).then(({ regions }) => setDescribed(regions), () => undefined);
    return () => stop.abort();
  }, [id]);
  return inDifferentWords(described).slice(0, MOST_REGIONS);
}

/** The first of several regions with the same phrase. */
function inDifferentWords(regions: DescribedRegion[]): DescribedRegion[] {
  const said = new Set<string>();
  return regions.filter(({ phrases }) => {
    const words = phrases[0]?.text ?? "";
    return words && !said.has(words) && said.add(words);
  });
}

type LocatedPhrase = Omit<FoundPhrase, "score"> & { presence: number | null };

interface Located {
  unknown_words: string[];
  phrases: LocatedPhrase[];
}

interface GroundingState {
  id: api.Source;
  sentence: string;
  phrases: LocatedPhrase[];
  note: string;
}

/** The phrases of a sentence in a photo; those of the query as the search located them. */
async function locate(id: api.Source, sentence: string, query: string, signal: AbortSignal): Promise<Located> {
  if (typeof id !== "string" || sentence !== query) return api.ground(id, sentence, signal);
  const { phrases } = await api.phrases(id, query, signal);
  return { unknown_words: [], phrases: phrases.map((phrase) => ({ ...phrase, presence: phrase.score })) };
}

/** The boxes of the phrases of a sentence, requested when the user stops typing. */
function useGrounding(id: api.Source, sentence: string, query: string): GroundingState {
  const none = { id, sentence, phrases: [], note: "" };
  const [grounding, setGrounding] = useState<GroundingState>(none);
  useEffect(() => {
    if (!sentence.trim()) return setGrounding(none);
    const stop = new AbortController();
    const asking = setTimeout(async () => {
      setGrounding((old) => (old.id === id ? { ...old, note: "Searching …" } : { ...none, note: "Searching …" }));
      try {
        const { phrases, unknown_words: unknown } = await locate(id, sentence, query, stop.signal);
        const guessed = unknown.length ? `Unknown words: ${unknown.map((word) => `“${word}”`).join(", ")}.` : "";
        setGrounding({ id, sentence, phrases, note: phrases.length ? guessed : "No noun phrase found yet. deixis understands English only." });
      } catch (error) {
        if (!api.wasAborted(error)) setGrounding({ ...none, note: api.errorMessage(error) });
      }
    }, WAIT_MS);
    return () => {
      clearTimeout(asking);
      stop.abort();
    };
  }, [id, sentence]);
  return grounding.id === id ? grounding : none;
}

const capitalize = (text: string) => (text ? `${text[0]!.toUpperCase()}${text.slice(1).replace(/[.\s]*$/, "")}.` : "");

const DATE_SOURCES: Record<string, string> = { xmp: "by XMP", name: "by its name", file: "by the time of the file" };

/** The date of a photo, and where it comes from unless the camera wrote it. */
function day({ taken, date_source: source }: PhotoEntry): string {
  if (!taken) return "";
  const format = { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" } as const;
  const said = DATE_SOURCES[source ?? ""];
  return new Date(`${taken}Z`).toLocaleDateString("en-GB", format) + (said ? ` (${said})` : "");
}
