// A time: relative, with the absolute one as its tooltip.

import { useSyncExternalStore } from "react";
import { useSettings } from "../app/settings.ts";
import { absolute, parseTime, relative } from "../pure/time.ts";

const listeners = new Set<() => void>();
let now = Date.now();
let skew = 0;
let timer = 0;

/** Durations to now count by the server's clock. */
export function setServerTime(text: string | undefined): void {
  const at = parseTime(text);
  if (at !== null) skew = at - Date.now();
}

export function serverNow(): number {
  return Date.now() + skew;
}

function watch(listener: () => void): () => void {
  listeners.add(listener);
  if (listeners.size === 1) {
    timer = window.setInterval(() => {
      now = serverNow();
      for (const each of listeners) each();
    }, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.clearInterval(timer);
  };
}

/** The time now, told again each second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

export function Ago({ at }: { at: string | null | undefined }) {
  const { zone } = useSettings();
  const moment = parseTime(at);
  const current = useNow();
  if (moment === null) return null;
  return (
    <time dateTime={at ?? ""} title={`${absolute(moment, zone, true)} ${zone === "utc" ? "UTC" : ""}`.trim()}>
      {relative(moment, Math.max(current, serverNow() - 1000))}
    </time>
  );
}

export function Moment({ at, ms = false }: { at: string | null | undefined; ms?: boolean }) {
  const { zone } = useSettings();
  const moment = parseTime(at);
  if (moment === null) return null;
  return <time dateTime={at ?? ""} title={at ?? ""}>{absolute(moment, zone, ms)}</time>;
}
