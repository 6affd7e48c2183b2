// Requests and responses of the workbench's server. All text in them is untrusted and is shown as plain text only.
import type { Box } from "../api";

export type Task = "link" | "verify" | "requirement" | "drawing" | "quality" | "coverage" | "group" | "pair";
export type Role = "worker" | "reviewer" | "owner";

export const TASKS: readonly Task[] = ["link", "group", "verify", "requirement", "drawing", "quality", "coverage", "pair"];

export interface Person {
  id: string;
  name: string;
  role: Role;
}

export interface Session {
  project: string;
  user: Person | null;
  csrf: string | null;
  external: ExternalProgress | null;
  types: string[];
  photos: boolean;
  oidc: string | null; // the provider of sign-in by OpenID Connect
  version: string;
}

export interface ExternalProgress {
  items: number;
  done: number;
  submit: { url: string; fields: Record<string, string> } | null;
}

export interface PhotoRef {
  id: string;
  width: number;
  height: number;
  url: string;
}

export interface Part {
  text: string;
  mention: string | null;
}

export interface CutCaption {
  number: number;
  parts: Part[];
}

export interface Mention {
  id: string;
  text: string;
  caption: number;
}

export interface Proposal {
  model?: string;
  box?: Box;
  boxes?: Box[];
  answer?: string;
  probability?: number;
}

export interface Question {
  token: string;
  task: Task;
  test: boolean;
  until: number;
  photo: PhotoRef;
  captions: CutCaption[];
  mentions: Mention[];
  boxes: Box[];
  box_models: (string | null)[]; // for each box the model that proposed it, or null
  new_box: Box | null;
  answers: string[];
  proposal?: Proposal | null;
  guideline: number; // version
}

export interface Answer {
  token: string;
  answer: string;
  box: Box | null;
  groups?: string[][]; // of the answer "grouped"
  seconds: number;
  remark: string;
  guideline: number | null; // the version that was shown
}

export interface Skip {
  token: string;
  bad_phrase: string | null;
  seconds: number;
  remark: string;
}

export interface NextResponse {
  question: Question | null;
  why: string | null;
}

export interface AnswerResponse {
  event: number;
  again: boolean;
  next: Question | null;
  why: string | null;
  standing: Qualification | null; // where the answer was part of a test
  lesson: Lesson | null; // the same
  external: ExternalProgress | null;
}

/** What a test question teaches. */
export interface Lesson {
  correct: boolean;
  answer: string;
  why: string;
  boxes: Box[];
}

export interface TestState {
  done: number;
  of: number;
  wrong: number;
  allowed: number;
  attempt: number; // from 1
  attempts: number;
}

export interface Qualification {
  task: Task;
  level: string;
  test: TestState | null;
}

export interface Me {
  project: { name: string; photos: number; finished: number };
  tasks: Qualification[];
  judged: number;
  hours: number;
  pay: number;
  currency: string;
  guidelines: Record<Task, number>; // versions
}

export interface Example {
  shown: string;
  answer: string;
  why: string;
}

export interface Guideline {
  text: string;
  examples: Example[];
  version: number;
}

export type Guidelines = Partial<Record<Task, Guideline>>; // of the tasks in use

export interface ReviewItem {
  photo: PhotoRef;
  mention: string;
  phrase: string;
  reason: string;
  remark: string | null;
  event: number;
  holds_up: boolean;
  decisions: string[];
  mentions: string[]; // all that an open question is about
  region: Box | null; // of a phrase–region pair
}

export interface HistoryEntry {
  event: number;
  who: string;
  at: string;
  said: string;
  led_to: string;
}

export interface ChainHistory {
  phrases: string[];
  mentions: string[];
  types: string[];
  place: string;
  boxes: GalleryBox[];
  told: HistoryEntry[];
}

export interface PhotoHistory {
  photo: PhotoRef;
  captions: CutCaption[];
  chains: ChainHistory[];
  not_counted: HistoryEntry[];
  remarks: { event: number; who: string; text: string; seen: boolean }[];
}

export interface TaskProgress {
  task: Task;
  open: number;
  judged: number;
  seconds: number;
  known: number;
  agreement: number | null; // alpha
  agreeing: number | null; // share of equal pairs of votes
  compared: number;
  votes: number;
  rare_votes: number;
}

export interface WorkerProgress {
  worker: string;
  name: string | null;
  judged: number;
  hours: number;
  pay: number;
  checked: number;
  accuracy: number | null;
  skipped: number;
  levels: Partial<Record<Task, string>>;
  suspended: boolean; // by an owner
}

export interface Dashboard {
  photos: number;
  finished: number;
  waiting: number;
  judged: number;
  hours: number;
  cost: number;
  currency: string;
  per_hour: number;
  hours_left: number | null;
  pace: { at: number; judged: number }[]; // by the hour
  tasks: TaskProgress[];
  workers: WorkerProgress[];
  blocked: Record<string, number>; // by what they wait for
  corrections: CorrectionSummary;
}

