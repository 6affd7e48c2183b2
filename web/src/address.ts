// What the page shows is in its address, so that back, forward and bookmarks do what people expect.
import { useEffect, useState } from "preact/hooks";

export interface Place {
  q: string; // what is searched for
  like: string; // the id of a photo to search by
  all: boolean; // also what is unlikely
  photo: string; // the id of the photo that is open
}

export const HOME: Place = { q: "", like: "", all: false, photo: "" };

export function addressOf(place: Place): string {
  const said = new URLSearchParams();
  if (place.q) said.set("q", place.q);
  if (place.like) said.set("like", place.like);
  if (place.all) said.set("all", "1");
  if (place.photo) said.set("photo", place.photo);
  const query = said.toString();
  return query ? `/?${query}` : "/";
}

function placeNow(): Place {
  const said = new URLSearchParams(location.search);
  return {
    q: said.get("q") ?? "",
    like: said.get("like") ?? "",
    all: said.has("all"),
    photo: said.get("photo") ?? "",
  };
}

export type Go = (to: Partial<Place>, how?: "push" | "replace") => void;

export function usePlace(): [Place, Go] {
  const [place, setPlace] = useState(placeNow);
  useEffect(() => {
    const follow = () => setPlace(placeNow());
    addEventListener("popstate", follow);
    return () => removeEventListener("popstate", follow);
  }, []);
  const go: Go = (to, how = "push") => {
    const next = { ...placeNow(), ...to };
    if (how === "push") history.pushState(null, "", addressOf(next));
    else history.replaceState(history.state, "", addressOf(next));
    setPlace(next);
  };
  return [place, go];
}
