// What somebody has begun for a question and not sent: a box and a comment. It survives a reload of the page.
import type { Box } from "../api";

export interface Draft {
  box: Box | null;
  comment: string;
}

const KEY = "deixis-draft";
const NOTHING: Draft = { box: null, comment: "" };

/** The draft of one question. Only the latest question has one. */
export function readDraft(token: string): Draft {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "{}") as Partial<Draft> & { token?: string };
    if (found.token !== token) return NOTHING;
    const box = Array.isArray(found.box) && found.box.length === 4 ? found.box : null;
    return { box, comment: typeof found.comment === "string" ? found.comment : "" };
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
