// Drawing a box with the pointer and its handles, or with the keyboard only.
import {
  createImageAnnotator,
  type ImageAnnotation,
  type ImageAnnotator,
  type RectangleGeometry,
} from "@annotorious/annotorious";
import "@annotorious/annotorious/annotorious.css";
import type { Ref } from "preact";
import { useImperativeHandle, useLayoutEffect, useRef } from "preact/hooks";
import type { Box } from "../api";
import type { PhotoInfo } from "./schema";

const ID = "drawn";
const SMALLEST = 2;

export interface DrawingControl {
  /** The box as it is at this very moment, in whole pixels of the photo. */
  box: () => Box | null;
  /** Put a box there, in place of the one that is. */
  put: (box: Box) => void;
  remove: () => void;
  /** Move the box, or only its right and lower sides, by a number of pixels; whether there is one. */
  nudge: (right: number, down: number, isResize: boolean) => boolean;
}

interface Props {
  photo: PhotoInfo;
  initial?: Box | null;
  control: Ref<DrawingControl>;
  onBox: (box: Box | null) => void;
  onUndo: () => void; // there is nothing here to take back
}

export function Drawing({ photo, initial = null, control, onBox, onUndo }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const made = useRef<ImageAnnotator | null>(null);
  const past = useRef<(Box | null)[]>([null]);
  const tell = useRef(onBox);
  tell.current = onBox;

  const drawn = (): Box | null => {
    const last = made.current?.getAnnotations().at(-1);
    return last ? boxOf(last) : null;
  };
  const boxNow = (): Box | null => {
    const box = drawn();
    return box && inside(box, photo);
  };
  const set = (box: Box | null) => {
    const annotator = made.current;
    if (!annotator) return;
    if (box) {
      annotator.setAnnotations([annotationOf(inside(box, photo))], true);
      annotator.setSelected(ID, true);
    } else annotator.clearAnnotations();
    tell.current(boxNow());
  };
  const remember = () => {
    const box = boxNow();
    if (String(box) !== String(past.current.at(-1))) past.current.push(box);
  };
  const put = (box: Box | null) => {
    set(box);
    remember();
  };
  const remove = () => put(null);
  const settle = () => {
    const box = drawn();
    const before = past.current.at(-1);
    // One that was pushed over the border keeps its size; one that was drawn over it is cut.
    const whole = box && inside(before && isSameSize(box, before) ? moved(box, 0, 0, photo) : box, photo);
    if (String(box) !== String(whole)) set(whole);
    remember();
  };
  const takeBack = () => {
    if (past.current.length === 1) return onUndo();
    past.current.pop();
    set(past.current.at(-1) ?? null);
  };
  const keyed = useRef(takeBack);
  keyed.current = takeBack;
  const nudge = (right: number, down: number, isResize: boolean) => {
    const box = boxNow();
    if (!box) return false;
    put(isResize ? resized(box, right, down, photo) : moved(box, right, down, photo));
    return true;
  };
  useImperativeHandle(control, () => ({ box: boxNow, put, remove, nudge }));

  useLayoutEffect(() => {
    // Annotorious rebuilds what is around the picture it is given: it gets one of its own, of the photo's size and empty.
    const picture = document.createElement("canvas");
    picture.width = photo.width;
    picture.height = photo.height;
    holder.current!.append(picture);
    const annotator = createImageAnnotator(picture, { drawingMode: "drag" });
    made.current = annotator;
    const layer = annotator.element.querySelector("svg")!;
    layer.setAttribute("aria-label", "Drag to draw a box, or press B");
    annotator.state.store.observe(({ changes }) => {
      for (const { id } of changes.created ?? [])
        for (const old of annotator.getAnnotations()) if (old.id !== id) annotator.removeAnnotation(old.id);
      tell.current(boxNow());
    });
    if (initial) put(initial);
    const stop = [quietHandles(layer), dragAnywhere(layer, annotator, boxNow), afterDrag(settle), ownUndo(keyed)];
    return () => {
      stop.forEach((each) => each());
      annotator.destroy();
      made.current = null;
      picture.remove();
    };
  }, [photo.id]);

  return <div class="drawing" ref={holder} />;
}

const geometryOf = (drawn: ImageAnnotation) => drawn.target.selector.geometry as RectangleGeometry;

function boxOf(drawn: ImageAnnotation): Box {
  const { x, y, w, h } = geometryOf(drawn);
  return [x, y, x + w, y + h];
}

function annotationOf([x1, y1, x2, y2]: Box): ImageAnnotation {
  const geometry = { x: x1, y: y1, w: x2 - x1, h: y2 - y1, bounds: { minX: x1, minY: y1, maxX: x2, maxY: y2 } };
  return {
    id: ID,
    bodies: [],
    target: { annotation: ID, selector: { type: "RECTANGLE", geometry } },
  } as unknown as ImageAnnotation;
}

/** The part of a box that is in the photo, in whole pixels. */
function inside([x1, y1, x2, y2]: Box, { width, height }: PhotoInfo): Box {
  const [left, top] = [clamp(Math.round(x1), 0, width - SMALLEST), clamp(Math.round(y1), 0, height - SMALLEST)];
  return [left, top, clamp(Math.round(x2), left + SMALLEST, width), clamp(Math.round(y2), top + SMALLEST, height)];
}

