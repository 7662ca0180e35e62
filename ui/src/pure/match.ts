// How well a few letters fit a text: 0 not at all, more is better.

export function match(words: string, text: string): number {
  if (!words) return 1;
  const wanted = words.toLowerCase();
  const found = text.toLowerCase();
  const at = found.indexOf(wanted);
  if (at >= 0) return 1000 - at - (found.length - wanted.length) / 100;
  let from = 0;
  let gaps = 0;
  for (const letter of wanted) {
    if (letter === " ") continue;
    const next = found.indexOf(letter, from);
    if (next < 0) return 0;
    gaps += next - from;
    from = next + 1;
  }
  return Math.max(1, 500 - gaps * 10);
}
