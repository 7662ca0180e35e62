// A button that copies a text.

import { useState } from "react";
import { Icon } from "./icons.tsx";

export function Copy({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    const value = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      copyBySelection(value); // a page over plain HTTP has no clipboard
    }
    setCopied(true);
    window.setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" className="button quiet icon tight" aria-label={copied ? "Copied" : label} title={copied ? "Copied" : label} onClick={() => void copy()}>
      <Icon name={copied ? "check" : "copy"} />
    </button>
  );
}

function copyBySelection(value: string): void {
  const area = document.createElement("textarea");
  area.value = value;
  area.className = "hidden-text";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
