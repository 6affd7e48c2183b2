// The state of the page is in its address, so that back, forward and bookmarks work.
import { useEffect, useState } from "preact/hooks";

export interface PageState {
  q: string; // the query
  like: string; // the id of a photo to search by
  all: boolean; // include improbable photos
  photo: string; // the id of the photo that is open
}

export const HOME: PageState = { q: "", like: "", all: false, photo: "" };

export function addressOf(state: PageState): string {
  const params = new URLSearchParams();
  if (state.q) params.set("q", state.q);
  if (state.like) params.set("like", state.like);
  if (state.all) params.set("all", "1");
  if (state.photo) params.set("photo", state.photo);
  const query = params.toString();
  return query ? `/?${query}` : "/";
}

function currentState(): PageState {
  const params = new URLSearchParams(location.search);
  return {
    q: params.get("q") ?? "",
    like: params.get("like") ?? "",
    all: params.has("all"),
    photo: params.get("photo") ?? "",
  };
}

export type Navigate = (to: Partial<PageState>, how?: "push" | "replace") => void;

interface Entry {
  opened: number; // photos opened from each other since the page with many
}

/** The state, a function that changes it, and one that goes back from a photo to the page from which it was opened. */
export function usePageState(): [PageState, Navigate, () => void] {
  const [state, setState] = useState(currentState);
  useEffect(() => {
    const follow = () => setState(currentState());
    addEventListener("popstate", follow);
    return () => removeEventListener("popstate", follow);
  }, []);
  const go: Navigate = (to, how = "push") => {
    const current = currentState();
    const next = { ...current, ...to };
    const before = (history.state as Entry | null)?.opened ?? 0;
    const opened = !next.photo || (current.photo && !before) ? 0 : current.photo ? before + 1 : 1;
    if (how === "push") history.pushState({ opened } satisfies Entry, "", addressOf(next));
    else history.replaceState(history.state, "", addressOf(next));
    setState(next);
  };
  const leavePhoto = () => {
    const { opened } = (history.state as Entry | null) ?? { opened: 0 };
    if (opened) history.go(-opened);
    else go({ photo: "" }, "replace"); // opened by its address
  };
  return [state, go, leavePhoto];
}
