// The colours and strokes of src/deixis/pictures/style.py; a test checks that they are equal.
type Colour = readonly [number, number, number];

export const PALETTE: readonly Colour[] = [
  [213, 94, 0],
  [0, 114, 178],
  [0, 158, 115],
  [230, 159, 0],
  [204, 121, 167],
  [86, 180, 233],
  [136, 34, 85],
  [240, 228, 66],
  [51, 34, 136],
  [0, 0, 0],
];

// Strokes and gaps in line widths: the second round of colours is dashed, and so on.
export const DASHES: readonly (readonly number[])[] = [[], [5, 2.5], [1.5, 1.5], [6, 1.5, 1.5, 1.5]];

export const GUESS_DASH: readonly number[] = [2, 2];

export interface Mark {
  number: number;
  colour: string;
  ink: string;
  dash: readonly number[];
}

/** The colour, stroke and number of the phrase with an index, from 0, and of its boxes. */
export function markOf(place: number): Mark {
  const colour = PALETTE[place % PALETTE.length]!;
  const dash = DASHES[Math.floor(place / PALETTE.length) % DASHES.length]!;
  return { number: place + 1, colour: `rgb(${colour.join(" ")})`, ink: inkOn(colour), dash };
}

function inkOn(colour: Colour): string {
  const light = luminance(colour);
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000" : "#fff";
}

function luminance(colour: Colour): number {
  const [red, green, blue] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
