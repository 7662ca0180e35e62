// Strings of executions are hostile: they are shown as text, bounded, with nothing invisible.

export const CUT = 2048;

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Replace control and direction characters by signs that can be seen. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

export function cut(text: string, most = CUT): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

export function shown(value: unknown, most = CUT): string {
  if (typeof value === "string") return visible(cut(value, most));
  return visible(cut(JSON.stringify(value) ?? "", most));
}

/** Made once: to make one costs as much as a hundred uses. */
const NUMBER = new Intl.NumberFormat("en-US");

/** `1,234`; the page speaks English whatever the system does. */
export function count(number: number): string {
  return NUMBER.format(number);
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** `83 B`, `1.2 KB`, `4.5 MB`. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const units = ["KB", "MB", "GB", "TB"];
  let at = -1;
  let rest = size;
  do {
    rest /= 1000;
    at += 1;
  } while (rest >= 999.5 && at < units.length - 1);
  return `${rest < 10 ? rest.toFixed(1) : Math.round(rest)} ${units[at]}`;
}

/** The last part of an id, enough to tell executions apart. */
export function shortId(id: string): string {
  return id.length > 12 ? id.slice(-8) : id;
}
