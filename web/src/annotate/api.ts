// Requests and responses of the workbench's server. All text in them is untrusted and is shown as plain text only.
import type {
  AnswerRequest,
  AnswerResponse,
  Assigned,
  CorrectionRequest,
  Dashboard,
  ExternalResponse,
  GalleryEntry,
  GalleryResponse,
  Guideline,
  GuidelinesResponse,
  HistoryResponse,
  InvitationResponse,
  LinkResponse,
  NewTokenResponse,
  NextRequest,
  NextResponse,
  OwnWorkResponse,
  PeopleResponse,
  Person,
  PhraseItem,
  PhrasesResponse,
  Reassigned,
  ReviewResponse,
  Role,
  SessionResponse,
  SkipRequest,
  Task,
  TokensResponse,
  UndoResponse,
} from "./schema";

export const TASKS: readonly Task[] = ["link", "group", "verify", "requirement", "drawing", "quality", "coverage", "pair", "own"];

export type Guidelines = GuidelinesResponse["tasks"]; // of the tasks in use
export type Answer = Required<Omit<AnswerRequest, "next" | "groups">> & Pick<AnswerRequest, "groups">;
export type Skip = Required<Omit<SkipRequest, "next">>;

export type Phrase = Required<PhraseItem>;
export type Stay = NonNullable<NextRequest["stay"]> | ""; // with the photo, the task, or nothing of the last question

/** What a lead changes: a chain is named by one of its phrases. */
export type Correction = Omit<CorrectionRequest, "seen">;

/** An answer that says no; `status` tells what to do about it. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    line: string,
    readonly retryAfterMs: number,
  ) {
    super(line);
  }
}

export const errorMessage = (error: unknown) =>
  error instanceof RequestError ? error.message : "The server cannot be reached. Please try again in a moment.";

/** The path of the project, if the server has several. */
export const BASE = location.pathname.replace(/\/(external)?$/, "");

// The session token inside another site's frame, where browsers keep no cookie.
let bearer: string | null = null;
let serverAheadMs = 0;

const LONGEST_WAIT_MS = 20_000;
const LONGEST_EXPORT_MS = 3_600_000;

/** Now, by the server's clock, in seconds since 1970. */
export const serverNow = () => (Date.now() + serverAheadMs) / 1000;

export const session = () =>
  ask<SessionResponse>("GET", "/api/session");
export const login = (name: string, password: string) =>
  ask<SessionResponse>("POST", "/api/login", { name, password });
export const join = (token: string, password: string) =>
  ask<SessionResponse>("POST", "/api/join", { token, password });
export const beginSignIn = (invitation: string) => ask<{ url: string }>("POST", "/api/oidc/start", { invitation });
export const logout = () => ask<object>("POST", "/api/logout", {});
export const invitation = (token: string) =>
  ask<InvitationResponse>("POST", "/api/invitation", { token });
export const changePassword = (old: string, fresh: string) =>
  ask<SessionResponse>("POST", "/api/password", { old, new: fresh });

export const next = (besides: string[], stay: Stay) =>
  ask<NextResponse>("POST", "/api/next", { besides, tasks: null, stay: stay || null });
export const answer = (said: Answer, besides: string[] | null, stay: Stay) =>
  ask<AnswerResponse>("POST", "/api/answer", withNext(said, besides, stay));
export const skip = (said: Skip, besides: string[] | null, stay: Stay) =>
  ask<AnswerResponse>("POST", "/api/skip", withNext(said, besides, stay));
export const undo = (event: number) =>
  ask<UndoResponse>("POST", "/api/undo", { event });
export const me = () => ask<OwnWorkResponse>("GET", "/api/me");

export const guidelines = async () => (await ask<GuidelinesResponse>("GET", "/api/guidelines")).tasks;
export const putGuideline = (task: Task, said: Omit<Guideline, "version">) => ask<Guideline>("PUT", `/api/guidelines/${task}`, said);

export const review = () => ask<ReviewResponse>("GET", "/api/review?offset=0&limit=100");
export const story = (photo: string) => ask<HistoryResponse>("GET", `/api/review/photos/${encodeURIComponent(photo)}`);
export const decide = (photo: string, mention: string, decision: string, remark = "") =>
  ask<{ event: number }>("POST", "/api/review/decide", { photo, mention, decision, types: [], remark });
export const seen = (photo: string) => ask<object>("POST", "/api/review/seen", { photo });
export const reinstate = (worker: string, task: Task) =>
  ask<{ level: string }>("POST", "/api/review/reinstate", { worker, task });

