// Keyboard shortcuts: one listener for the part of the page that is shown.
import { useLayoutEffect } from "preact/hooks";

/** Call `handle` for keys pressed outside of text fields. It returns whether it handled the key. */
export function useKeys(handle: (key: string, event: KeyboardEvent) => boolean) {
  // A layout effect: no key may come between a drawing of the page and the handler that belongs to it.
  useLayoutEffect(() => {
    const keyed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || isTyping(event.target) || document.querySelector("dialog[open]")) return;
      const isOnButton = event.target instanceof Element && event.target.closest("button, a, summary, select");
      if ((event.key === "Enter" || event.key === " ") && isOnButton) return; // presses that
      if (handle(event.key, event)) event.preventDefault();
    };
    addEventListener("keydown", keyed);
    return () => removeEventListener("keydown", keyed);
  });
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLTextAreaElement ||
  target instanceof HTMLSelectElement ||
  (target instanceof HTMLInputElement && target.type !== "checkbox" && target.type !== "radio");

/** Whether a key, as a button shows it, was pressed alone. */
export const isKey = (event: KeyboardEvent, shown: string) =>
  !event.ctrlKey && !event.metaKey && !event.altKey && event.key.toLowerCase() === shown.toLowerCase();
