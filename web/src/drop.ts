import { useEffect, useState } from "preact/hooks";

/** Whether a file is dragged over the page; calls `onFile` when one is dropped. */
export function useDrop(onFile: (file: File) => void): boolean {
  const [depth, setDepth] = useState(0);
  useEffect(() => {
    const carriesFile = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const entered = (event: DragEvent) => carriesFile(event) && setDepth((old) => old + 1);
    const left = (event: DragEvent) => carriesFile(event) && setDepth((old) => Math.max(0, old - 1));
    const over = (event: DragEvent) => carriesFile(event) && event.preventDefault();
    const dropped = (event: DragEvent) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      setDepth(0);
      const file = event.dataTransfer?.files[0];
      if (file) onFile(file);
    };
    addEventListener("dragenter", entered);
    addEventListener("dragleave", left);
    addEventListener("dragover", over);
    addEventListener("drop", dropped);
    return () => {
      removeEventListener("dragenter", entered);
      removeEventListener("dragleave", left);
      removeEventListener("dragover", over);
      removeEventListener("drop", dropped);
    };
  });
  return depth > 0;
}
