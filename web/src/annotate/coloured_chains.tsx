// Chains in colours: the phrases of a chain and its boxes have the same one.
import { markOf } from "../colours";
import type { CaptionInfo, GalleryChain } from "./schema";
import type { StyledBox } from "./overlay";
import { boxTag, modelTag } from "./proposals";

/** The boxes of all chains; with one chosen, the others step back, and while a box is drawn they are not shown. */
export function colouredBoxes(chains: readonly GalleryChain[], chosen = -1, drawn?: { moved: string }): StyledBox[] {
  return chains.flatMap((chain, place) =>
    chain.boxes
      .filter(({ id }) => !drawn || (place === chosen && id !== drawn.moved))
      .map(({ xyxy, model, waits }): StyledBox => {
        const isBack = chosen >= 0 && chosen !== place;
        const tag = boxTag(`${place + 1}`, modelTag(model), waits && !isBack && "not judged yet");
        return {
          box: xyxy,
          look: isBack ? "other" : "asked",
          isModel: Boolean(model),
          tag: isBack && !model ? "" : tag,
          colour: isBack ? undefined : markOf(place).colour,
          ink: isBack ? undefined : markOf(place).ink,
        };
      }),
  );
}

interface Props {
  captions: readonly CaptionInfo[];
  chains: readonly GalleryChain[];
  chosen?: number;
  onPick?: (chain: number, mention: string) => void;
}

export function ColouredCaptions({ captions, chains, chosen = -1, onPick }: Props) {
  const chainOf = (mention: string) => chains.findIndex(({ mentions }) => mentions.includes(mention));
  return (
    <span class="coloured-captions">
      {captions.map(({ number, parts }) => (
        <span key={number} class="sentence words" dir="auto">
          {parts.map(({ text, mention }, index) => {
            const place = mention === null ? -1 : chainOf(mention);
            if (mention === null || place < 0) return text;
            const style = { "--mark": markOf(place).colour };
            const name = `word is-phrase${place === chosen ? " is-chosen" : ""}`;
            const content = (
              <>
                {text}
                <sub>{place + 1}</sub>
              </>
            );
            if (!onPick)
              return (
                <span key={index} class={name} style={style}>
                  {content}
                </span>
              );
            return (
              <button
                key={index}
                class={name}
                style={style}
                aria-pressed={place === chosen}
                onClick={() => onPick(place, mention)}
              >
                {content}
              </button>
            );
          })}
        </span>
      ))}
    </span>
  );
}
