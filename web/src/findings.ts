// What the models find in the photos on the screen: the phrases of the query, then captions.
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { FoundPhrase } from "./schema";

export interface Findings {
  phrases: ReadonlyMap<string, FoundPhrase[]>;
  captions: ReadonlyMap<string, string>; // empty where the model is not sure
}

const WAIT_MS = 250;
const captions = new Map<string, string>();
const NONE: ReadonlyMap<string, FoundPhrase[]> = new Map();

/** Asks for one photo after another, in the order given, once the photos on the screen stay the same for a moment. */
export function useFindings(ids: readonly string[], q: string): Findings {
  const [located, setLocated] = useState({ q, phrases: NONE });
  const [, setCount] = useState(0);
  const phrases = located.q === q ? located.phrases : NONE;

  useEffect(() => {
    const stop = new AbortController();
    const ask = async () => {
      const found = new Map(phrases);
      for (const id of q ? ids : []) {
        if (found.has(id)) continue;
        found.set(id, (await api.phrases(id, q, stop.signal)).phrases);
        setLocated({ q, phrases: new Map(found) });
      }
      for (const id of ids) {
        if (captions.has(id)) continue;
        captions.set(id, await sureCaption(id, stop.signal));
        setCount(captions.size);
      }
    };
    // A server that is busy or gone is asked again when other photos come into view.
    const waiting = setTimeout(() => void ask().catch(() => undefined), WAIT_MS);
    return () => {
      clearTimeout(waiting);
      stop.abort();
    };
  }, [ids.join(), q]);

  return { phrases, captions };
}

/** The caption of a photo, empty if the model is not sure of it or the file cannot be read. */
async function sureCaption(id: string, signal: AbortSignal): Promise<string> {
  try {
    const [best] = (await api.caption(id, signal)).captions;
    return best && best.sure !== false ? best.text : "";
  } catch (error) {
    if (error instanceof api.ApiError && [404, 422].includes(error.status)) return "";
    throw error;
  }
}
