// The HTTP API, as described at /api/openapi.json.
import type {
  AlbumNames,
  Captions,
  Description,
  Favourites,
  Grounding,
  Overview,
  PhotoDetails,
  PhotoPage,
  Phrases,
  SearchResponse,
} from "./schema";

export type Box = [number, number, number, number];

/** A filter of a query, such as `in:holiday`. */
export const FILTER = /(?:^|\s)(-?in|camera|after|before|album|is):("(?:[^"]|"")*"|'[^']*'(?!\S)|“[^”]*”|\S+)/gi;

/** A filter with a name, whatever it is. */
export const named = (key: "in" | "album", name: string) => `${key}:"${name.replaceAll('"', '""')}"`;
/** The filter of a folder, named from the indexed one on. */
export const inFolder = (path: string) => named("in", `${path}/`);

/** The query without the filters that begin so. */
export const withoutFilters = (q: string, ...beginnings: string[]) =>
  q.replace(FILTER, (text) => (beginnings.some((each) => text.trim().toLowerCase().startsWith(each)) ? "" : text)).trim();

export const isOnlyFilters = (q: string) => q.replace(FILTER, "").trim() === "";

/** Maximum number of results of a search, twice as many with improbable ones. */
export const SHOWN_RESULTS = 100;

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export const thumbnail = (id: string) => `/api/photos/${id}/thumbnail`;
export const image = (id: string, side = 1600) => `/api/photos/${id}/image?side=${side}`;

export const photos = (q: string, offset: number, limit: number) =>
  request<PhotoPage>(`/api/photos?${new URLSearchParams({ q, offset: `${offset}`, limit: `${limit}` })}`);

export const photo = (id: string, signal?: AbortSignal) => request<PhotoDetails>(`/api/photos/${id}`, { signal });

/** The phrases of a query, located in a photo. */
export const phrases = (id: string, q: string, signal?: AbortSignal) =>
  request<Phrases>(`/api/photos/${id}/phrases?${new URLSearchParams({ q })}`, { signal });

export function search(query: { q?: string; like?: string; all: boolean }, signal?: AbortSignal) {
  const top = query.all ? 2 * SHOWN_RESULTS : SHOWN_RESULTS;
  const params = new URLSearchParams({ top: String(top), all: String(query.all) });
  if (query.q) params.set("q", query.q);
  if (query.like) params.set("like", query.like);
  return request<SearchResponse>(`/api/search?${params}`, { signal });
}

export function searchByFile(file: Blob, all: boolean, signal?: AbortSignal) {
  const form = new FormData();
  form.set("photo", file);
  return request<SearchResponse>(`/api/search/like?top=${SHOWN_RESULTS}&all=${all}`, { method: "POST", body: form, signal });
}

/** A photo of the index, by its id, or a file of the user. */
export type Source = string | File;

export async function ground(photo: Source, sentence: string, signal?: AbortSignal) {
  const found = await request<Grounding>("/api/ground", post(photo, { sentence }, signal));
  return { ...found, phrases: found.phrases.map((phrase) => ({ ...phrase, boxes: phrase.boxes.map(({ box }) => box) })) };
}

export const caption = (photo: Source, signal?: AbortSignal) =>
  request<Captions>("/api/caption", post(photo, {}, signal));

export const describe = (photo: Source, signal?: AbortSignal) =>
  request<Description>("/api/describe", post(photo, {}, signal));

/** An uploaded photo as JPEG, for formats that the browser cannot show, and its size in pixels. */
export async function preview(file: File, signal: AbortSignal): Promise<{ jpeg: Blob; width: number; height: number }> {
  const response = await fetch("/api/preview", post(file, {}, signal));
  if (!response.ok) throw new ApiError("", response.status);
  const [width, height] = ["x-width", "x-height"].map((name) => Number(response.headers.get(name))) as [number, number];
  return { jpeg: await response.blob(), width, height };
}

export const original = (id: string, isSaved = false) => `/api/photos/${id}/original${isSaved ? "?download=1" : ""}`;

export const overview = (q: string, signal?: AbortSignal) =>
  request<Overview>(`/api/overview?${new URLSearchParams({ q })}`, { signal });

export const favourites = () => request<Favourites>("/api/favourites");

export const setFavourites = (photos: string[], remove: boolean) =>
  request<Favourites>("/api/favourites", postJson({ photos, remove }));

export const changeAlbum = (name: string, photos: string[], remove: boolean) =>
  request<AlbumNames>(`/api/albums/${encodeURIComponent(name)}`, postJson({ photos, remove }));

/** Save photos: one as its file, several as one zip file. */
export function download(ids: readonly string[]) {
  const form = document.createElement("form");
  const one = ids.length === 1;
  Object.assign(form, { method: one ? "get" : "post", action: one ? original(ids[0]!) : "/api/download" });
  const field = document.createElement("input");
  Object.assign(field, { type: "hidden", name: one ? "download" : "photos", value: one ? "1" : ids.join() });
  form.append(field);
  document.body.append(form);
  form.submit();
  form.remove();
}

export const paths = (ids: string[]) => request<{ paths: string[] }>("/api/paths", postJson(ids));

export const wasAborted = (error: unknown) => error instanceof DOMException && error.name === "AbortError";

export const errorMessage = (error: unknown) =>
  error instanceof ApiError ? asSentence(error.message) : "The server cannot be reached. Is deixis running?";

/** A message with a capital letter, unless it begins with what the user typed, such as `date:`, and a full stop. */
const asSentence = (text: string) =>
  `${/^[\w-]+:/.test(text) ? text : text.slice(0, 1).toUpperCase() + text.slice(1)}`.replace(/[^.:…!?]$/, "$&.");

function post(photo: Source, values: Record<string, string>, signal?: AbortSignal): RequestInit {
  if (typeof photo === "string") return postJson({ photo, ...values }, signal);
  const form = new FormData();
  form.set("photo", photo);
  for (const [name, value] of Object.entries(values)) form.set(name, value);
  return { method: "POST", body: form, signal };
}

function postJson(body: object, signal?: AbortSignal): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
}

async function request<Response>(address: string, options?: RequestInit): Promise<Response> {
  const response = await fetch(address, options);
  if (response.ok) return (await response.json()) as Response;
  const body = (await response.json().catch(() => ({}))) as { error?: string };
  throw new ApiError(body.error ?? `The server responded with status ${response.status}.`, response.status);
}
