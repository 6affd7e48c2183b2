import { useEffect, useState } from "preact/hooks";
import * as api from "./api";

export interface Size {
  width: number;
  height: number;
  url?: string; // of a file of the user
  isOriginalShown?: boolean; // browsers show its file
  isUnknown?: boolean; // neither the browser nor the server can read it
}

/** The size and the address of a file of the user; if the browser cannot show it, those of a JPEG of the server. */
export function useUpload(file: File | null): Size | null {
  const [size, setSize] = useState<Size | null>(null);
  useEffect(() => {
    setSize(null);
    if (!file) return;
    const stop = new AbortController();
    let url = URL.createObjectURL(file);
    const image = new Image();
    image.onload = () => setSize({ width: image.naturalWidth, height: image.naturalHeight, url });
    image.onerror = async () => {
      try {
        const { jpeg, width, height } = await api.preview(file, stop.signal);
        if (stop.signal.aborted) return;
        URL.revokeObjectURL(url);
        url = URL.createObjectURL(jpeg);
        setSize({ width, height, url });
      } catch (error) {
        if (!api.wasAborted(error)) setSize({ width: 3, height: 2, isUnknown: true });
      }
    };
    image.src = url;
    return () => {
      stop.abort();
      URL.revokeObjectURL(url);
    };
  }, [file]);
  return size;
}
