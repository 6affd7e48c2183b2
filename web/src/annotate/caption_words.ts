// A caption split into words and phrases. Positions count Unicode code points, as on the server.
import type { Phrase } from "./api";

export interface Word {
  text: string;
  start: number;
  end: number;
  isWord: boolean; // or what is between words
  phrase: string | null; // the phrase that this is, whole
}

export function parseMentionId(id: string): { caption: number; start: number; end: number } {
  const [caption = 0, start = 0, end = 0] = id.split(/[:-]/).map(Number);
  return { caption, start, end };
}

/** Phrases whole, words one by one, and what is between them. */
export function splitWords(text: string, phrases: readonly Phrase[]): Word[] {
  const letters = Array.from(text);
  const found: Word[] = [];
  let at = 0;
  const inOrder = phrases.map(({ id }) => ({ id, ...parseMentionId(id) })).sort((one, other) => one.start - other.start);
  for (const { id, start, end } of inOrder) {
    if (start < at || end > letters.length) continue;
    found.push(...cut(letters, at, start));
    found.push({ text: letters.slice(start, end).join(""), start, end, isWord: true, phrase: id });
    at = end;
  }
  found.push(...cut(letters, at, letters.length));
  return found;
}

function cut(letters: readonly string[], from: number, to: number): Word[] {
  const found: Word[] = [];
  for (let place = from; place < to; place++) {
    const letter = letters[place]!;
    const isWord = /[\p{L}\p{N}\p{M}'’\p{Extended_Pictographic}-]/u.test(letter);
    const last = found.at(-1);
    if (last?.isWord === isWord) {
      last.text += letter;
      last.end = place + 1;
    } else found.push({ text: letter, start: place, end: place + 1, isWord, phrase: null });
  }
  return found;
}
