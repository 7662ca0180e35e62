// What a person chose for this browser: theme, zone, height of rows, keys.

import { useSyncExternalStore } from "react";
import type { Zone } from "../pure/time.ts";

export type Settings = {
  theme: "system" | "light" | "dark";
  zone: Zone;
  rows: "normal" | "compact";
  keys: "on" | "off";
  side: "wide" | "narrow";
};

const NAME = "noetl.settings";
const CHOICES: { [K in keyof Settings]: readonly Settings[K][] } = {
  theme: ["system", "light", "dark"],
  zone: ["local", "utc"],
  rows: ["normal", "compact"],
  keys: ["on", "off"],
  side: ["wide", "narrow"],
};
const DEFAULTS = Object.fromEntries(Object.entries(CHOICES).map(([name, all]) => [name, all[0]])) as Settings;

let current = read();
const listeners = new Set<() => void>();

/** The storage may be closed to us, or hold what another version wrote. */
function read(): Settings {
  const found: Record<string, unknown> = { ...DEFAULTS };
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(NAME) ?? "{}");
    for (const [name, all] of Object.entries(CHOICES)) {
      const value = (kept as Record<string, unknown> | null)?.[name];
      if ((all as readonly unknown[]).includes(value)) found[name] = value;
    }
  } catch {
    // the defaults do
  }
  return found as Settings;
}

function apply(): void {
  const root = document.documentElement;
  if (current.theme === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", current.theme);
  root.setAttribute("data-rows", current.rows);
}

export function choose(change: Partial<Settings>): void {
  current = { ...current, ...change };
  try {
    localStorage.setItem(NAME, JSON.stringify(current));
  } catch {
    // chosen for this page only
  }
  apply();
  for (const listener of listeners) listener();
}

export function settings(): Settings {
  return current;
}

export function watchSettings(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSettings(): Settings {
  return useSyncExternalStore(watchSettings, settings);
}

window.addEventListener("storage", (event) => {
  if (event.key !== NAME) return;
  current = read();
  apply();
  for (const listener of listeners) listener();
});
apply();
