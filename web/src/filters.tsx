import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { Counted, Overview } from "./schema";

interface Props {
  q: string;
  changes: number; // of albums
  onQuery: (q: string) => void;
}

const DATES = ["after:", "before:", "is:undated"];
const FEW_YEARS = 2;

/** The filters of the query, to remove; favourites, folders, albums and the years and months that it finds, to choose. */
export function Filters({ q, changes, onQuery }: Props) {
  const [overview, setOverview] = useState<Overview | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    api.overview(q, stop.signal).then(setOverview, () => undefined);
    return () => stop.abort();
  }, [q, changes]);
  const chosen = [...q.matchAll(api.FILTER)].map(([text]) => text.trim());
  const choose = (filter: string, ...instead: string[]) => onQuery(`${api.withoutFilters(q, ...instead)} ${filter}`.trim());
  if (!overview) return <div class="filters" />;
  const isFavourite = chosen.includes("is:favourite");
  const album = overview.albums.find((name) => chosen.includes(api.named("album", name))) ?? "";
  return (
    <div class="filters">
      {chips(chosen).map(({ label, filters }) => (
        <button
          key={label}
          class="chip"
          onClick={() => onQuery(filters.reduce((rest, filter) => rest.replace(filter, ""), q).replace(/\s+/g, " ").trim())}
        >
          {label} <span aria-hidden="true">×</span>
          <span class="unseen"> remove filter</span>
        </button>
      ))}
      <button aria-pressed={isFavourite} onClick={() => choose(isFavourite ? "" : "is:favourite", "is:fav")}>
        ★ Favourites
      </button>
      {overview.folders.length > 1 && (
        <Folders folders={overview.folders} isChosen={(path) => chosen.includes(api.inFolder(path))} onChoose={(filter) => choose(filter, "in:")} />
      )}
      {overview.albums.length > 0 && (
        <select aria-label="Album" value={album} onChange={({ currentTarget: { value } }) => choose(value && api.named("album", value), "album:")}>
          <option value="">Albums</option>
          {overview.albums.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      )}
      <Timeline {...overview} chosen={chosen} onChoose={(filter) => choose(filter, ...DATES)} />
    </div>
  );
}

/** The chosen filters, each with its label; those of a year or a month are one. */
function chips(chosen: string[]): { label: string; filters: string[] }[] {
  const [after, before] = ["after:", "before:"].map((key) => chosen.find((filter) => filter.startsWith(key))?.slice(key.length));
  const isPeriod = after && before && /^\d{4}(-\d{2})?$/.test(after) && before === (after.length === 4 ? yearAfter(after) : monthAfter(after));
  if (!isPeriod) return chosen.map((filter) => ({ label: filter, filters: [filter] }));
  const dates = [`after:${after}`, `before:${before}`];
  const others = chosen.filter((filter) => !dates.includes(filter)).map((filter) => ({ label: filter, filters: [filter] }));
  return [{ label: after.length === 4 ? after : monthName(after), filters: dates }, ...others];
}

interface Bar extends Counted {
  title: string;
  label: string; // below it
  filter: string;
}

/** The years, with the months of the chosen year or of all if there are few; then the photos without a date. */
function Timeline({ months, undated, chosen, onChoose }: Overview & { chosen: string[]; onChoose: (filter: string) => void }) {
  const years = [...new Set(months.map(({ name }) => name.slice(0, 4)))];
  const isOpen = (year: string) => years.length <= FEW_YEARS || chosen.some((filter) => filter.startsWith(`after:${year}`));
  const bars = years.flatMap((year): Bar[] => {
    const own = months.filter(({ name }) => name.startsWith(year));
    const photos = own.reduce((sum, month) => sum + month.photos, 0);
    const filter = `after:${year} before:${yearAfter(year)}`;
    if (!isOpen(year)) return [{ name: year, photos, title: year, label: year, filter }];
    return own.map(({ name, photos }, place) => ({
      ...{ name, photos, title: monthName(name), label: place ? "" : year },
      filter: `after:${name} before:${monthAfter(name)}`,
    }));
  });
  if (undated) bars.push({ name: "", photos: undated, title: "No date", label: "no date", filter: "is:undated" });
  const most = Math.max(...bars.map(({ photos }) => photos), 1);
  const list = useRef<HTMLOListElement>(null);
  // The chosen one, or else the newest, if not all fit.
  useLayoutEffect(() => {
    const bar = list.current?.querySelector<HTMLElement>(".is-active");
    list.current?.scrollTo({ left: bar ? bar.offsetLeft - list.current.clientWidth / 2 : list.current.scrollWidth });
  }, [months, chosen.join()]);
  if (bars.length < 2) return null;
  const isChosen = (filter: string) => filter.split(" ").every((part) => chosen.includes(part));
  const isActive = ({ filter }: Bar) => isChosen(filter);
  const isWithin = ({ name }: Bar) => isChosen(`after:${name.slice(0, 4)} before:${yearAfter(name.slice(0, 4))}`);
  return (
    <ol class="timeline" aria-label="Years and months" ref={list}>
      {bars.map((bar) => (
        <li key={bar.name} class={bar.name.length === 7 ? "" : "is-wide"} style={{ minWidth: bar.label ? "36px" : 0 }}>
          <button
            class={isActive(bar) || isWithin(bar) ? "month is-active" : "month"}
            title={`${bar.title}: ${bar.photos.toLocaleString("en")}`}
            aria-label={`${bar.title}, ${bar.photos} photos`}
            aria-pressed={isActive(bar)}
            onClick={() => onChoose(isActive(bar) ? "" : bar.filter)}
          >
            <span style={{ height: `${Math.max(8, 100 * Math.sqrt(bar.photos / most))}%` }} />
          </button>
          <span class="year" aria-hidden="true">
            {bar.label}
          </span>
        </li>
      ))}
    </ol>
  );
}

