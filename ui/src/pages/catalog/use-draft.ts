// The text of the editor, kept by the browser until it is registered or discarded.

import { useEffect, useState } from "react";

import { Drafts } from "../../editor/drafts.ts";

export function useDraft(path: string, original: string, base: string | null) {
  const [drafts] = useState(() => new Drafts(window.localStorage));
  const [first] = useState(() => drafts.read(path));
  const [text, setText] = useState(first?.text ?? original);
  const [isKept, setKept] = useState(true);
  const [began, setBegan] = useState(first === null ? base : first.base);
  const isChanged = text !== original;
  useEffect(() => {
    if (isChanged) setKept(drafts.keep(path, { text, base: began, at: new Date().toISOString() }));
    else drafts.drop(path);
  }, [text, isChanged, path, began, drafts]);
  return {
    text,
    isChanged,
    isKept,
    restoredAt: first === null || first.text !== text ? null : first.at,
    change: setText,
    /** The version that the text began from. */
    began,
    discard: () => {
      setText(original);
      setBegan(base);
    },
    drop: () => drafts.drop(path),
  };
}