function moved([x1, y1, x2, y2]: Box, right: number, down: number, { width, height }: PhotoInfo): Box {
  const [byX, byY] = [clamp(right, -x1, width - x2), clamp(down, -y1, height - y2)];
  return [x1 + byX, y1 + byY, x2 + byX, y2 + byY];
}

function resized([x1, y1, x2, y2]: Box, right: number, down: number, { width, height }: PhotoInfo): Box {
  return [x1, y1, clamp(x2 + right, x1 + SMALLEST, width), clamp(y2 + down, y1 + SMALLEST, height)];
}

const isSameSize = ([x1, y1, x2, y2]: Box, [a1, b1, a2, b2]: Box) =>
  Math.abs(x2 - x1 - (a2 - a1)) < 1 && Math.abs(y2 - y1 - (b2 - b1)) < 1;

const clamp = (value: number, least: number, most: number) => Math.min(most, Math.max(least, value));

/** Handles are for pointers; keys move the box from anywhere, so nobody needs to walk through eight unnamed stops. */
function quietHandles(layer: SVGSVGElement) {
  const quiet = () => {
    for (const handle of layer.querySelectorAll('[role="button"]:not([tabindex="-1"])')) {
      handle.setAttribute("tabindex", "-1");
      handle.setAttribute("aria-hidden", "true");
    }
  };
  const watched = new MutationObserver(quiet);
  watched.observe(layer, { childList: true, subtree: true });
  return () => watched.disconnect();
}

/** Annotorious has a memory of its own, which does not know what keys did. */
function ownUndo(takeBack: { current: () => void }) {
  const keyed = (event: KeyboardEvent) => {
    if (!(event.ctrlKey || event.metaKey) || !"zy".includes(event.key.toLowerCase())) return;
    if (document.querySelector("dialog[open]")) return;
    event.stopPropagation();
    event.preventDefault();
    if (event.key.toLowerCase() === "z") takeBack.current();
  };
  addEventListener("keydown", keyed, true);
  return () => removeEventListener("keydown", keyed, true);
}

function afterDrag(settle: () => void) {
  const up = () => setTimeout(settle);
  addEventListener("pointerup", up, true); // Annotorious lets nobody else have it
  return () => removeEventListener("pointerup", up, true);
}

/** A drag may begin beside the photo and leave it, and one that begins beside the box draws another in its place. Two fingers draw nothing. */
function dragAnywhere(layer: SVGSVGElement, annotator: ImageAnnotator, boxNow: () => Box | null) {
  const around = layer.closest<HTMLElement>(".frame-holder") ?? layer;
  const reach = () => 14 * (layer.viewBox.baseVal.width / (layer.clientWidth || 1));
  const fingers = new Set<number>();
  let isPinch = false;
  const down = (event: PointerEvent) => {
    if (!event.isTrusted) return;
    if (event.pointerType === "touch") fingers.add(event.pointerId);
    if (fingers.size > 1) {
      isPinch = true;
      annotator.cancelDrawing();
    }
    if (isPinch) return event.stopImmediatePropagation();
    if (event.target instanceof Element && event.target.closest(".a9s-annotation.selected")) return; // a handle
    const isBeside = !layer.contains(event.target as Node);
    if (isBeside && !mayBegin(event)) return;
    layer.setPointerCapture(event.pointerId);
    const box = boxNow();
    const isOther = box && !isNear(box, pointOf(event, layer), reach());
    if (!isBeside && !isOther) return;
    event.stopImmediatePropagation();
    if (isOther) annotator.setSelected();
    else if (box) return; // it reached for a side of the box
    // The tool for a new box comes only after the old one was let go.
    const again = new PointerEvent("pointerdown", event);
    setTimeout(() => layer.dispatchEvent(again));
  };
  const move = (event: PointerEvent) => isPinch && event.stopImmediatePropagation();
  const up = (event: PointerEvent) => {
    if (isPinch) event.stopImmediatePropagation();
    fingers.delete(event.pointerId);
    if (!fingers.size) isPinch = false;
  };
  const heard: [string, (event: PointerEvent) => void][] = [
    ["pointerdown", down],
    ["pointermove", move],
    ["pointerup", up],
    ["pointercancel", up],
  ];
  for (const [name, listen] of heard) around.addEventListener(name, listen as EventListener, true);
  return () => {
    for (const [name, listen] of heard) around.removeEventListener(name, listen as EventListener, true);
  };
}

/** Not on the buttons of the zoom, nor on a scroll bar. */
function mayBegin({ button, target, clientX, clientY }: PointerEvent) {
  if (button || !(target instanceof Element) || target.closest(".zoom")) return false;
  const { left, top } = target.getBoundingClientRect();
  return clientX - left <= target.clientWidth && clientY - top <= target.clientHeight;
}

function pointOf(event: PointerEvent, layer: SVGSVGElement): [number, number] {
  const { x, y, width, height } = layer.getBoundingClientRect();
  const { width: wide, height: high } = layer.viewBox.baseVal;
  return [((event.clientX - x) / width) * wide, ((event.clientY - y) / height) * high];
}

const isNear = ([x1, y1, x2, y2]: Box, [x, y]: [number, number], reach: number) =>
  x >= x1 - reach && x <= x2 + reach && y >= y1 - reach && y <= y2 + reach;
