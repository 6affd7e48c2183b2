// Boxes over a photo: the one in question in colour, the others dashed in white. A box of a model is purple and dotted,
// and has a label, wherever it is: it never looks like one that a person drew.
import type { Box } from "../api";
import type { PhotoRef } from "./api";

export interface StyledBox {
  box: Box;
  look: "asked" | "other" | "right"; // right: what a test question teaches
  isModel?: boolean;
  tag?: string;
  colour?: string; // of its phrase
}

const classOf = ({ look, isModel, colour }: StyledBox) =>
  `is-${look}${isModel ? " is-model" : ""}${colour ? " is-coloured" : ""}`;

export function Overlay({ photo, boxes }: { photo: PhotoRef; boxes: readonly StyledBox[] }) {
  return (
    <div class="overlay" aria-hidden="true">
      <svg viewBox={`0 0 ${photo.width} ${photo.height}`} preserveAspectRatio="none">
        {boxes.map((each, place) => {
          const [x1, y1, x2, y2] = each.box;
          const at = { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1) };
          return (
            <g key={`${place} ${each.box}`} class={`laid ${classOf(each)}`} style={{ "--mark": each.colour }}>
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
              style={{
                left: `${(100 * each.box[0]) / photo.width}%`,
                top: `${(100 * each.box[1]) / photo.height}%`,
                "--mark": each.colour,
              }}
            >
              {each.tag}
            </span>
          ),
      )}
    </div>
  );
}
