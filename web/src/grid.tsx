import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { image, thumbnail } from "./api";
import { monthName } from "./filters";
import type { FoundPhrase, HitEntry, TileEntry } from "./schema";
import { Boxes } from "./boxes";
import { useFindings } from "./findings";
import type { MarkedPhrase } from "./sentence";
import { layOut, neighbour, rowOf, rowsBetween, TITLE, type Layout } from "./rows";

interface Props {
  photos: readonly (TileEntry | HitEntry)[];
  hasMonths: boolean; // the photos are in the order of their dates
  favourites: ReadonlySet<string>;
  hasUnlikely?: boolean; // improbable photos are among them
  query: string; // whose phrases are located in the photos; empty for similar photos
  activePhrase: number | null;
  onPhrases: (phrases: MarkedPhrase[]) => void;
  addressOf: (id: string) => string;
  onOpen: (place: number) => void;
  onNearEnd?: () => void;
  onLeaveTop: () => void;
  start?: Start | null;
  isChoosing?: boolean;
  chosen?: ReadonlySet<string>;
  onChoose?: (ids: string[], isRange: boolean) => void;
}

/** The tile and scroll position to restore. */
export interface Start {
  id: string;
  scroll: number;
}

const NARROW = 130; // too narrow for the probability in words
const ABOVE_AND_BELOW = 700;
const LABEL = 26;
const FEW = 6;
const LARGE = 400;

/** A grid of photos; only tiles near the viewport are in the page. */
export function Grid(props: Props) {
  const { photos, onNearEnd, onOpen, onLeaveTop, start } = props;
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const view = useView(frame);
  const [current, setCurrent] = useState(() => Math.max(0, photos.findIndex(({ id }) => id === start?.id)));
  const wantsFocus = useRef(Boolean(start));
  const lastChosen = useRef(0);

  const isHits = photos.length > 0 && "score" in photos[0]!;
  const hasLabels = photos.some((photo) => "score" in photo && photo.probability !== null);
  const wanted = width < 560 ? (isHits ? 150 : 110) : !isHits ? 200 : photos.length <= FEW ? 330 : 230;
  const layout = useMemo(
    () => (width ? layOut(photos, width, wanted, hasLabels ? LABEL : 0, props.hasMonths ? monthOf : undefined) : { rows: [], height: 0 }),
    [photos, width, wanted, hasLabels, props.hasMonths],
  );
  const rows = rowsBetween(layout, view.top - ABOVE_AND_BELOW, view.bottom + ABOVE_AND_BELOW);

  const onScreen = rowsBetween(layout, view.top, view.bottom).flatMap((row) =>
    row.widths.map((_, column) => photos[row.first + column]!.id),
  );
  const { phrases, captions } = useFindings(onScreen, props.query);
  const marked = useMemo(() => phrasesInOrder([...phrases.values()].flat()), [phrases]);
  useEffect(() => props.onPhrases(marked), [marked]);

  useEffect(() => {
    if (view.bottom + 2 * ABOVE_AND_BELOW > layout.height) onNearEnd?.();
  }, [view.bottom, layout.height, onNearEnd]);

  const isLaidOut = layout.height > 0;
  useLayoutEffect(() => {
    if (start && isLaidOut) scrollTo({ top: start.scroll });
  }, [isLaidOut]);

  const place = Math.min(current, Math.max(0, photos.length - 1));
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    const tile = frame.current?.querySelector<HTMLElement>(`[data-tile="${place}"]`);
    if (tile) {
      wantsFocus.current = false;
      tile.focus({ preventScroll: true });
    }
  });

  const move = (event: KeyboardEvent) => {
    if (!event.key.startsWith("Arrow") || event.altKey || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    const next = neighbour(layout, place, event.key, photos.length);
    if (next === place && event.key === "ArrowUp") return onLeaveTop();
    wantsFocus.current = true;
    setCurrent(next);
    if (frame.current) scrollToTile(frame.current, layout, next);
  };

  return (
    <div class="grid" ref={frame} onKeyDown={move} style={{ height: `${layout.height}px` }}>
      {rows.flatMap((row) => [
        ...row.titles.map(({ text, left }) => (
          <h2 key={text} class="month-title" style={{ top: `${row.top - TITLE}px`, left: `${left}px` }}>
            {text}
          </h2>
        )),
        ...row.widths.map((tileWidth, column) => {
          const index = row.first + column;
          const photo = photos[index]!;
          return (
            <Tile
              key={photo.id}
              {...props}
              photo={photo}
              phrases={marked.length ? placed(phrases.get(photo.id) ?? [], marked) : []}
              caption={captions.get(photo.id) ?? ""}
              index={index}
              isCurrent={index === place}
              isChosen={props.chosen?.has(photo.id) ?? false}
              at={{ left: row.lefts[column]!, top: row.top, width: tileWidth, height: row.height }}
              onOpen={() => onOpen(index)}
              onFocus={() => setCurrent(index)}
              onChoose={(_, isRange) => {
                const begin = isRange ? lastChosen.current : index;
                lastChosen.current = index;
                props.onChoose?.(photos.slice(Math.min(begin, index), Math.max(begin, index) + 1).map(({ id }) => id), isRange);
              }}
            />
          );
        }),
      ])}
    </div>
  );
}

