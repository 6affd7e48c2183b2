import { GUESS_DASH, markOf } from "./colours";
import type { Box } from "./api";

export interface ShownBox {
  box: Box;
  place: number; // index of its phrase; -1 for none
  label?: string;
  isGuess?: boolean;
}

interface Props {
  boxes: readonly ShownBox[];
  width: number;
  height: number;
  active: number | null;
  line?: number;
  tags?: boolean;
  isCropped?: boolean; // the photo is cropped to its frame
  onActive?: (place: number | null) => void;
}

/** Boxes over a photo, in pixels of the photo. */
export function Boxes({ boxes, width, height, active, line = 2.5, tags = true, isCropped = false, onActive }: Props) {
  // The smallest are on top, so that the pointer can reach them.
  const inOrder = [...boxes].sort((one, other) => area(other.box) - area(one.box));
  const strength = ({ place }: ShownBox) => (active === null ? "" : active === place ? " is-active" : " is-faint");
  return (
    <div class="boxes">
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio={isCropped ? "xMidYMid slice" : "none"} aria-hidden="true">
        {inOrder.map((shown) => {
          const [x1, y1, x2, y2] = shown.box;
          const mark = shown.place >= 0 ? markOf(shown.place) : { colour: "#fff", dash: [] as readonly number[] };
          const at = { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1) };
          // Of boxes at the same place, each shows through the gaps of the next.
          const below = inOrder.slice(0, inOrder.indexOf(shown)).filter((other) => isSame(other.box, shown.box)).length;
          const strokes = shown.isGuess ? GUESS_DASH : below ? [4 / below, 4] : mark.dash;
          const dash = strokes.length ? strokes.map((each) => each * line).join(" ") : undefined;
          return (
            <g
              key={`${shown.place} ${shown.box}`}
              class={`box${strength(shown)}`}
              data-place={shown.place}
              onPointerEnter={() => onActive?.(shown.place)}
              onPointerLeave={() => onActive?.(null)}
            >
              {!below && <rect {...at} class="box-rim" stroke-width={line + 2} />}
              <rect {...at} class="box-line" stroke={mark.colour} stroke-width={line} stroke-dasharray={dash} />
              <rect {...at} class="box-ground" fill={mark.colour} />
            </g>
          );
        })}
      </svg>
      {tags &&
        boxes.map((shown, index) => {
          const [x1, y1] = shown.box;
          // Beside the tags at almost the same place.
          const before = boxes.slice(0, index).filter(({ box: [left, top] }) =>
            Math.abs(left - x1) < NEAR * width && Math.abs(top - y1) < NEAR * height).length;
          const mark = shown.place >= 0 ? markOf(shown.place) : null;
          const at = { left: `${(100 * x1) / width}%`, top: `${(100 * y1) / height}%`, marginLeft: `${26 * before}px` };
          const look = mark ? { background: mark.colour, color: mark.ink } : {};
          return (
            <span key={`${shown.place} ${shown.box}`} class={`box-tag${strength(shown)}`} style={{ ...at, ...look }}>
              {shown.label ?? `${mark?.number}${shown.isGuess ? "?" : ""}`}
            </span>
          );
        })}
    </div>
  );
}

const NEAR = 0.04;

const isSame = (one: Box, other: Box) => one.every((side, index) => Math.abs(side - other[index]!) < 3);

const area = ([x1, y1, x2, y2]: Box) => (x2 - x1) * (y2 - y1);
