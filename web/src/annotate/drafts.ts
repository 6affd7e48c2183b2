// What somebody has begun for a question and not sent: a box, comments and groups. It survives a reload of the page.
import type { Box } from "../api";
import type { Groups } from "./groups";

export interface Draft {
  box: Box | null;
  comment: string; // not finished
  remark: string; // goes with the answer
  groups: Groups | null;
  text: string; // of an answer that is written
}

const KEY = "deixis-draft";
const NOTHING: Draft = { box: null, comment: "", remark: "", groups: null, text: "" };

/** The draft of one question. Only the latest question has one. */
export function readDraft(token: string): Draft {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "{}") as Partial<Draft> & { token?: string };
    if (found.token !== token) return NOTHING;
    const box = Array.isArray(found.box) && found.box.length === 4 ? found.box : null;
    const text = (said: unknown) => (typeof said === "string" ? said : "");
    const groups = Array.isArray(found.groups) ? found.groups : null;
    return { box, comment: text(found.comment), remark: text(found.remark), groups, text: text(found.text) };
  } catch {
    return NOTHING;
  }
}

export function keepDraft(token: string, draft: Draft) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ token, ...draft }));
  } catch {
    // Frames of other sites may keep nothing.
  }
}
