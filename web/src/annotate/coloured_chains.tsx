// Chains in colours: the phrases of a chain and its boxes have the same one.
import { markOf } from "../colours";
import type { CaptionInfo, GalleryChain } from "./schema";
import type { StyledBox } from "./overlay";
import { boxTag, modelTag } from "./proposals";

/** What is under the mouse, or has the keyboard's focus: a chain, or one of its boxes. */
export interface Pointed {
  place: number;
  box?: string;
}

/** The number of a box, as in the list: that of its phrase, and its own where the phrase has several. */
export const boxNumber = ({ boxes }: GalleryChain, place: number, index: number) =>
  boxes.length > 1 ? `${place + 1}.${index + 1}` : `${place + 1}`;

/** The boxes of all chains; with one chosen, the others step back, and while a box is drawn they are not shown. */
export function colouredBoxes(
  chains: readonly GalleryChain[],
  chosen = -1,
  drawn?: { moved: string },
  pointed: Pointed | null = null,
): StyledBox[] {
  return chains.flatMap((chain, place) =>
    chain.boxes
      .map((each, index) => ({ ...each, number: boxNumber(chain, place, index) }))
      .filter(({ id }) => !drawn || (place === chosen && id !== drawn.moved))
      .map(({ id, xyxy, model, waits, number }): StyledBox => {
        const isBack = chosen >= 0 && chosen !== place;
        const tag = boxTag(number, modelTag(model), waits && !isBack && "not judged yet");
        return {
          box: xyxy,
          look: isBack ? "other" : "asked",
          isModel: Boolean(model),
          isPointed: pointed?.place === place && (!pointed.box || pointed.box === id),
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
  pointed?: Pointed | null;
  onPick?: (chain: number, mention: string) => void;
  onPoint?: (pointed: Pointed | null) => void;
}

export function ColouredCaptions({ captions, chains, chosen = -1, pointed, onPick, onPoint }: Props) {
  const chainOf = (mention: string) => chains.findIndex(({ mentions }) => mentions.includes(mention));
  return (
    <span class="coloured-captions">
      {captions.map(({ number, parts }) => (
        <span key={number} class="sentence words" dir="auto">
          {parts.map(({ text, mention }, index) => {
            const place = mention === null ? -1 : chainOf(mention);
            if (mention === null) return text;
            if (place < 0)
              return (
                <span key={index} class="word is-phrase is-unlinked" title="not linked yet">
                  {text}
                </span>
              );
            const style = { "--mark": markOf(place).colour };
            const name = `word is-phrase${place === chosen ? " is-chosen" : ""}${place === pointed?.place ? " is-pointed" : ""}`;
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
                onMouseEnter={() => onPoint?.({ place })}
                onMouseLeave={() => onPoint?.(null)}
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
