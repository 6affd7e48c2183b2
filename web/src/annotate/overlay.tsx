// Boxes over a photo: the one in question in colour, the others dashed in white.
import type { Box } from "../api";
import type { PhotoRef } from "./api";

export type Look = "asked" | "other" | "proposed";

export interface StyledBox {
  box: Box;
  look: Look;
  tag?: string;
}

export function Overlay({ photo, boxes }: { photo: PhotoRef; boxes: readonly StyledBox[] }) {
  return (
    <div class="overlay" aria-hidden="true">
      <svg viewBox={`0 0 ${photo.width} ${photo.height}`} preserveAspectRatio="none">
        {boxes.map(({ box: [x1, y1, x2, y2], look }) => {
          const at = { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1) };
          return (
            <g key={`${look} ${x1} ${y1} ${x2} ${y2}`} class={`laid is-${look}`}>
              <rect {...at} class="laid-rim" />
              <rect {...at} class="laid-line" />
            </g>
          );
        })}
      </svg>
      {boxes.map(
        ({ box: [x1, y1], look, tag }) =>
          tag && (
            <span
              key={`${tag} ${x1} ${y1}`}
              class={`laid-tag is-${look}`}
              style={{ left: `${(100 * x1) / photo.width}%`, top: `${(100 * y1) / photo.height}%` }}
            >
              {tag}
            </span>
          ),
      )}
    </div>
  );
}
