import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { thumbnail } from "./api";
import { MarkedField, type MarkedPhrase } from "./sentence";

interface Props {
  field: RefObject<HTMLTextAreaElement | null>;
  q: string;
  dropped: boolean; // the user gave a photo
  droppedUrl: string;
  likeId: string;
  phrases: readonly MarkedPhrase[];
  active: number | null;
  onActive: (place: number | null) => void;
  onType: (q: string, how: "push" | "replace") => void;
  onFile: (file: File) => void;
}

const WAIT_MS = 220;

/** Searches while the user types; Enter searches at once. */
export function SearchBox({ field, q, dropped, droppedUrl, likeId, onType, onFile, ...props }: Props) {
  const [text, setText] = useState(q);
  const waiting = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const files = useRef<HTMLInputElement>(null);
  const picture = dropped ? droppedUrl : likeId ? thumbnail(likeId) : "";
  const isByPhoto = dropped || Boolean(likeId);
  useEffect(() => setText((old) => (old.trim() === q ? old : q)), [q]);

  const search = (words: string, how: "push" | "replace") => {
    clearTimeout(waiting.current);
    if (words.trim() !== q.trim() || isByPhoto) onType(words.trim(), how);
  };
  const typed = (words: string) => {
    setText(words);
    clearTimeout(waiting.current);
    waiting.current = setTimeout(() => search(words, q ? "replace" : "push"), WAIT_MS);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") search(text, q ? "replace" : "push");
    if (event.key === "ArrowDown") {
      event.preventDefault();
      document.querySelector<HTMLElement>('.tile[tabindex="0"]')?.focus();
    }
  };

  return (
    <form class="search" role="search" onSubmit={(event) => event.preventDefault()}>
      {picture && <img class="search-picture" src={picture} alt="The photo to search by" />}
      <MarkedField
        {...props}
        field={field}
        text={text}
        label="Search photos by a sentence"
        placeholder={isByPhoto ? "or in words" : "Two dogs in the snow"}
        onText={typed}
        onKey={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
      <button type="button" class="quiet by-photo" onClick={() => files.current?.click()} title="Or drop one anywhere">
        by photo
      </button>
      <input
        ref={files}
        type="file"
        accept="image/*"
        hidden
        aria-label="A photo to search by"
        onChange={(event) => {
          const file = event.currentTarget.files?.[0];
          event.currentTarget.value = "";
          if (file) onFile(file);
        }}
      />
    </form>
  );
}
