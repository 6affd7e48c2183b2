// The photos that the grid shows: all of them, page by page, or what a search finds.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Place } from "./address";
import * as api from "./api";

const PAGE = 1000;
// So many are known before anybody scrolls to them, so that the scroll bar tells the truth.
const KNOWN_AHEAD = 20_000;
// An empty index may be one that is being filled.
const WAIT_FOR_FIRST_MS = 3000;

export function useLibrary(isWanted: boolean) {
  const [photos, setPhotos] = useState<api.PhotoEntry[]>([]);
  const [total, setTotal] = useState<number | null>(null);
  const [failure, setFailure] = useState("");
  const isAsking = useRef(false);

  const more = useCallback(async () => {
    if (isAsking.current || (total !== null && photos.length >= total)) return;
    isAsking.current = true;
    try {
      const page = await api.photos(photos.length, PAGE);
      const known = new Set(photos.map(({ id }) => id)); // the index may have grown between two pages
      const fresh = page.photos.filter(({ id }) => !known.has(id));
      setPhotos([...photos, ...fresh]);
      setTotal(page.photos.length ? page.total : photos.length);
      setFailure("");
    } catch (error) {
      setFailure(api.lineOf(error));
      setTotal(photos.length);
    } finally {
      isAsking.current = false;
    }
  }, [photos, total]);

  useEffect(() => {
    if (isWanted && !failure && photos.length < Math.min(total ?? 1, KNOWN_AHEAD)) void more();
  }, [isWanted, failure, photos, total, more]);

  useEffect(() => {
    if (!isWanted || total !== 0 || failure) return;
    const again = setTimeout(() => setTotal(null), WAIT_FOR_FIRST_MS);
    return () => clearTimeout(again);
  }, [isWanted, total, failure]);

  return { photos, total, failure, more };
}

export function useFound(place: Place, dropped: File | null) {
  const [answer, setAnswer] = useState<api.Found | null>(null);
  const [failure, setFailure] = useState("");
  const { q, like, all } = place;

  useEffect(() => {
    setFailure("");
    if (!q.trim() && !like && !dropped) return setAnswer(null);
    const stop = new AbortController();
    const asked = dropped ? api.searchByFile(dropped, all, stop.signal) : api.search({ q, like, all }, stop.signal);
    asked.then(setAnswer, (error) => {
      if (api.wasStopped(error)) return;
      setAnswer(null);
      setFailure(api.lineOf(error));
    });
    return () => stop.abort();
  }, [q, like, all, dropped]);

  return { answer, failure };
}
