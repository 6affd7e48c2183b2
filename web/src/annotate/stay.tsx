// What somebody stays with from question to question: it is kept in the browser.
import type { Stay } from "./api";

const KEY = "deixis-stay";

export function readStay(): Stay {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "photo" || kept === "task" ? kept : "";
  } catch {
    return "";
  }
}

export function keepStay(what: Stay) {
  try {
    localStorage.setItem(KEY, what);
  } catch {
    // Nothing is kept here.
  }
}

export function StayChoice({ stay, onStay }: { stay: Stay; onStay: (what: Stay) => void }) {
  return (
    <select value={stay} onChange={(event) => onStay(event.currentTarget.value as Stay)}>
      <option value="">As they come</option>
      <option value="photo">Stay with a photo</option>
      <option value="task">Stay with a kind of question</option>
    </select>
  );
}
