// Keys of the page. A part that is shown adds its own; the last one added is asked first.

import { useEffect, useRef } from "react";
import { settings } from "./settings.ts";

export type Key = { keys: string; does: string; run: (event: KeyboardEvent) => void; always?: boolean };
type Layer = { list: () => Key[] };

const layers: Layer[] = [];
let pending = "";
let timer = 0;

/** Name of a pressed key with its modifiers: `Ctrl+k`, `Shift+ArrowLeft`, `j`. */
export function nameOf(event: KeyboardEvent): string {
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push("Ctrl");
  if (event.altKey) parts.push("Alt");
  if (event.shiftKey && event.key.length > 1) parts.push("Shift");
  parts.push(event.key === " " ? "Space" : event.key);
  return parts.join("+");
}

function isTyped(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const typed = target.closest("input, textarea, select, [contenteditable], .editor-host");
  if (typed instanceof HTMLInputElement) return !["checkbox", "radio", "range", "button"].includes(typed.type);
  return typed !== null;
}

/** Keys that a focused control answers itself. */
function isOwn(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (event.key === "Enter" || event.key === " ") return target.closest("button, a, summary, input, [role=option]") !== null;
  if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
    return target.closest("[role=tablist], [role=menu], [role=listbox], input[type=range]") !== null;
  }
  return false;
}

function press(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const name = nameOf(event);
  const single = !event.ctrlKey && !event.metaKey;
  if (single && (isTyped(event.target) || isOwn(event))) return;
  if (single && settings().keys === "off" && name !== "Escape") return;
  const isOpen = document.querySelector("dialog[open]") !== null;
  const sequence = pending ? `${pending} ${name}` : name;
  window.clearTimeout(timer);
  pending = "";
  for (const layer of [...layers].reverse()) {
    for (const key of layer.list()) {
      if (isOpen && !key.always) continue;
      if (key.keys === sequence) {
        event.preventDefault();
        key.run(event);
        return;
      }
      if (key.keys.startsWith(`${sequence} `)) pending = sequence;
    }
  }
  if (pending) timer = window.setTimeout(() => { pending = ""; }, 1200);
}

window.addEventListener("keydown", press);

export function useKeys(list: Key[]): void {
  const held = useRef(list);
  useEffect(() => {
    held.current = list;
  });
  useEffect(() => {
    const layer = { list: () => held.current };
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, []);
}

/** All keys that work now, for the help and the palette. */
export function allKeys(): Key[] {
  return [...layers].reverse().flatMap((layer) => layer.list());
}

export function keyWords(keys: string): string {
  const words: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };
  return keys
    .split(" ")
    .map((each) => each.split("+").map((part) => words[part] ?? part).join(" "))
    .join(" then ");
}
