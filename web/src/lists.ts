// The photos in the grid: all photos, page by page, or the results of a search.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { PageState } from "./address";
import * as api from "./api";
import type { PhotoEntry, SearchResponse } from "./schema";

const PAGE = 1000;
// Loaded before anyone scrolls to them, so that the scroll bar has the right length.
const LOAD_AHEAD = 20_000;
// An empty index may just be being filled.
const WAIT_FOR_FIRST_MS = 3000;

export function usePhotos(isActive: boolean) {
  const [photos, setPhotos] = useState<PhotoEntry[]>([]);
  const [total, setTotal] = useState<number | null>(null);
  const [failure, setFailure] = useState("");
  const isLoading = useRef(false);

  const more = useCallback(async () => {
    if (isLoading.current || (total !== null && photos.length >= total)) return;
    isLoading.current = true;
    try {
      const page = await api.photos(photos.length, PAGE);
      const known = new Set(photos.map(({ id }) => id)); // the index may have grown between two pages
      const fresh = page.photos.filter(({ id }) => !known.has(id));
      setPhotos([...photos, ...fresh]);
      setTotal(page.photos.length ? page.total : photos.length);
      setFailure("");
    } catch (error) {
      setFailure(api.errorMessage(error));
      setTotal(photos.length);
    } finally {
      isLoading.current = false;
    }
  }, [photos, total]);

  useEffect(() => {
    if (isActive && !failure && photos.length < Math.min(total ?? 1, LOAD_AHEAD)) void more();
  }, [isActive, failure, photos, total, more]);

  useEffect(() => {
    if (!isActive || total !== 0 || failure) return;
    const again = setTimeout(() => setTotal(null), WAIT_FOR_FIRST_MS);
    return () => clearTimeout(again);
  }, [isActive, total, failure]);

  return { photos, total, failure, more };
}

export function useSearch(state: PageState, dropped: File | null) {
  const [answer, setAnswer] = useState<SearchResponse | null>(null);
  const [failure, setFailure] = useState("");
  const [isRefused, setRefused] = useState(false); // the fault is in the query, not in the server
  const { q, like, all } = state;

  useEffect(() => {
    setFailure("");
    if (!q.trim() && !like && !dropped) return setAnswer(null);
    const stop = new AbortController();
    const response = dropped ? api.searchByFile(dropped, all, stop.signal) : api.search({ q, like, all }, stop.signal);
    response.then(setAnswer, (error) => {
      if (api.wasAborted(error)) return;
      setAnswer(null);
      setRefused(error instanceof api.ApiError && error.status < 429);
      setFailure(api.errorMessage(error));
    });
    return () => stop.abort();
  }, [q, like, all, dropped]);

  return { answer, failure, isRefused };
}
