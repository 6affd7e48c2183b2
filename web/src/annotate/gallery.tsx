// All photos with coloured phrases and boxes, filtered; one of them opens to be corrected.
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { GalleryEntry, PhotoStage, SessionResponse } from "./schema";
import { CorrectionPage } from "./correction";
import { ColouredCaptions, colouredBoxes } from "./coloured_chains";
import { Failure, useSubmit } from "./login";
import { Overlay } from "./overlay";
import { Pager } from "./pager";

const PAGE = 24;
const THUMBNAIL = 640;
const NO_FILTER: api.GalleryFilter = { stage: "", person: "", disagreement: false, changed: false };
const STAGES: [PhotoStage, string][] = [
  ["open", "Open"],
  ["waiting for review", "Waiting for review"],
  ["finished", "Finished"],
];

interface Props {
  session: SessionResponse;
  photo: string | undefined;
  from: Chosen;
  onOpen: (photo: string) => void;
}

/** What a reviewer comes to correct: the chain of a mention, perhaps by drawing a box. */
export interface Chosen {
  mention: string;
  isDrawing: boolean;
}

export function GalleryPage({ session, photo, from, onOpen }: Props) {
  const [filter, setFilter] = useState(NO_FILTER);
  const [offset, setOffset] = useState(0);
  const [found, setFound] = useState<Awaited<ReturnType<typeof api.gallery>> | null>(null);
  const { failure, run } = useSubmit();
  useEffect(() => {
    if (!photo) void run(async () => setFound(await api.gallery(filter, offset, PAGE)));
  }, [filter, offset, photo]);
  const change = (to: Partial<api.GalleryFilter>) => {
    setFilter({ ...filter, ...to });
    setOffset(0);
  };

  const ids = found?.photos.map((each) => each.photo.id) ?? [];
  const at = photo ? ids.indexOf(photo) : -1;
  if (photo)
    return (
      <CorrectionPage
        key={photo}
        id={photo}
        session={session}
        from={from}
        before={ids[at - 1]}
        next={at >= 0 ? ids[at + 1] : undefined}
        onOpen={onOpen}
      />
    );
  return (
    <main class="page gallery-page" tabIndex={-1}>
      <h1>Gallery</h1>
      <form class="gallery-filter" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
        <label>
          State
          <select
            value={filter.stage}
            onChange={(event) => change({ stage: event.currentTarget.value as api.GalleryFilter["stage"] })}
          >
            <option value="">All</option>
            {STAGES.map(([stage, name]) => (
              <option key={stage} value={stage}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          Person
          <select value={filter.person} onChange={(event) => change({ person: event.currentTarget.value })}>
            <option value="">Anybody</option>
            {found?.people.map(({ worker, name }) => (
              <option key={worker} value={worker}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={filter.disagreement}
            onChange={() => change({ disagreement: !filter.disagreement })}
          />
          People disagreed
        </label>
        <label class="check">
          <input type="checkbox" checked={filter.changed} onChange={() => change({ changed: !filter.changed })} />
          Corrected
        </label>
        <span class="soft" role="status">
          {found && (found.total === 1 ? "1 photo" : `${found.total.toLocaleString("en")} photos`)}
        </span>
      </form>
      <Failure line={failure} />
      {found?.total === 0 && <p class="lead">No photo is like this.</p>}
      <ul class="gallery">
        {found?.photos.map((each) => (
          <li key={each.photo.id}>
            <Card entry={each} hasPicture={session.photos} />
          </li>
        ))}
      </ul>
      {found && <Pager offset={offset} page={PAGE} total={found.total} onChange={setOffset} />}
    </main>
  );
}

function Card({ entry, hasPicture }: { entry: GalleryEntry; hasPicture: boolean }) {
  const { photo, chains, captions } = entry;
  return (
    <a class="gallery-card" href={`#/gallery/${encodeURIComponent(photo.id)}`} aria-label={`Photo ${entry.name}`}>
      <span class="gallery-picture" style={{ aspectRatio: `${photo.width} / ${photo.height}` }}>
        {hasPicture && <img src={`${photo.url}?side=${THUMBNAIL}`} alt="" loading="lazy" draggable={false} />}
        <Overlay photo={photo} boxes={colouredBoxes(chains)} />
      </span>
      <span class="gallery-chips">
        <span class="chip">{entry.stage}</span>
        {entry.disagreements.length > 0 && <span class="chip">people disagreed</span>}
        <ChangedBy entry={entry} />
      </span>
      <ColouredCaptions captions={captions} chains={chains} />
    </a>
  );
}

/** Who has corrected a photo. */
export function ChangedBy({ entry }: { entry: GalleryEntry }) {
  const who = [...new Set(entry.corrections.map((each) => each.who))];
  if (!who.length) return null;
  return <span class="chip is-changed">corrected by {new Intl.ListFormat("en").format(who)}</span>;
}
