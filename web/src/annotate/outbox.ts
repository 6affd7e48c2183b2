// Answers that are being sent: stored in the browser until the server has confirmed them.
import type { Answer, Skip } from "./api";
import type { QuestionInfo } from "./schema";

export interface PendingRequest {
  said: ({ kind: "answer" } & Answer) | ({ kind: "skip" } & Skip);
  question: QuestionInfo; // to be shown again where the answer cannot be
  isTried?: boolean; // the server may have it already
}

export class Outbox {
  readonly #key: string;
  #waiting: PendingRequest[];

  constructor(project: string, worker: string) {
    this.#key = `deixis-answers ${project} ${worker}`;
    this.#waiting = this.#read();
  }

  get waiting(): readonly PendingRequest[] {
    return this.#waiting;
  }

  get tokens(): string[] {
    return this.#waiting.map(({ said }) => said.token);
  }

  add(sent: PendingRequest) {
    this.#waiting = [...this.#waiting, sent];
    this.#keep();
  }

  remove(token: string) {
    this.#waiting = this.#waiting.filter(({ said }) => said.token !== token);
    this.#keep();
  }

  #read(): PendingRequest[] {
    try {
      const found: unknown = JSON.parse(localStorage.getItem(this.#key) ?? "[]");
      return Array.isArray(found) ? found.filter(isSent).map((each) => ({ ...each, isTried: true })) : [];
    } catch {
      return [];
    }
  }

  #keep() {
    try {
      if (this.#waiting.length) localStorage.setItem(this.#key, JSON.stringify(this.#waiting));
      else localStorage.removeItem(this.#key);
    } catch {
      // Frames of other sites may keep nothing; then this page is all there is.
    }
  }
}

function isSent(found: unknown): found is PendingRequest {
  const { said, question } = (found ?? {}) as Partial<PendingRequest>;
  return typeof said?.token === "string" && typeof question?.token === "string";
}
