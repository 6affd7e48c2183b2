import { markOf } from "../colours";
import type { CaptionInfo } from "./schema";

interface Props {
  captions: readonly CaptionInfo[];
  mentions: readonly string[]; // in the order of their colours; others are context
  isOneColour?: boolean;
  places?: readonly number[]; // the colours of the mentions, if several share one
}

/** Captions with what is asked about marked. Whatever they hold is text, in the direction of its own script. */
export function Captions({ captions, mentions, isOneColour = false, places }: Props) {
  return (
    <div class={captions.length > 3 ? "captions is-many" : "captions"}>
      {captions.map(({ number, parts }) => (
        <p key={number} class="sentence" dir="auto">
          {parts.map(({ text, mention }, place) => {
            const at = mention === null ? -1 : mentions.indexOf(mention);
            if (at < 0) return text;
            const mark = markOf(places?.[at] ?? (isOneColour ? 0 : at));
            return (
              <mark key={place} class="asked" style={{ "--mark": mark.colour }}>
                {text}
              </mark>
            );
          })}
        </p>
      ))}
    </div>
  );
}
