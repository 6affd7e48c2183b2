// The current route, in the part of the address after #, which is not sent to the server.
import { useEffect, useState } from "preact/hooks";
import { mayLeave } from "./unsaved";

export function useRoute(): [string[], (to: string, how?: "push" | "replace") => void] {
  const [place, setPlace] = useState(placeNow);
  useEffect(() => {
    const follow = (event: HashChangeEvent) => {
      if (mayLeave()) setPlace(placeNow());
      else history.pushState(null, "", event.oldURL); // which tells nobody
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const go = (to: string, how: "push" | "replace" = "push") => {
    const address = `${location.pathname}${location.search}#/${to}`;
    if (how === "push") history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    setPlace(placeNow());
  };
  return [place, go];
}

const placeNow = () => location.hash.replace(/^#\/?|\?.*$/g, "").split("/").filter(Boolean).map(decoded);

/** What follows the route after a question mark. */
export const queryNow = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