interface FoldersProps {
  folders: Counted[];
  isChosen: (path: string) => boolean;
  onChoose: (filter: string) => void;
}

/** The folders as a tree, in a panel. */
function Folders({ folders, isChosen, onChoose }: FoldersProps) {
  const [isOpen, setOpen] = useState(false);
  const [open, setOpened] = useState<ReadonlySet<string>>(new Set());
  const current = folders.find(({ name }) => isChosen(name))?.name;
  const top = folders.filter(({ name }) => !name.includes("/"));
  useLayoutEffect(() => {
    if (!isOpen) return;
    // Those above the chosen one, and the only one at the top, are open.
    setOpened(new Set([...(top.length === 1 ? [top[0]!.name] : []), ...(current ? above(current) : [])]));
    const close = (event: Event) => {
      const isInside = event.target instanceof Element && event.target.closest(".folders");
      if (event instanceof KeyboardEvent ? event.key !== "Escape" : isInside) return;
      if (event instanceof KeyboardEvent) event.stopImmediatePropagation(); // one step back
      setOpen(false);
    };
    addEventListener("pointerdown", close);
    addEventListener("keydown", close, true);
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("keydown", close, true);
    };
  }, [isOpen]);
  const choose = (filter: string) => {
    setOpen(false);
    onChoose(filter);
  };
  const toggle = (name: string) => {
    const next = new Set(open);
    if (!next.delete(name)) next.add(name);
    setOpened(next);
  };
  const within = (parent: string) =>
    folders.filter(({ name }) => name.startsWith(parent) && name !== parent && !name.slice(parent.length).includes("/"));
  const list = (parent: string) => (
    <ul>
      {within(parent).map(({ name, photos }) => {
        const own = name.slice(parent.length);
        const hasMore = within(`${name}/`).length > 0;
        return (
          <li key={name}>
            {hasMore && (
              <button class="quiet toggle" aria-expanded={open.has(name)} aria-label={`Folders in ${own}`} onClick={() => toggle(name)}>
                {open.has(name) ? "▾" : "▸"}
              </button>
            )}
            <button class="quiet folder" aria-pressed={isChosen(name)} onClick={() => choose(isChosen(name) ? "" : api.inFolder(name))}>
              {own} <span class="count">{photos.toLocaleString("en")}</span>
            </button>
            {hasMore && open.has(name) && list(`${name}/`)}
          </li>
        );
      })}
    </ul>
  );
  return (
    <div class="folders">
      <button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {current ? `Folder ${current.split("/").at(-1)}` : "Folders"} <span aria-hidden="true">▾</span>
      </button>
      {isOpen && (
        <div class="panel">
          {current && (
            <button class="quiet folder" onClick={() => choose("")}>
              All folders
            </button>
          )}
          {list("")}
        </div>
      )}
    </div>
  );
}

const above = (path: string) => path.split("/").map((_, depth, parts) => parts.slice(0, depth).join("/"));

export const monthName = (month: string) =>
  new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });

const yearAfter = (year: string) => String(Number(year) + 1);

function monthAfter(month: string): string {
  const [year, number] = month.split("-").map(Number) as [number, number];
  return number === 12 ? `${year + 1}-01` : `${year}-${String(number + 1).padStart(2, "0")}`;
}
