// The photos in the grid: those that pass the filters, page by page, or the results of a search.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { PageState } from "./address";
import * as api from "./api";
import type { SearchResponse, TileEntry } from "./schema";

const PAGE = 1000;
// Loaded before anyone scrolls to them, so that the scroll bar has the right length.
const LOAD_AHEAD = 20_000;
// An empty index may just be being filled.
const WAIT_FOR_FIRST_MS = 3000;

interface Listing {
  q: string;
  photos: TileEntry[];
  loaded: number; // with duplicates
  total: number | null;
  reason: string; // why there are none
  failure: string;
  isRefused: boolean; // the fault is in the query, not in the server
}

const isRefusal = (error: unknown) => error instanceof api.ApiError && error.status < 429;

/** The photos that pass the filters of a query, in the order of their dates. */
export function usePhotos(q: string, isActive: boolean) {
  const none: Listing = { q, photos: [], loaded: 0, total: null, reason: "", failure: "", isRefused: false };
  const [last, setListing] = useState(none);
  const listing = last.q === q ? last : none;
  const { photos, loaded, total, failure } = listing;
  const loading = useRef<string | null>(null);

  const more = useCallback(async () => {
    if (loading.current === q || (total !== null && loaded >= total)) return;
    loading.current = q;
    let next: Listing;
    try {
      const page = await api.photos(q, loaded, PAGE);
      const known = new Set(photos.map(({ id }) => id)); // the index may have grown between two pages
      const fresh = page.photos.filter(({ id }) => !known.has(id));
      const count = page.photos.reduce((sum, { duplicates }) => sum + 1 + duplicates.length, loaded);
      const all = { photos: [...photos, ...fresh], loaded: count, total: page.photos.length ? page.total : loaded };
      next = { ...none, ...all, reason: page.filter_reason ?? "" };
    } catch (error) {
      next = { ...listing, total: loaded, failure: api.errorMessage(error), isRefused: isRefusal(error) };
    }
    if (loading.current !== q) return; // the query has changed meanwhile
    loading.current = null;
    setListing(next);
  }, [q, listing]);

  useEffect(() => {
    if (isActive && !failure && loaded < Math.min(total ?? 1, LOAD_AHEAD)) void more();
  }, [isActive, failure, loaded, total, more]);

  useEffect(() => {
    if (!isActive || q || total !== 0 || failure) return;
    const again = setTimeout(() => setListing(none), WAIT_FOR_FIRST_MS);
    return () => clearTimeout(again);
  }, [isActive, q, total, failure]);

  return { ...listing, more, again: () => setListing(none) };
}

export function useSearch(state: PageState, dropped: File | null, isActive: boolean) {
  const [answer, setAnswer] = useState<SearchResponse | null>(null);
  const [failure, setFailure] = useState("");
  const [isRefused, setRefused] = useState(false);
  const { q, like, all } = state;

  useEffect(() => {
    setFailure("");
    if (!isActive) return setAnswer(null);
    const stop = new AbortController();
    const response = dropped ? api.searchByFile(dropped, all, stop.signal) : api.search({ q, like, all }, stop.signal);
    response.then(setAnswer, (error) => {
      if (api.wasAborted(error)) return;
      setAnswer(null);
      setRefused(isRefusal(error));
      setFailure(api.errorMessage(error));
    });
    return () => stop.abort();
  }, [q, like, all, dropped, isActive]);

  return { answer, failure, isRefused };
}

/** The ids of the favourites, and a function that changes them and returns the message of an error. */
export function useFavourites() {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    api.favourites().then(({ photos }) => setIds(new Set(photos)), () => undefined);
  }, []);
  const change = async (photos: string[], remove: boolean): Promise<string> => {
    try {
      setIds(new Set((await api.setFavourites(photos, remove)).photos));
      return "";
    } catch (error) {
      return api.errorMessage(error);
    }
  };
  return { ids, change };
}
