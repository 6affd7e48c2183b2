// Photos, loaded before they are shown, so that the next question appears at once.
import { picture } from "./api";

const MOST = 12;
const known = new Map<string, Promise<string>>();

/** An address of the photo's bytes in this page. */
export function loadPicture(url: string): Promise<string> {
  const there = known.get(url);
  if (there) return there;
  const asked = picture(url).then((bytes) => URL.createObjectURL(bytes));
  asked.catch(() => known.delete(url));
  known.set(url, asked);
  for (const [old, made] of known) {
    if (known.size <= MOST) break;
    known.delete(old);
    void made.then(URL.revokeObjectURL, () => undefined);
  }
  return asked;
}
