// Boxes over a photo: the one in question in colour, the others dashed in white. A box of a model is purple and dotted,
// and has a label, wherever it is: it never looks like one that a person drew.
import type { Box } from "../api";
import type { PhotoInfo } from "./schema";

export interface StyledBox {
  box: Box;
  look: "asked" | "other" | "right"; // right: what a test question teaches
  isModel?: boolean;
  isPointed?: boolean; // under the mouse, here or in a list
  tag?: string;
  colour?: string; // of its phrase
  ink?: string; // that can be read on it
}

const classOf = ({ look, isModel, colour, isPointed }: StyledBox) =>
  `is-${look}${isModel ? " is-model" : ""}${colour ? " is-coloured" : ""}${isPointed ? " is-pointed" : ""}`;

interface Props {
  photo: PhotoInfo;
  boxes: readonly StyledBox[];
  onPick?: (place: number) => void; // a box was pressed
  onPoint?: (place: number | null) => void; // the mouse has reached, or left, a box
}

export function Overlay({ photo, boxes, onPick, onPoint }: Props) {
  const events = (place: number) =>
    onPick && {
      onClick: () => onPick(place),
      onMouseEnter: () => onPoint?.(place),
      onMouseLeave: () => onPoint?.(null),
    };
  return (
    <div class={onPick ? "overlay is-pickable" : "overlay"} aria-hidden="true">
      <svg viewBox={`0 0 ${photo.width} ${photo.height}`} preserveAspectRatio="none">
        {boxes.map((each, place) => {
          const [x1, y1, x2, y2] = each.box;
          const at = { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1) };
          return (
            <g key={`${place} ${each.box}`} class={`laid ${classOf(each)}`} style={{ "--mark": each.colour }} {...events(place)}>
              <rect {...at} class="laid-rim" />
              <rect {...at} class="laid-line" />
            </g>
          );
        })}
      </svg>
      {boxes.map(
        (each, place) =>
          each.tag && (
            <span
              key={`${place} ${each.box}`}
              class={`laid-tag ${classOf(each)}`}
              {...events(place)}
              style={{
                left: `${(100 * each.box[0]) / photo.width}%`,
                top: `${(100 * each.box[1]) / photo.height}%`,
                "--mark": each.colour,
                "--ink-on-mark": each.ink,
              }}
            >
              {each.tag}
            </span>
          ),
      )}
    </div>
  );
}
