// A justified layout: photos in rows of equal height that fill the width of the page.
export interface Sized {
  width: number;
  height: number;
}

export interface Row {
  top: number;
  height: number; // of its pictures
  first: number; // index of its first photo
  widths: number[];
  title?: string; // above it
}

export interface Layout {
  rows: Row[];
  height: number;
}

const GAP = 10;
export const TITLE = 46;
// Limits the share of a row that one photo takes.
const MAX_RATIO = 2.6;
const MIN_RATIO = 0.55;

/** With titles, a row begins wherever the title changes. */
export function layOut<Photo extends Sized>(
  photos: readonly Photo[],
  width: number,
  wanted: number,
  below: number,
  titleOf: (photo: Photo) => string = () => "",
): Layout {
  const rows: Row[] = [];
  let [top, first, ratios] = [0, 0, 0];
  let [title, isNew] = ["", false];
  const close = (end: number, isLast: boolean) => {
    if (end === first) return;
    const free = width - GAP * (end - first - 1);
    const height = isLast ? Math.min(wanted, free / ratios) : free / ratios;
    const widths = photos.slice(first, end).map((photo) => aspectRatio(photo) * height);
    top += isNew ? TITLE : 0;
    rows.push({ top, height, first, widths, ...(isNew && { title }) });
    top += height + below + GAP;
    [first, ratios, isNew] = [end, 0, false];
  };
  photos.forEach((photo, place) => {
    const next = titleOf(photo);
    if (next !== title) {
      close(place, true);
      [title, isNew] = [next, true];
    }
    ratios += aspectRatio(photo);
    if ((width - GAP * (place - first)) / ratios <= wanted) close(place + 1, false);
  });
  close(photos.length, true);
  return { rows, height: Math.max(0, top - GAP) };
}

/** The rows that overlap a part of the page. */
export function rowsBetween(layout: Layout, from: number, to: number): Row[] {
  const begin = lowerBound(layout.rows, (row) => row.top + row.height + 40 >= from);
  const end = lowerBound(layout.rows, (row) => row.top > to);
  return layout.rows.slice(begin, end);
}

export const rowOf = (layout: Layout, place: number) =>
  layout.rows[lowerBound(layout.rows, (row) => row.first > place) - 1];

/** The photo that an arrow key leads to. */
export function neighbour(layout: Layout, place: number, key: string, count: number): number {
  if (key === "ArrowLeft") return Math.max(0, place - 1);
  if (key === "ArrowRight") return Math.min(count - 1, place + 1);
  const here = lowerBound(layout.rows, (row) => row.first > place) - 1;
  const there = layout.rows[here + (key === "ArrowUp" ? -1 : 1)];
  const row = layout.rows[here];
  if (!row || !there) return place;
  return there.first + nearest(there, centre(row, place - row.first));
}

export const leftEdge = (row: Row, column: number) =>
  row.widths.slice(0, column).reduce((left, width) => left + width + GAP, 0);

const centre = (row: Row, column: number) => leftEdge(row, column) + row.widths[column]! / 2;

function nearest(row: Row, x: number): number {
  const distances = row.widths.map((_, column) => Math.abs(centre(row, column) - x));
  return distances.indexOf(Math.min(...distances));
}

const aspectRatio = (photo: Sized) =>
  Math.min(MAX_RATIO, Math.max(MIN_RATIO, photo.width > 0 && photo.height > 0 ? photo.width / photo.height : 1));

function lowerBound(rows: readonly Row[], holds: (row: Row) => boolean): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(rows[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}
