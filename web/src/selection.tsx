import { useState } from "preact/hooks";
import * as api from "./api";
import { counted } from "./app";
import type { useFavourites } from "./lists";

interface Props {
  q: string;
  chosen: ReadonlySet<string> | null;
  favourites: ReturnType<typeof useFavourites>;
  onChosen: (chosen: ReadonlySet<string> | null) => void;
  onAlbums: () => void; // the albums have changed
}

const MOST = 1000; // photos of a request

/** Select several photos, and copy their paths, save their files, or make them favourites or an album. */
export function Selection({ q, chosen, favourites, onChosen, onAlbums }: Props) {
  const [note, setNote] = useState("");
  const [album, setAlbum] = useState("");
  if (!chosen)
    return (
      <button class="quiet choose" onClick={() => onChosen(new Set())}>
        Select
      </button>
    );
  const ids = [...chosen];
  const isRefused = !ids.length || ids.length > MOST;
  const areFavourites = !isRefused && ids.every((id) => favourites.ids.has(id));
  const current = /(?:^|\s)album:(?:"((?:[^"]|"")*)"|(\S+))/i.exec(q);
  const shown = (current?.[1]?.replaceAll('""', '"') ?? current?.[2] ?? "").trim();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText((await api.paths(ids)).paths.join("\n"));
      setNote("Copied.");
    } catch (error) {
      setNote(api.errorMessage(error));
    }
  };
  const change = async (name: string, remove: boolean) => {
    try {
      await api.changeAlbum(name, ids, remove);
      setNote(remove ? `Removed from ${name}.` : `Added to ${name}.`);
      onAlbums();
    } catch (error) {
      setNote(api.errorMessage(error));
    }
  };
  return (
    <div class="selection" aria-live="polite">
      <span>
        {ids.length ? `${counted(ids.length)} selected` : "Select photos by a click, or several with Shift"}
        {ids.length > MOST && `; at most ${MOST.toLocaleString("en")} at once`}
      </span>
      <button disabled={isRefused} onClick={() => api.download(ids)}>
        Download
      </button>
      <button disabled={isRefused} onClick={async () => setNote(await favourites.change(ids, areFavourites))}>
        {areFavourites ? "☆ Remove from favourites" : "★ Favourites"}
      </button>
      <form
        class="to-album"
        onSubmit={(event) => {
          event.preventDefault();
          if (album.trim()) void change(album.trim(), false);
        }}
      >
        <input
          value={album}
          aria-label="Album"
          placeholder="Album"
          maxLength={80}
          onInput={(event) => setAlbum(event.currentTarget.value)}
        />
        <button disabled={isRefused || !album.trim()}>Add to album</button>
      </form>
      {shown && (
        <button disabled={isRefused} onClick={() => change(shown, true)}>
          Remove from album
        </button>
      )}
      <button disabled={isRefused} onClick={copy}>
        Copy paths
      </button>
      <button
        class="quiet"
        onClick={() => {
          setNote("");
          onChosen(null);
        }}
      >
        Done
      </button>
      {note && <span>{note}</span>}
    </div>
  );
}
