import type { ComponentChildren, RefObject } from "preact";
import { markOf } from "./colours";

export interface MarkedPhrase {
  text: string;
  span: [number, number];
  place: number;
  absent?: boolean;
  guess?: boolean;
}

interface MarkedProps {
  text: string;
  phrases: readonly MarkedPhrase[];
  active: number | null;
}

/** A sentence whose phrases have the colours of their boxes. Spans count Unicode code points, as the server does. */
function MarkedSentence({ text, phrases, active }: MarkedProps) {
  const letters = Array.from(text);
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const { text: words, span, place, absent, guess } of [...phrases].sort((one, other) => one.span[0] - other.span[0])) {
    const [begin, end] = span;
    // Overlaps the previous phrase, or the text has changed since.
    if (begin < at || letters.slice(begin, end).join("") !== words) continue;
    parts.push(letters.slice(at, begin).join(""));
    const mark = markOf(place);
    const faint = active !== null && active !== place ? " is-faint" : active === place ? " is-active" : "";
    parts.push(
      <mark
        key={place}
        class={`phrase${faint}${absent ? " is-absent" : guess ? " is-guess" : ""}`}
        data-place={place}
        style={{ "--mark": mark.colour, "--on-mark": mark.ink }}
      >
        {words}
      </mark>,
    );
    at = end;
  }
  parts.push(letters.slice(at).join(""));
  return <>{parts}</>;
}

interface FieldProps extends MarkedProps {
  field?: RefObject<HTMLTextAreaElement | null>;
  label: string;
  placeholder: string;
  onText: (text: string) => void;
  onActive: (place: number | null) => void;
  onKey?: (event: KeyboardEvent) => void;
}

/** A text field with coloured phrases: the marked text is drawn behind it. */
export function MarkedField({ text, phrases, active, ...props }: FieldProps) {
  const point = (event: PointerEvent) => {
    const below = document.elementsFromPoint(event.clientX, event.clientY);
    const phrase = below.find((each): each is HTMLElement => each instanceof HTMLElement && each.matches("mark.phrase"));
    props.onActive(phrase ? Number(phrase.dataset.place) : null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") event.preventDefault();
    if (event.key === "Escape") props.field?.current?.blur();
    props.onKey?.(event);
  };
  return (
    <div class="marked-field">
      <div class="marked-text" aria-hidden="true">
        <MarkedSentence text={text} phrases={phrases} active={active} />{" "}
      </div>
      <textarea
        ref={props.field}
        value={text}
        rows={1}
        maxLength={500}
        spellcheck={false}
        autocomplete="off"
        enterkeyhint="search"
        aria-label={props.label}
        placeholder={props.placeholder}
        onInput={(event) => props.onText(event.currentTarget.value.replaceAll("\n", " "))}
        onKeyDown={onKeyDown}
        onPointerMove={point}
        onPointerLeave={() => props.onActive(null)}
      />
    </div>
  );
}
