import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { Overview } from "./schema";

interface Props {
  q: string;
  onQuery: (q: string) => void;
}

const MOST_MONTHS = 60;
const MOST_FOLDERS = 200;

/** The filters of the query, to remove; the months as a timeline and the folders, to choose. */
export function Filters({ q, onQuery }: Props) {
  const [overview, setOverview] = useState<Overview | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    api.overview(stop.signal).then(setOverview, () => undefined);
    return () => stop.abort();
  }, []);
  const timeline = useRef<HTMLOListElement>(null);
  // The newest months, if not all fit.
  useLayoutEffect(() => timeline.current?.scrollTo({ left: timeline.current.scrollWidth }), [overview]);
  const chosen = [...q.matchAll(api.FILTER)].map(([text]) => text.trim());
  const without = (names: string[]) =>
    q.replace(api.FILTER, (text, name: string) => (names.includes(name.toLowerCase()) ? "" : text)).trim();
  const add = (names: string[], filters: string) => onQuery(`${without(names)} ${filters}`.trim());
  if (!overview) return <div class="filters" />;
  const months = overview.months.slice(-MOST_MONTHS);
  const folders = overview.folders.slice(0, MOST_FOLDERS);
  const most = Math.max(...months.map(({ photos }) => photos), 1);
  const isShown = (name: string) => chosen.includes(`after:${name}`);
  return (
    <div class="filters">
      {chosen.map((filter) => (
        <button key={filter} class="chip" onClick={() => onQuery(q.replace(filter, "").replace(/\s+/g, " ").trim())}>
          {filter} <span aria-hidden="true">×</span>
          <span class="unseen"> remove filter</span>
        </button>
      ))}
      {months.length > 1 && (
        <ol class="timeline" aria-label="Months" ref={timeline}>
          {months.map(({ name, photos }, place) => (
            <li key={name}>
              <button
                class={isShown(name) ? "month is-active" : "month"}
                title={`${monthName(name)}: ${photos}`}
                aria-label={`${monthName(name)}, ${photos} photos`}
                aria-pressed={isShown(name)}
                onClick={() => add(["after", "before"], `after:${name} before:${monthAfter(name)}`)}
              >
                <span style={{ height: `${Math.max(8, 100 * Math.sqrt(photos / most))}%` }} />
              </button>
              <span class="year" aria-hidden="true">
                {name.slice(0, 4) !== months[place - 1]?.name.slice(0, 4) && name.slice(0, 4)}
              </span>
            </li>
          ))}
        </ol>
      )}
      {folders.length > 1 && (
        <select
          aria-label="Folder"
          value={folders.find(({ name }) => chosen.includes(api.inFolder(name)))?.name ?? ""}
          onChange={({ currentTarget: { value } }) => add(["in"], value && api.inFolder(value))}
        >
          <option value="">All folders</option>
          {folders.map(({ name, photos }) => (
            <option key={name} value={name}>{`${name} (${photos})`}</option>
          ))}
        </select>
      )}
    </div>
  );
}

const monthName = (month: string) =>
  new Date(`${month}-01T00:00:00Z`).toLocaleDateString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });

function monthAfter(month: string): string {
  const [year, number] = month.split("-").map(Number) as [number, number];
  return number === 12 ? `${year + 1}-01` : `${year}-${String(number + 1).padStart(2, "0")}`;
}
