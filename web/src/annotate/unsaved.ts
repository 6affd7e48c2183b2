// Edits that are not saved yet: nobody leaves them by mistake, whether by a link, by Back or by closing the page.
import { useEffect } from "preact/hooks";

let unsaved = ""; // what would be lost

/** Ask before the page is left while something is not saved. */
export function useUnsaved(what: string) {
  useEffect(() => {
    if (!what) return undefined;
    unsaved = what;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => {
      unsaved = "";
      removeEventListener("beforeunload", ask);
    };
  }, [what]);
}

export const mayLeave = () => !unsaved || confirm(`Leave without saving ${unsaved}?`);
