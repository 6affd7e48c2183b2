// A photo that can be zoomed and moved. Overlays are in the photo's own pixels.
import type { ComponentChildren } from "preact";
import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Ref } from "preact";
import type { PhotoInfo } from "./schema";
import { loadPicture } from "./pictures";

const STEPS = [1, 1.5, 2, 3, 4, 6];
const LARGEST_SCALE = 3; // of a small photo, where nobody has asked for more
const PAN_STEP = 60;

export interface FrameControl {
  zoom: (by: 1 | -1 | 0) => void;
  pan: (right: number, down: number) => void;
}

interface Props {
  photo: PhotoInfo;
  hasPicture: boolean;
  label: string;
  control?: Ref<FrameControl>;
  isDrawing?: boolean; // one finger, or the left button, draws
  onReady?: (isReady: boolean) => void;
  children?: ComponentChildren;
}

export function Frame({ photo, hasPicture, label, control, isDrawing = false, onReady, children }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const size = useSize(frame);
  const [zoom, setZoom] = useState(1);
  const { address, failure, retry } = usePicture(photo, hasPicture);
  const anchor = useRef<{ x: number; y: number; atX: number; atY: number } | null>(null);

  const fit = Math.min(size.width / photo.width, size.height / photo.height, LARGEST_SCALE) || 0;
  const [width, height] = [photo.width * fit * zoom, photo.height * fit * zoom];

  const zoomTo = (wanted: number, clientX?: number, clientY?: number) => {
    const to = Math.min(STEPS.at(-1)!, Math.max(1, wanted));
    const box = frame.current?.getBoundingClientRect();
    if (!box || to === zoom) return;
    const [atX, atY] = [(clientX ?? box.x + box.width / 2) - box.x, (clientY ?? box.y + box.height / 2) - box.y];
    const canvas = frame.current!.firstElementChild!.getBoundingClientRect();
    anchor.current = { x: (atX - (canvas.x - box.x)) / width, y: (atY - (canvas.y - box.y)) / height, atX, atY };
    setZoom(to);
  };
  const step = (by: 1 | -1 | 0) => {
    if (by === 0) return zoomTo(1);
    zoomTo(by > 0 ? (STEPS.find((each) => each > zoom) ?? zoom) : Math.max(...STEPS.filter((each) => each < zoom), 1));
  };

  // What was under the pointer stays there.
  useLayoutEffect(() => {
    const held = anchor.current;
    anchor.current = null;
    if (!held || !frame.current) return;
    frame.current.scrollLeft = held.x * width - held.atX;
    frame.current.scrollTop = held.y * height - held.atY;
  }, [zoom]);

  useEffect(() => setZoom(1), [photo.id]);
  useEffect(() => onReady?.(Boolean(address)), [address]);
  useImperativeHandle(control ?? null, () => ({
    zoom: step,
    pan: (right, down) => frame.current?.scrollBy(right * PAN_STEP, down * PAN_STEP),
  }));
  usePinch(frame, zoom, zoomTo, isDrawing);
  usePan(frame, !isDrawing && zoom > 1);

  const isBlank = !hasPicture;
  return (
    <div class="frame-holder">
      <div class={`frame${zoom > 1 ? " is-large" : ""}`} ref={frame} role="group" aria-label={label}>
        <div class="canvas" style={{ width: `${width}px`, height: `${height}px` }}>
          {address && !isBlank && <img src={address} alt="The photo in question" draggable={false} />}
          {isBlank && <p class="frame-note">No picture here: this project has captions only.</p>}
          {!address && !failure && !isBlank && <p class="frame-note">The photo is on its way …</p>}
          {failure && (
            <p class="frame-note" role="alert">
              The photo cannot be loaded. <button onClick={retry}>Try again</button>
            </p>
          )}
          {address && fit > 0 && children}
        </div>
      </div>
      <div class="zoom" role="group" aria-label="Zoom">
        <button aria-label="Smaller" title="Smaller (−)" disabled={zoom <= 1} onClick={() => step(-1)}>
          −
        </button>
        <button class="fit" aria-label={`${Math.round(zoom * 100)} % – Fit`} title="Fit (0)" disabled={zoom <= 1} onClick={() => step(0)}>
          {Math.round(zoom * 100)} %
        </button>
        <button aria-label="Larger" title="Larger (+)" disabled={zoom >= STEPS.at(-1)!} onClick={() => step(1)}>
          +
        </button>
      </div>
    </div>
  );
}

