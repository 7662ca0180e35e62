// Times and durations as people read them. One zone for the whole page.

export type Zone = "local" | "utc";

const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

/** `83 ms`, `1.24 s`, `2 min 5 s`, `3 h 12 min`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) {
    const seconds = ms / 1000;
    return `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(1)} s`;
  }
  const at = UNITS.findIndex(([size]) => ms >= size);
  const [size, name] = UNITS[at]!;
  const [next, nextName] = UNITS[at + 1]!;
  const whole = Math.floor(ms / size);
  const rest = Math.floor((ms - whole * size) / next);
  return rest ? `${whole} ${name} ${rest} ${nextName}` : `${whole} ${name}`;
}

/** `just now`, `12 s ago`, `3 h ago`, `in 22 h`. */
export function relative(at: number, now: number): string {
  const past = now - at;
  const size = Math.abs(past);
  if (size < 5000) return past >= 0 ? "just now" : "in a moment";
  const unit = UNITS.find(([each]) => size >= each) ?? UNITS[3]!;
  const text = `${Math.floor(size / unit[0])} ${unit[1]}`;
  return past >= 0 ? `${text} ago` : `in ${text}`;
}

const two = (number: number) => String(number).padStart(2, "0");

/** `2026-11-19 04:25:37` in the zone, with milliseconds if asked for. */
export function absolute(at: number, zone: Zone, withMs = false): string {
  const date = new Date(zone === "utc" ? at : at - new Date(at).getTimezoneOffset() * 60_000);
  const day = `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  const ms = withMs ? `.${String(date.getUTCMilliseconds()).padStart(3, "0")}` : "";
  return `${day} ${clock(date)}${ms}`;
}

const clock = (date: Date) => `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;

/** `04:25:37.120`, for rows of one execution. */
export function clockTime(at: number, zone: Zone): string {
  return absolute(at, zone, true).slice(11);
}

export function parseTime(text: string | null | undefined): number | null {
  if (!text) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}
