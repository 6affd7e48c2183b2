// What the server says; its own description of itself is at /api/openapi.json.
export type Box = [number, number, number, number];

export interface PhotoEntry {
  id: string;
  name: string;
  width: number;
  height: number;
  taken: string | null;
}

export interface FoundPhrase {
  text: string;
  span: [number, number];
  box: Box;
  score: number;
  absent: boolean;
}

export interface Hit extends PhotoEntry {
  score: number;
  probability: number | null;
  phrases: FoundPhrase[];
  duplicates: PhotoEntry[];
}

export interface Found {
  query: string | null;
  unknown_words: string[];
  photos: number;
  searched: number;
  hits: Hit[];
}

export interface PhotoPage {
  total: number;
  photos: PhotoEntry[];
}

export interface PhotoDetails extends PhotoEntry {
  camera: string | null;
  regions: { box: Box }[];
}

export interface GroundedPhrase {
  text: string;
  span: [number, number];
  type: string;
  boxes: { box: Box; score: number }[];
  presence: number | null;
  absent: boolean;
}

export interface Grounding {
  size: [number, number];
  unknown_words: string[];
  phrases: GroundedPhrase[];
}

export interface DescribedRegion {
  box: Box;
  phrases: { text: string; score: number }[];
}

export class ApiError extends Error {}

export const thumbnail = (id: string) => `/api/photos/${id}/thumbnail`;
export const image = (id: string, side = 1600) => `/api/photos/${id}/image?side=${side}`;

export const photos = (offset: number, limit: number, signal?: AbortSignal) =>
  ask<PhotoPage>(`/api/photos?offset=${offset}&limit=${limit}`, { signal });

export const photo = (id: string, signal?: AbortSignal) => ask<PhotoDetails>(`/api/photos/${id}`, { signal });

export function search(about: { q?: string; like?: string; all: boolean }, signal?: AbortSignal) {
  const asked = new URLSearchParams({ top: about.all ? "200" : "100", all: String(about.all) });
  if (about.q) {
    asked.set("q", about.q);
    asked.set("explain", "true");
  }
  if (about.like) asked.set("like", about.like);
  return ask<Found>(`/api/search?${asked}`, { signal });
}

export function searchByFile(file: Blob, all: boolean, signal?: AbortSignal) {
  const form = new FormData();
  form.set("photo", file);
  return ask<Found>(`/api/search/like?top=100&all=${all}`, { method: "POST", body: form, signal });
}

export const ground = (photo: string, sentence: string, signal?: AbortSignal) =>
  ask<Grounding>("/api/ground", posted({ photo, sentence }, signal));

export const caption = (photo: string, signal?: AbortSignal) =>
  ask<{ captions: { text: string }[] }>("/api/caption", posted({ photo }, signal));

export const describe = (photo: string, signal?: AbortSignal) =>
  ask<{ regions: DescribedRegion[] }>("/api/describe", posted({ photo }, signal));

export const wasStopped = (error: unknown) => error instanceof DOMException && error.name === "AbortError";

export const lineOf = (error: unknown) =>
  error instanceof ApiError ? error.message : "The server cannot be reached. Is deixis still running?";

function posted(body: object, signal?: AbortSignal): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
}

async function ask<Answer>(address: string, how?: RequestInit): Promise<Answer> {
  const response = await fetch(address, how);
  if (response.ok) return (await response.json()) as Answer;
  const said = (await response.json().catch(() => ({}))) as { error?: string };
  throw new ApiError(said.error ?? `The server answered ${response.status}.`);
}