function usePicture(photo: PhotoInfo, hasPicture: boolean) {
  const [found, setFound] = useState({ url: "", address: "", failure: false });
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (!hasPicture) return setFound({ url: photo.url, address: "none", failure: false });
    let isCurrent = true;
    const tell = (address: string, failure: boolean) => isCurrent && setFound({ url: photo.url, address, failure });
    loadPicture(photo.url)
      .then(decoded)
      .then(
        (address) => tell(address, false),
        () => tell("", true),
      );
    return () => {
      isCurrent = false;
    };
  }, [photo.url, hasPicture, tries]);
  const mine = found.url === photo.url ? found : { address: "", failure: false };
  return { ...mine, retry: () => setTries(tries + 1) };
}

/** The address, once the picture can be painted at once. */
async function decoded(address: string): Promise<string> {
  const image = new Image();
  image.src = address;
  await image.decode();
  return address;
}

function useSize(frame: { current: HTMLElement | null }) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const look = () => {
      // Without the scroll bars, which come and go with the zoom.
      const { offsetWidth: width = 0, offsetHeight: height = 0 } = frame.current ?? {};
      setSize((old) => (old.width === width && old.height === height ? old : { width, height }));
    };
    const watched = new ResizeObserver(look);
    if (frame.current) watched.observe(frame.current);
    look();
    return () => watched.disconnect();
  }, []);
  return size;
}

/** Ctrl and the wheel, or two fingers. */
function usePinch(
  frame: { current: HTMLElement | null },
  zoom: number,
  zoomTo: (wanted: number, x: number, y: number) => void,
  isDrawing: boolean,
) {
  const now = useRef({ zoom, zoomTo, isDrawing });
  now.current = { zoom, zoomTo, isDrawing };
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    let before: { apart: number; x: number; y: number } | null = null;
    const wheeled = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      now.current.zoomTo(now.current.zoom * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
    };
    const touched = (event: TouchEvent) => {
      const [one, other] = event.touches;
      // A box that is drawn with a flick would else be taken for a fling, and the next tap for its end.
      if (other || (now.current.isDrawing && event.type === "touchmove")) event.preventDefault();
      if (!one || !other) return void (before = null);
      const apart = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      const [x, y] = [(one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2];
      if (before) {
        element.scrollBy(before.x - x, before.y - y);
        now.current.zoomTo((now.current.zoom * apart) / before.apart, x, y);
      }
      before = { apart, x, y };
    };
    const ended = () => void (before = null);
    element.addEventListener("wheel", wheeled, { passive: false });
    element.addEventListener("touchstart", touched, { passive: false });
    element.addEventListener("touchmove", touched, { passive: false });
    element.addEventListener("touchend", ended);
    return () => {
      element.removeEventListener("wheel", wheeled);
      element.removeEventListener("touchstart", touched);
      element.removeEventListener("touchmove", touched);
      element.removeEventListener("touchend", ended);
    };
  }, []);
}

/** A mouse that drags a photo which is larger than its frame; fingers do that by themselves. */
function usePan(frame: { current: HTMLElement | null }, isOn: boolean) {
  useEffect(() => {
    const element = frame.current;
    if (!element || !isOn) return;
    let isHeld = false;
    const down = (event: PointerEvent) => (isHeld = event.pointerType === "mouse" && event.button === 0);
    const move = (event: PointerEvent) => isHeld && element.scrollBy(-event.movementX, -event.movementY);
    const up = () => (isHeld = false);
    element.addEventListener("pointerdown", down);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    return () => {
      element.removeEventListener("pointerdown", down);
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
    };
  }, [isOn]);
}
