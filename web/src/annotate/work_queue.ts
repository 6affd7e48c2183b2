// The worker's questions: the current one, one loaded in advance, and answers that are being sent. Requests are sent one
// at a time, so they stay in order; the page never waits for them.
import * as api from "./api";
import type { ExternalProgress, Lesson, QualificationInfo, QuestionInfo } from "./schema";
import { Outbox, type PendingRequest } from "./outbox";
import { loadPicture } from "./pictures";
import { keepStay, readStay } from "./stay";

const AHEAD = 1;
const ASK_AGAIN_MS = 15_000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const SOON_OVER_S = 5;

// Status codes of an answer: the question is not this worker's any more, or the answer is invalid.
const GONE = [404, 409, 410];
const WRONG = [400, 413, 422];

export interface Notice {
  line: string;
  kind: "good" | "plain" | "trouble";
}

/** A test question with its answer, and what it teaches. */
export interface Taught {
  question: QuestionInfo;
  said: PendingRequest["said"];
  lesson: Lesson;
  standing: QualificationInfo | null;
}

export class WorkQueue {
  current: QuestionInfo | null = null;
  taught: Taught | null = null; // shown instead of a question
  stay: api.Stay = readStay();
  why: string | null = null; // there is no question
  notice: Notice | null = null;
  isOffline = false;
  isSignedOut = false;
  answered = 0; // since the page was opened
  external: ExternalProgress | null = null;

  #ahead: QuestionInfo[] = [];
  #outbox: Outbox;
  #done: { event: number; isAnswer: boolean }[] = []; // what can be taken back, the newest last
  #undoWanted = false;
  #isBusy = false;
  #checked: string | null = null; // the token of a test question whose answer is on the way
  #failures = 0;
  #timer = 0;
  #shownAt = 0;
  #hiddenAt = 0;
  #isClosed = false;
  #changed: () => void;
  #standing: (standing: QualificationInfo) => void;

  constructor(project: string, worker: string, on: { change: () => void; standing: (standing: QualificationInfo) => void }) {
    this.#outbox = new Outbox(project, worker);
    this.#changed = on.change;
    this.#standing = on.standing;
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.#seen);
    void this.#pump();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.#seen);
  }

  get unsent(): number {
    return this.#outbox.waiting.length;
  }

  get canUndo(): boolean {
    return this.#done.length > 0 || this.unsent > 0;
  }

  // A key may come between an answer and the moment when the next question is painted: it was meant for the first.
  answer(question: QuestionInfo, said: Pick<api.Answer, "answer" | "box" | "groups" | "remark" | "guideline">) {
    if (question !== this.current) return;
    this.#send(question, { kind: "answer", token: question.token, seconds: this.#seconds(), ...said });
  }

  skip(question: QuestionInfo, said: { bad_phrase: string | null; remark: string }) {
    if (question !== this.current) return;
    this.#send(question, { kind: "skip", token: question.token, seconds: this.#seconds(), ...said });
  }

  undo() {
    if (!this.canUndo) return;
    this.#undoWanted = true;
    if (this.isOffline) this.#say("It will be taken back as soon as the server is there again.", "plain");
    this.wake();
  }

  tell(notice: Notice | null) {
    this.notice = notice;
    this.#changed();
  }

  /** Try now what waits. */
  wake = () => {
    clearTimeout(this.#timer);
    void this.#pump();
  };

  /** A page that nobody looks at need not ask for questions; it will when it is looked at. */
  #rouse = () => {
    if (!document.hidden || this.unsent) this.wake();
  };

  #seen = () => {
    if (document.hidden) this.#hiddenAt = performance.now();
    else {
      if (this.#hiddenAt) this.#shownAt += performance.now() - this.#hiddenAt; // that time is not work
      this.#hiddenAt = 0;
      this.wake();
    }
  };

  #seconds(): number {
    return Math.round((performance.now() - this.#shownAt) / 10) / 100;
  }

  #say(line: string, kind: Notice["kind"]) {
    this.notice = { line, kind };
  }