export interface CorrectionSummary {
  photos: number;
  chains: number;
  boxes_kept: number;
  boxes_moved: number;
  boxes_deleted: number;
  boxes_added: number;
  same_chain: number | null; // share of pairs of phrases
}

export type PhotoStage = "open" | "waiting for review" | "finished";

export interface GalleryBox {
  id: string;
  xyxy: Box;
  by: string | null;
  model: string | null;
  is_correction: boolean;
  waits: boolean; // for a judgement
}

export interface GalleryChain {
  mentions: string[];
  phrases: string[];
  types: string[];
  stage: string;
  is_scene: boolean;
  is_linking: boolean;
  boxes: GalleryBox[];
  corrected_by: string[];
}

export interface GalleryPhoto {
  photo: PhotoRef;
  name: string;
  stage: PhotoStage;
  captions: CutCaption[];
  chains: GalleryChain[];
  people: string[];
  disagreements: { task: Task; mention: string; answers: [string, string][] }[];
  corrections: { event: number; who: string; at: string; action: string; phrase: string }[];
  can_redo: boolean;
  last_event: number;
}

export interface GalleryFilter {
  stage: PhotoStage | "";
  person: string;
  disagreement: boolean;
  changed: boolean;
}

/** What a lead changes: a chain is named by one of its phrases. */
export interface Correction {
  action: "draw" | "move" | "delete" | "split" | "merge" | "retype" | "decide";
  mention: string;
  box?: Box;
  box_id?: string;
  mentions?: string[];
  other?: string;
  types?: string[];
  ending?: string;
}

export interface Member {
  worker: string;
  name: string | null;
  role: Role;
  vouched: boolean;
  joined: boolean;
  forgotten: boolean;
  suspended: boolean;
  history_items: number;
  history_accuracy: number;
}

export interface ApiToken {
  id: string;
  name: string;
  created_at: number;
  until: number;
}

export interface PhotoRow {
  photo: PhotoRef;
  name: string;
  begun: boolean;
  finished: boolean;
  waiting: number;
}

export interface Phrase {
  id: string;
  types: string[];
}

export interface PhotoPhrases {
  photo: PhotoRef;
  begun: boolean;
  captions: { number: number; text: string }[];
  phrases: (Phrase & { text: string })[];
}

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

// The CSRF header of the session, which other sites cannot send, or the session token inside another site's frame.
let csrf: string | null = null;
let bearer: string | null = null;
let serverAheadMs = 0;

const LONGEST_WAIT_MS = 20_000;

/** Now, by the server's clock, in seconds since 1970. */
export const serverNow = () => (Date.now() + serverAheadMs) / 1000;

export const session = async () => remembered(await ask<Session>("GET", "/api/session"));
export const login = async (name: string, password: string) =>
  remembered(await ask<Session>("POST", "/api/login", { name, password }));
export const join = async (token: string, password: string) =>
  remembered(await ask<Session>("POST", "/api/join", { token, password }));
export const beginSignIn = (invitation: string) => ask<{ url: string }>("POST", "/api/oidc/start", { invitation });
export const logout = () => change<object>("POST", "/api/logout", {});
export const invitation = (token: string) =>
  ask<{ name: string; role: Role; project: string }>("POST", "/api/invitation", { token });
export const changePassword = async (old: string, fresh: string) =>
  remembered(await change<Session>("POST", "/api/password", { old, new: fresh }));

/** What somebody wants to stay with: a photo, a task, or nothing. */
export type Stay = "photo" | "task" | "";

export const next = (besides: string[], stay: Stay) =>
  change<NextResponse>("POST", "/api/next", { besides, tasks: null, stay: stay || null });
export const answer = (said: Answer, besides: string[] | null, stay: Stay) =>
  change<AnswerResponse>("POST", "/api/answer", withNext(said, besides, stay));
export const skip = (said: Skip, besides: string[] | null, stay: Stay) =>
  change<AnswerResponse>("POST", "/api/skip", withNext(said, besides, stay));
export const undo = (event: number) =>
  change<{ event: number; question: Question | null }>("POST", "/api/undo", { event });
export const me = () => ask<Me>("GET", "/api/me");

export const guidelines = async () => (await ask<{ tasks: Guidelines }>("GET", "/api/guidelines")).tasks;
export const putGuideline = (task: Task, said: Omit<Guideline, "version">) => change<Guideline>("PUT", `/api/guidelines/${task}`, said);

export const review = () => ask<{ total: number; items: ReviewItem[] }>("GET", "/api/review?offset=0&limit=100");
export const story = (photo: string) => ask<PhotoHistory>("GET", `/api/review/photos/${encodeURIComponent(photo)}`);
export const decide = (photo: string, mention: string, decision: string, remark = "") =>
  change<{ event: number }>("POST", "/api/review/decide", { photo, mention, decision, types: [], remark });
