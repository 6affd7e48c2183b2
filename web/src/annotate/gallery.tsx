// All photos with coloured phrases and boxes, searched and filtered; one of them opens to be corrected.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { GalleryEntry, GalleryResponse, PhotoStage, SessionResponse } from "./schema";
import { CorrectionPage } from "./correction";
import { ColouredCaptions, colouredBoxes } from "./coloured_chains";
import { isKey, useKeys } from "./keys";
import { Failure, useSubmit } from "./login";
import { Overlay } from "./overlay";
import { Pager } from "./pager";
import { PhrasesPage } from "./phrases";
import { queryNow } from "./route";

const PAGE = 24;
const THUMBNAIL = 640;
const TYPING_MS = 300;
const STAGES: [PhotoStage, string][] = [
  ["open", "Open"],
  ["waiting for review", "Waiting for review"],
  ["finished", "Finished"],
];

interface Props {
  session: SessionResponse;
  photo: string | undefined;
  isPhrases: boolean; // to edit them, not to correct the photo
  from: Chosen;
  onOpen: (photo: string) => void;
}

/** What a reviewer comes to correct: the chain of a mention, perhaps by drawing a box. */
export interface Chosen {
  mention: string;
  isDrawing: boolean;
}

export function GalleryPage({ session, photo, isPhrases, from, onOpen }: Props) {
  const [query, setQuery] = useState(() => queryNow().toString()); // the filter and the offset, as in the address
  const [found, setFound] = useState<GalleryResponse | null>(null);
  const { failure, run } = useSubmit();
  const newest = useRef(query); // a search may be typed after the query was drawn
  const loading = useRef("");
  const wanted = new URLSearchParams(query);
  const offset = Number(wanted.get("offset")) || 0;
  const load = async (asked: string) => {
    loading.current = asked;
    const page = await api.gallery(new URLSearchParams(asked), PAGE);
    if (loading.current === asked) setFound(page); // an older answer may come later
    return page;
  };
  useEffect(() => {
    if (photo) return;
    history.replaceState(null, "", query ? `#/gallery?${query}` : "#/gallery");
    void run(async () => void (await load(query)));
  }, [query, photo]);
  useEffect(() => {
    /** Another address of the list was entered or chosen; one without a search on the way back from a photo keeps it. */
    const follow = () => {
      const asked = queryNow().toString();
      if (!/^#\/gallery(\?|$)/.test(location.hash) || (photo && !asked)) return;
      newest.current = asked;
      setQuery(asked);
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, [photo]);
  const change = (to: Record<string, string>) => {
    const changed = new URLSearchParams(newest.current);
    for (const [name, value] of Object.entries({ offset: "", ...to })) {
      if (value) changed.set(name, value);
      else changed.delete(name);
    }
    newest.current = changed.toString();
    setQuery(newest.current);
    return newest.current;
  };

  const ids = found?.photos.map((each) => each.photo.id) ?? [];
  const at = photo ? ids.indexOf(photo) : -1;
  const total = found?.total ?? 0;
  const place = offset + at;
  /** Open the photo before or after, on another page of the list if it is there. */
  const stepper = (by: 1 | -1) => {
    if (at < 0 || place + by < 0 || place + by >= total) return undefined;
    return () =>
      void run(async () => {
        const inside = ids[at + by];
        if (inside) return onOpen(inside);
        const { photos } = await load(change({ offset: `${Math.max(0, by > 0 ? offset + PAGE : offset - PAGE)}` }));
        const other = by > 0 ? photos[0] : photos.at(-1);
        if (other) onOpen(other.photo.id);
      });
  };
  if (photo && isPhrases) return <PhrasesPage key={photo} id={photo} session={session} onNext={stepper(1)} />;
  if (photo)
    return (
      <CorrectionPage
        key={photo}
        id={photo}
        session={session}
        from={from}
        place={at < 0 ? "" : `${(place + 1).toLocaleString("en")} of ${total.toLocaleString("en")}`}
        onBefore={stepper(-1)}
        onNext={stepper(1)}
      />
    );
  return (
    <main class="page gallery-page" tabIndex={-1}>
      <h1>Gallery</h1>
      <Filter session={session} wanted={wanted} found={found} onChange={change} />
      <Failure line={failure} />
      {found && total > 0 && <Assign wanted={wanted} found={found} onAssigned={() => void run(async () => void (await load(query)))} />}
      {total === 0 && found && <p class="lead">No photo is like this.</p>}
      {found && <Pager offset={offset} page={PAGE} total={total} onChange={(to) => change({ offset: to ? `${to}` : "" })} />}
      <ul class="gallery">
        {found?.photos.map((each, index) => (
          <li key={each.photo.id}>
            <Card entry={each} number={offset + index + 1} hasPicture={session.photos} />
          </li>
        ))}
      </ul>
    </main>
  );
}

interface FilterProps {
  session: SessionResponse;
  wanted: URLSearchParams;
  found: GalleryResponse | null;
  onChange: (to: Record<string, string>) => void;
}

function Filter({ session, wanted, found, onChange }: FilterProps) {
  const timer = useRef(0);
  const field = useRef<HTMLInputElement>(null);
  const total = found?.total ?? 0;
  useEffect(() => () => clearTimeout(timer.current), []);
  const words = wanted.get("words") ?? "";
  useEffect(() => {
    if (field.current && document.activeElement !== field.current) field.current.value = words; // not what is being typed
  }, [words]);
  const isFiltered = [...wanted.keys()].some((name) => name !== "offset");
  useKeys((key, event) => {
    const cards = [...document.querySelectorAll<HTMLElement>(".gallery-card a")];
    const at = cards.indexOf(document.activeElement as HTMLElement);
    const keys: Record<string, () => unknown> = {
      "/": () => field.current?.focus(),
      j: () => cards[Math.min(at + 1, cards.length - 1)]?.focus(),
      k: () => cards[Math.max(at - 1, 0)]?.focus(),
    };
    const act = isKey(event, key) ? keys[key.toLowerCase()] : undefined;
    act?.();
    return Boolean(act);
  });
  const select = (name: string, label: string, all: string, options: readonly (readonly [string, string])[]) => (
    <label>
      {label}
      <select value={wanted.get(name) ?? ""} onChange={(event) => onChange({ [name]: event.currentTarget.value })}>
        <option value="">{all}</option>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
  const check = (name: string, label: string) => (
    <label class="check">
      <input
        type="checkbox"
        checked={wanted.has(name)}
        onChange={() => onChange({ [name]: wanted.has(name) ? "" : "true" })}
      />
      {label}
    </label>
  );
  const people = found?.people.map(({ worker, name }) => [worker, name] as const) ?? [];
  return (
    <form class="gallery-filter" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <label>
        Search{" "}
        <input
          ref={field}
          type="search"
          dir="auto"
          placeholder="file name or words of captions"
          maxLength={200}
          defaultValue={words}
          onInput={(event) => {
            const typed = event.currentTarget.value.trim();
            clearTimeout(timer.current);
            timer.current = window.setTimeout(() => onChange({ words: typed }), TYPING_MS);
          }}
        />
        <kbd class="by-keys">/</kbd>
      </label>
      {select("type", "Phrases", "Any type", session.types.map((type) => [type, type]))}
      {select("stage", "State", "All", STAGES)}
      {select("person", "Worked on by", "Anybody", people)}
      {select("assigned", "Assigned to", "Anybody", people)}
      {check("disagreement", "People disagreed")}
      {check("changed", "Corrected")}
      <span class="soft" role="status">
        {found && (total === 1 ? "1 photo" : `${total.toLocaleString("en")} photos`)}
      </span>
      {isFiltered && (
        <button
          type="button"
          class="link"
          onClick={() => {
            clearTimeout(timer.current);
            onChange(Object.fromEntries([...wanted.keys()].map((name) => [name, ""])));
          }}
        >
          Show all
        </button>
      )}
    </form>
  );
}

interface AssignProps {
  wanted: URLSearchParams;
  found: GalleryResponse;
  onAssigned: () => void;
}

/** Ask only some people about all photos that were found. */
function Assign({ wanted, found: { people, total }, onAssigned }: AssignProps) {
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [said, setSaid] = useState("");
  const { failure, isBusy, run } = useSubmit();
  const photos = total === 1 ? "1 photo" : `${total.toLocaleString("en")} photos`;
  const assign = (ids: readonly string[]) =>
    run(async () => {
      const { advice } = await api.assignPhotos(wanted, [...ids]);
      const names = people.filter(({ worker }) => ids.includes(worker)).map(({ name }) => name);
      const whom = names.length ? `only ${new Intl.ListFormat("en").format(names)}` : "everybody";
      setSaid(`${photos}: ${whom} from now on.${advice ? ` But ${advice}.` : ""}`);
      onAssigned();
    });
  const toggle = (worker: string) =>
    setChosen(chosen.includes(worker) ? chosen.filter((each) => each !== worker) : [...chosen, worker]);
  return (
    <details class="assign">
      <summary>{total === 1 ? "Assign this photo" : `Assign these ${photos}`}</summary>
      <p class="hint">Only the people chosen are asked about them, before all other photos.</p>
      <div class="types" role="group" aria-label="People">
        {people.map(({ worker, name }) => (
          <label key={worker} class="check" dir="auto">
            <input type="checkbox" checked={chosen.includes(worker)} onChange={() => toggle(worker)} />
            {name}
          </label>
        ))}
      </div>
      <p class="row">
        <button class="main" disabled={isBusy || !chosen.length} onClick={() => assign(chosen)}>
          Assign
        </button>
        <button disabled={isBusy} onClick={() => assign([])}>
          Ask everybody
        </button>
        <span role="status">{said}</span>
      </p>
      <Failure line={failure} />
    </details>
  );
}

function Card({ entry, number, hasPicture }: { entry: GalleryEntry; number: number; hasPicture: boolean }) {
  const { photo, chains, captions } = entry;
  return (
    <div class="gallery-card">
      <a href={`#/gallery/${photo.id}`}>
        <span class="gallery-picture" style={{ aspectRatio: `${photo.width} / ${photo.height}` }}>
          {hasPicture && <img src={`${photo.url}?side=${THUMBNAIL}`} alt="" loading="lazy" draggable={false} />}
          <Overlay photo={photo} boxes={colouredBoxes(chains)} />
        </span>
        <span class="unseen">Photo</span> {entry.name} <span class="soft">· {number.toLocaleString("en")}</span>
      </a>
      <span class="gallery-chips">
        <span class="chip">{entry.stage}</span>
        {entry.assigned.length > 0 && <span class="chip">{`for ${new Intl.ListFormat("en").format(entry.assigned)}`}</span>}
        {entry.disagreements.length > 0 && <span class="chip">people disagreed</span>}
        <ChangedBy entry={entry} />
      </span>
      <ColouredCaptions captions={captions} chains={chains} />
    </div>
  );
}

/** Who has corrected a photo. */
export function ChangedBy({ entry }: { entry: GalleryEntry }) {
  const who = [...new Set(entry.corrections.map((each) => each.who))];
  if (!who.length) return null;
  return <span class="chip is-changed">corrected by {new Intl.ListFormat("en").format(who)}</span>;
}