/** The month of a photo as a title; the time of a file is no date. */
const monthOf = ({ taken, date_source: source }: TileEntry) => (taken && source !== "file" ? monthName(taken.slice(0, 7)) : "No date");

type PlacedPhrase = FoundPhrase & { place: number };

/** The phrases of a query in the order of the sentence; their index gives their colour. */
function phrasesInOrder(phrases: readonly FoundPhrase[]): MarkedPhrase[] {
  const distinct = new Map(phrases.map((phrase) => [phrase.span.join(), phrase]));
  const inOrder = [...distinct.values()].sort((one, other) => one.span[0] - other.span[0]);
  return inOrder.map(({ text, span }, place) => ({ text, span, place }));
}

const placed = (phrases: readonly FoundPhrase[], marked: readonly MarkedPhrase[]): PlacedPhrase[] =>
  phrases.map((phrase) => ({ ...phrase, place: marked.findIndex(({ span }) => span.join() === phrase.span.join()) }));

interface TileProps extends Omit<Props, "onOpen"> {
  photo: TileEntry | HitEntry;
  phrases: readonly PlacedPhrase[];
  caption: string;
  index: number;
  isCurrent: boolean;
  isChosen: boolean;
  at: { left: number; top: number; width: number; height: number };
  onOpen: () => void;
  onFocus: () => void;
}

