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
  lefts: number[];
  titles: { text: string; left: number }[]; // above it
}

export interface Layout {
  rows: Row[];
  height: number;
}

const GAP = 10;
const GROUP_GAP = 24;
const MIN_GROUP = 160; // room for a title
export const TITLE = 46;
// Limits the share of a row that one photo takes.
const MAX_RATIO = 2.6;
const MIN_RATIO = 0.55;

/** With titles, the photos of one are a group that begins a row, or goes on in it if it fits there as a whole. */
export function layOut<Photo extends Sized>(
  photos: readonly Photo[],
  width: number,
  wanted: number,
  below: number,
  titleOf: (photo: Photo) => string = () => "",
): Layout {
  const rows: Row[] = [];
  let top = 0;
  const add = (first: number, height: number, widths: number[], title: string) => {
    top += title ? TITLE : 0;
    rows.push({ top, height, first, widths, lefts: side(widths, 0), titles: title ? [{ text: title, left: 0 }] : [] });
    top += height + below + GAP;
  };
  let free = 0; // to the right of the last row, if it has only whole groups
  for (const { begin, end, title } of groupsOf(photos, titleOf)) {
    const all = photos.slice(begin, end).map(aspectRatio);
    const widths = all.map((ratio) => ratio * wanted);
    const needed = Math.max(MIN_GROUP, sum(widths) + GAP * (end - begin - 1));
    if (needed <= free) {
      const row = rows.at(-1)!;
      const left = width - free;
      row.titles.push({ text: title, left });
      row.lefts.push(...side(widths, left));
      row.widths.push(...widths);
      free -= needed + GROUP_GAP;
      continue;
    }
    let [first, ratios] = [begin, 0];
    for (let place = begin; place < end; place++) {
      ratios += all[place - begin]!;
      const height = (width - GAP * (place - first)) / ratios;
      const isFull = height <= wanted;
      if (!isFull && place + 1 < end) continue;
      const shown = Math.min(height, wanted);
      const row = all.slice(first - begin, place + 1 - begin).map((ratio) => ratio * shown);
      add(first, shown, row, first === begin ? title : "");
      free = !isFull && first === begin && title ? width - needed - GROUP_GAP : 0;
      [first, ratios] = [place + 1, 0];
    }
  }
  return { rows, height: Math.max(0, top - GAP) };
}

/** The photos that follow each other with one title. */
function groupsOf<Photo>(photos: readonly Photo[], titleOf: (photo: Photo) => string) {
  const groups: { begin: number; end: number; title: string }[] = [];
  photos.forEach((photo, place) => {
    const [title, last] = [titleOf(photo), groups.at(-1)];
    if (last?.title === title) last.end++;
    else groups.push({ begin: place, end: place + 1, title });
  });
  return groups;
}

/** The left edges of pictures side by side. */
function side(widths: readonly number[], left: number): number[] {
  let next = left;
  return widths.map((width) => {
    const own = next;
    next += width + GAP;
    return own;
  });
}

const sum = (numbers: readonly number[]) => numbers.reduce((one, other) => one + other, 0);

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

const centre = (row: Row, column: number) => row.lefts[column]! + row.widths[column]! / 2;

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
