import { useEffect, useRef } from "preact/hooks";

export const KEYS_TITLE = "Keys";

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["← → ↑ ↓", "go through the photos"],
  ["Enter", "open a photo"],
  ["Esc", "one step back: zoom, full screen, photo, selection"],
  ["z", "zoom"],
  ["f", "full screen"],
  ["s", "slide show"],
  ["*", "favourite"],
  ["d", "download"],
  ["?", "this page"],
];

/** A page of the keys. */
export function Keys({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    dialog.current?.scrollTo(0, 0); // the focus is on the button at the end
  }, []);
  return (
    <dialog ref={dialog} class="keys" aria-labelledby="keys" onClose={onClose}>
      <h2 id="keys">{KEYS_TITLE}</h2>
      <dl>
        {KEYS.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">Search for in:, album:, camera:, after:, before:, is:favourite and is:undated with words or alone.</p>
      <button onClick={onClose}>Close</button>
    </dialog>
  );
}