export const seen = (photo: string) => change<object>("POST", "/api/review/seen", { photo });
export const reinstate = (worker: string, task: Task) =>
  change<{ level: string }>("POST", "/api/review/reinstate", { worker, task });

export const dashboard = () => ask<Dashboard>("GET", "/api/dashboard");
export const people = async () => (await ask<{ people: Member[] }>("GET", "/api/people")).people;
export const invite = (name: string, role: Role, vouched: boolean) =>
  change<{ link: string }>("POST", "/api/people", { name, role, vouched, history_items: 0, history_accuracy: 0 });
export const renewInvitation = (worker: string) => change<{ link: string }>("POST", `/api/people/${worker}/invitation`, {});
export const vouch = (worker: string) =>
  change<Member>("POST", `/api/people/${worker}`, { vouched: true, role: null });
export const suspend = (worker: string, suspended: boolean) =>
  change<Member>("POST", `/api/people/${worker}`, { suspended });
export const forget = (worker: string) => change<object>("DELETE", `/api/people/${worker}`);

export const tokens = async () => (await ask<{ tokens: ApiToken[] }>("GET", "/api/tokens")).tokens;
export const makeToken = (name: string) => change<{ id: string; token: string }>("POST", "/api/tokens", { name });
export const revokeToken = (id: string) => change<object>("DELETE", `/api/tokens/${id}`);

export const photos = (offset: number, limit: number) =>
  ask<{ total: number; photos: PhotoRow[] }>("GET", `/api/photos?offset=${offset}&limit=${limit}`);
export const phrases = (photo: string) => ask<PhotoPhrases>("GET", `/api/photos/${encodeURIComponent(photo)}/phrases`);
export const putPhrases = (photo: string, all: Phrase[]) =>
  change<PhotoPhrases>("PUT", `/api/photos/${encodeURIComponent(photo)}/phrases`, { phrases: all });

export const gallery = (filter: GalleryFilter, offset: number, limit: number) => {
  const asked = new URLSearchParams({ offset: `${offset}`, limit: `${limit}` });
  for (const [name, value] of Object.entries(filter)) if (value) asked.set(name, `${value}`);
  type Found = { total: number; people: { worker: string; name: string }[]; photos: GalleryPhoto[] };
  return ask<Found>("GET", `/api/gallery?${asked}`);
};
const galleryPlace = (photo: string) => `/api/gallery/${encodeURIComponent(photo)}`;
export const galleryPhoto = (photo: string) => ask<GalleryPhoto>("GET", galleryPlace(photo));
export const correct = (photo: string, seen: number, wanted: Correction) =>
  change<GalleryPhoto>("POST", `${galleryPlace(photo)}/correct`, { seen, ...wanted });
export const undoCorrection = (photo: string) => change<GalleryPhoto>("POST", `${galleryPlace(photo)}/undo`, {});
export const redoCorrection = (photo: string) => change<GalleryPhoto>("POST", `${galleryPlace(photo)}/redo`, {});

export interface ExternalSession extends ExternalProgress {
  preview: boolean;
  session: string;
}

/** Come in from another site, in whose frame no cookie is kept. */
export async function enterExternal(asked: Record<string, string>): Promise<ExternalSession> {
  const entered = await ask<ExternalSession>("POST", "/api/external/enter", asked);
  bearer = entered.preview ? null : entered.session;
  return entered;
}

/** A picture's bytes. */
export async function picture(url: string): Promise<Blob> {
  const response = await send("GET", url);
  return response.blob();
}

function withNext(said: object, besides: string[] | null, stay: Stay) {
  return { ...said, next: besides && { besides, tasks: null, stay: stay || null } };
}

function remembered(found: Session): Session {
  csrf = found.csrf;
  return found;
}

/** A request that changes something. A session that was renewed elsewhere has another token: ask for it, once. */
async function change<Said>(method: string, address: string, body?: object): Promise<Said> {
  try {
    return await ask<Said>(method, address, body);
  } catch (error) {
    if (!(error instanceof RequestError) || error.status !== 403 || bearer) throw error;
    const before = csrf;
    await session();
    if (csrf === before) throw error;
    return ask<Said>(method, address, body);
  }
}

async function ask<Said>(method: string, address: string, body?: object): Promise<Said> {
  const response = await send(method, address, body);
  return (await response.json()) as Said;
}

async function send(method: string, address: string, body?: object): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body) headers["content-type"] = "application/json";
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  else if (csrf && method !== "GET") headers["x-deixis-csrf"] = csrf;
  const signal = AbortSignal.timeout(LONGEST_WAIT_MS);
  const response = await fetch(address, { method, headers, body: body && JSON.stringify(body), signal });
  const date = Date.parse(response.headers.get("date") ?? "");
  if (date) serverAheadMs = date - Date.now();
  if (response.ok) return response;
  const said = (await response.json().catch(() => ({}))) as { error?: string };
  const wait = Number(response.headers.get("retry-after")) || 0;
  throw new RequestError(response.status, said.error ?? `The server answered ${response.status}.`, wait * 1000);
}