function Tile(props: TileProps) {
  const { photo, at, index, activePhrase, phrases, caption } = props;
  // A large tile shows the photo, or the thumbnail if its file is missing.
  const [lost, setLost] = useState(0);
  const pictures = [...(at.width > LARGE ? [image(photo.id, 800)] : []), thumbnail(photo.id)];
  const picture = pictures[lost];
  const hit = "score" in photo ? photo : null;
  // Absent phrases have a box only while they are active.
  const boxes = phrases
    .filter(({ place, absent }) => !absent || place === activePhrase)
    .flatMap(({ place, guess, boxes }) => boxes.map((box) => ({ box, place, isGuess: guess })));
  const isFavourite = props.favourites.has(photo.id);
  const more = photo.duplicates.length ? `+${photo.duplicates.length} alike` : "";
  const marks = `${isFavourite ? ", favourite" : ""}${more && `, ${more}`}`;
  const name = (caption ? `${caption} (${photo.name})` : photo.name) + marks;
  const open = (event: MouseEvent) => {
    if (event.button !== 0) return;
    if (props.isChoosing) {
      event.preventDefault();
      return props.onChoose?.([photo.id], event.shiftKey);
    }
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    props.onOpen();
  };
  return (
    <a
      class={props.isChosen ? "tile is-chosen" : "tile"}
      href={props.addressOf(photo.id)}
      data-tile={index}
      tabIndex={props.isCurrent ? 0 : -1}
      aria-label={hit ? [name, likely(hit, props), shows(phrases)].filter(Boolean).join(", ") : name}
      style={{ left: `${at.left}px`, top: `${at.top}px`, width: `${at.width}px` }}
      onClick={open}
      onFocus={props.onFocus}
    >
      <span class="tile-picture" style={{ height: `${at.height}px` }}>
        {isFavourite && <span class="tile-mark is-star">★</span>}
        {more && <span class="tile-mark">{at.width < NARROW ? `+${photo.duplicates.length}` : more}</span>}
        {!picture ? (
          <span class="tile-broken">cannot be shown</span>
        ) : (
          <>
            <img src={picture} alt="" draggable={false} decoding="async" onError={() => setLost(lost + 1)} />
            {boxes.length > 0 && (
              <Boxes {...photo} boxes={boxes} active={activePhrase} line={2} tags={false} isCropped />
            )}
          </>
        )}
      </span>
      {hit && (
        <span class="tile-label">
          {hit.probability !== null && (
            <>
              {at.width >= NARROW && (
                <span class="likely" aria-hidden="true">
                  <span style={{ width: `${100 * hit.probability}%` }} />
                </span>
              )}
              <span class="percent">{at.width < NARROW ? percent(hit.probability) : likely(hit, props)}</span>
            </>
          )}
        </span>
      )}
    </a>
  );
}

const percent = (share: number) => (share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);
const WORDS = ["unlikely", "maybe", "likely", "very likely"];
const WORDS_OF_SIMILARITY = ["a little similar", "similar", "very similar", "almost the same"];
/** The probability of a result in words, and as a number. What a search finds by itself is not called unlikely. */
function likely({ probability }: HitEntry, { query, hasUnlikely }: { query: string; hasUnlikely?: boolean }): string {
  if (probability === null) return "found";
  const step = [0.2, 0.5, 0.8].filter((least) => probability >= least).length;
  return `${query ? WORDS[hasUnlikely ? step : Math.max(step, 1)] : WORDS_OF_SIMILARITY[step]}, ${percent(probability)}`;
}
/** The phrases of the query that a tile shows. */
const shows = (phrases: readonly FoundPhrase[]) =>
  phrases.filter(({ absent, guess }) => !absent && !guess).map(({ text }) => text).join(", ");

function scrollToTile(frame: HTMLElement, layout: Layout, place: number) {
  const row = rowOf(layout, place);
  if (!row) return;
  const top = frame.getBoundingClientRect().top + scrollY + row.top;
  const [above, below] = [top - 120, top + row.height + LABEL + 24];
  if (above < scrollY) scrollTo({ top: above });
  else if (below > scrollY + innerHeight) scrollTo({ top: below - innerHeight });
}

function useWidth(frame: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const watched = new ResizeObserver(() => setWidth(frame.current?.clientWidth ?? 0));
    if (frame.current) watched.observe(frame.current);
    setWidth(frame.current?.clientWidth ?? 0);
    return () => watched.disconnect();
  }, []);
  return width;
}

/** The visible part of the grid, updated once per frame. */
function useView(frame: { current: HTMLElement | null }): { top: number; bottom: number } {
  const [view, setView] = useState({ top: 0, bottom: innerHeight });
  useEffect(() => {
    let asked = 0;
    const look = () => {
      asked = 0;
      const top = -(frame.current?.getBoundingClientRect().top ?? 0);
      setView((old) => (Math.abs(old.top - top) < 80 ? old : { top, bottom: top + innerHeight }));
    };
    const later = () => {
      asked ||= requestAnimationFrame(look);
    };
    addEventListener("scroll", later, { passive: true });
    addEventListener("resize", later);
    later();
    return () => {
      removeEventListener("scroll", later);
      removeEventListener("resize", later);
      cancelAnimationFrame(asked);
    };
  }, []);
  return view;
}