  #send(question: QuestionInfo, said: PendingRequest["said"]) {
    this.#outbox.add({ said, question });
    if (said.kind === "answer") this.answered += 1;
    this.notice = null;
    this.why = null; // until the server has said so again
    if (question.test && said.kind === "answer") {
      this.#checked = question.token; // its lesson comes before the next question
      this.#show(null);
    } else this.#show(this.#takeAhead());
    this.wake();
  }

  /** Choose what to stay with; questions that are loaded already come first. */
  stayWith(what: api.Stay) {
    this.stay = what;
    keepStay(what);
    this.#changed();
  }

  /** Go on after a lesson. */
  proceed() {
    this.taught = null;
    if (!this.current) this.#show(this.#takeAhead());
    this.wake();
  }

  #takeAhead(): QuestionInfo | null {
    while (this.#ahead.length) {
      const question = this.#ahead.shift()!;
      if (question.until - api.serverNow() > SOON_OVER_S) return question;
    }
    return null;
  }

  #show(question: QuestionInfo | null) {
    this.current = question;
    this.#shownAt = performance.now();
    this.#hiddenAt = document.hidden ? this.#shownAt : 0;
    this.#changed();
  }

  get #held(): string[] {
    return [...(this.current ? [this.current.token] : []), ...this.#ahead.map(({ token }) => token)];
  }

  get #wants(): boolean {
    return !this.external?.submit && this.#held.length < 1 + AHEAD;
  }

  async #pump() {
    if (this.#isBusy || this.#isClosed || this.isSignedOut) return;
    this.#isBusy = true;
    let wait = 0;
    try {
      while (!this.#isClosed && (await this.#step())) this.#worked();
      this.#worked();
      if (!this.current || !this.#ahead.length) wait = ASK_AGAIN_MS;
    } catch (error) {
      wait = this.#failed(error);
    }
    this.#isBusy = false;
    if (wait && !this.#isClosed) this.#timer = window.setTimeout(this.#rouse, wait);
    this.#changed();
  }

  /** Do one thing with the server; whether there may be more to do. */
  async #step(): Promise<boolean> {
    const first = this.#outbox.waiting[0];
    if (first) {
      await this.#deliver(first);
      return true;
    }
    if (this.#undoWanted) {
      await this.#takeBack();
      return true;
    }
    if (!this.#wants) return false;
    const { question, why } = await api.next(this.#held, this.stay);
    this.#receive(question, why);
    return Boolean(question);
  }

  async #deliver(sent: PendingRequest) {
    const { kind, ...said } = sent.said;
    const besides = this.#wants ? [...this.#held, ...this.#outbox.tokens.slice(1)] : null;
    const isFirstTry = !sent.isTried;
    sent.isTried = true;
    try {
      const kept =
        kind === "answer"
          ? await api.answer(said as api.Answer, besides, this.stay)
          : await api.skip(said as api.Skip, besides, this.stay);
      this.#outbox.remove(said.token);
      if (kept.lesson) this.#teach({ question: sent.question, said: sent.said, lesson: kept.lesson, standing: kept.standing });
      else this.#done.push({ event: kept.event, isAnswer: kind === "answer" });
      if (kept.again && isFirstTry)
        this.#say("You had answered that question in another window. The first answer counts; undo takes it back.", "trouble");
      if (kept.external) this.external = kept.external;
      if (besides) this.#receive(kept.next, kept.why);
      if (kept.standing) this.#standing(kept.standing);
      if (!kept.lesson) this.#goOn(said.token);
    } catch (error) {
      const status = error instanceof api.RequestError ? error.status : 0;
      if (!GONE.includes(status) && !WRONG.includes(status)) throw error;
      this.#outbox.remove(said.token);
      if (kind === "answer") this.answered -= 1;
      if (WRONG.includes(status)) this.#again(sent.question, `The answer was not accepted: ${api.errorMessage(error)}`);
      else this.#say("That question was not open any more, so your answer was not needed.", "plain");
      this.#goOn(said.token);
    }
  }

  #teach(taught: Taught) {
    this.#checked = null;
    if (this.current) this.#ahead.unshift(this.current);
    this.current = null;
    this.taught = taught;
  }

  /** Show the next question after a test question without a lesson: it was sent twice, or was not needed. */
  #goOn(token: string) {
    if (this.#checked !== token) return;
    this.#checked = null;
    if (!this.current) this.#show(this.#takeAhead());
  }

  async #takeBack() {
    const last = this.#done.at(-1);
    if (last) {
      try {
        const { question } = await api.undo(last.event);
        if (last.isAnswer) this.answered -= 1;
        if (question) this.#again(question, "Taken back. Here it is again.", "good");
        else this.#say("Taken back.", "good");
      } catch (error) {
        if (!(error instanceof api.RequestError) || !isFinal(error)) throw error;
        this.#say(error.message, "trouble");
      }
      this.#done.pop();
    }
    this.#undoWanted = false;
  }

  #again(question: QuestionInfo, line: string, kind: Notice["kind"] = "trouble") {
    if (this.current && this.current.token !== question.token) this.#ahead.unshift(this.current);
    this.#say(line, kind);
    this.#show(question);
  }

  #receive(question: QuestionInfo | null, why: string | null) {
    this.why = why;
    if (!question || this.#held.includes(question.token)) return;
    loadPicture(question.photo.url).catch(() => undefined);
    if (this.current || this.taught || this.#checked) this.#ahead.push(question);
    else this.#show(question);
  }

  #worked() {
    this.#failures = 0;
    this.isOffline = false;
    this.#changed();
  }

  /** What a failure means; how long to wait before the same is tried again. */
  #failed(error: unknown): number {
    if (error instanceof api.RequestError && error.status === 401) {
      this.isSignedOut = true;
      return 0;
    }
    if (error instanceof api.RequestError && isFinal(error)) {
      this.#say(error.message, "trouble");
      return ASK_AGAIN_MS;
    }
    this.isOffline = !(error instanceof api.RequestError) || error.status >= 500;
    const wait = RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)]!;
    this.#failures += 1;
    return Math.max(wait, error instanceof api.RequestError ? error.retryAfterMs : 0);
  }
}

/** Whether asking the same again would bring the same answer. */
const isFinal = ({ status }: api.RequestError) => status < 500 && status !== 429 && status !== 401;