export const reassign = (worker: string) => ask<Reassigned>("POST", "/api/review/reassign", { worker });

export const dashboard = () => ask<Dashboard>("GET", "/api/dashboard");
export const people = async () => (await ask<PeopleResponse>("GET", "/api/people")).people;
export const invite = (name: string, role: Role, vouched: boolean) =>
  ask<LinkResponse>("POST", "/api/people", { name, role, vouched, history_items: 0, history_accuracy: 0 });
export const renewInvitation = (worker: string) => ask<LinkResponse>("POST", `/api/people/${worker}/invitation`, {});
export const vouch = (worker: string) =>
  ask<Person>("POST", `/api/people/${worker}`, { vouched: true, role: null });
export const suspend = (worker: string, suspended: boolean) =>
  ask<Person>("POST", `/api/people/${worker}`, { suspended });
export const forget = (worker: string) => ask<object>("DELETE", `/api/people/${worker}`);

export const tokens = async () => (await ask<TokensResponse>("GET", "/api/tokens")).tokens;
export const makeToken = (name: string) => ask<NewTokenResponse>("POST", "/api/tokens", { name });
export const revokeToken = (id: string) => ask<object>("DELETE", `/api/tokens/${id}`);

export const phrases = (photo: string) => ask<PhrasesResponse>("GET", `/api/photos/${encodeURIComponent(photo)}/phrases`);
export const putPhrases = (photo: string, all: Phrase[]) =>
  ask<PhrasesResponse>("PUT", `/api/photos/${encodeURIComponent(photo)}/phrases`, { phrases: all });

export const gallery = (filter: URLSearchParams, limit: number) =>
  ask<GalleryResponse>("GET", `/api/gallery?${filter}&limit=${limit}`);
export const assignPhotos = (filter: URLSearchParams, people: string[]) => {
  const asked = [...filter].filter(([name]) => name !== "offset");
  const wanted = asked.map(([name, value]) => [name, value === "true" && name !== "words" ? true : value]);
  return ask<Assigned>("POST", "/api/gallery/assign", { ...Object.fromEntries(wanted), people });
};
const galleryPlace = (photo: string) => `/api/gallery/${encodeURIComponent(photo)}`;
export const galleryPhoto = (photo: string) => ask<GalleryEntry>("GET", galleryPlace(photo));
export const correct = (photo: string, seen: number, wanted: Correction) =>
  ask<GalleryEntry>("POST", `${galleryPlace(photo)}/correct`, { seen, ...wanted });
export const undoCorrection = (photo: string) => ask<GalleryEntry>("POST", `${galleryPlace(photo)}/undo`, {});
export const redoCorrection = (photo: string) => ask<GalleryEntry>("POST", `${galleryPlace(photo)}/redo`, {});

/** Come in from another site, in whose frame no cookie is kept. */
export async function enterExternal(asked: Record<string, string>): Promise<ExternalResponse> {
  const entered = await ask<ExternalResponse>("POST", "/api/external/enter", asked);
  bearer = entered.preview ? null : entered.session;
  return entered;
}

/** A picture's bytes. */
export async function picture(url: string): Promise<Blob> {
  const response = await send("GET", url);
  return response.blob();
}

/** Annotations of the project as a ZIP file. */
export async function exported(format: string, isUnfinished: boolean): Promise<Blob> {
  const asked = new URLSearchParams({ to: format, unfinished: `${isUnfinished}` });
  const response = await send("GET", `${BASE}/api/export?${asked}`, undefined, LONGEST_EXPORT_MS);
  return response.blob();
}

function withNext(said: object, besides: string[] | null, stay: Stay) {
  return { ...said, next: besides && { besides, tasks: null, stay: stay || null } };
}

async function ask<Said>(method: string, address: string, body?: object): Promise<Said> {
  const response = await send(method, BASE + address, body);
  return (await response.json()) as Said;
}

async function send(method: string, address: string, body?: object, longest = LONGEST_WAIT_MS): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body) headers["content-type"] = "application/json";
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  const signal = AbortSignal.timeout(longest);
  const response = await fetch(address, { method, headers, body: body && JSON.stringify(body), signal });
  const date = Date.parse(response.headers.get("date") ?? "");
  if (date) serverAheadMs = date - Date.now();
  if (response.ok) return response;
  const said = (await response.json().catch(() => ({}))) as { error?: string };
  const wait = Number(response.headers.get("retry-after")) || 0;
  throw new RequestError(response.status, said.error ?? `The server answered ${response.status}.`, wait * 1000);
}
