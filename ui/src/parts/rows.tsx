// A list of rows of equal height, of which only those in view exist.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useImperativeHandle, useRef, type ReactNode, type Ref, type RefObject } from "react";

export type RowsHandle = { scrollTo: (index: number, align?: "auto" | "center" | "start" | "end") => void };

type Props = {
  count: number;
  row: (index: number) => ReactNode;
  /** Key of a row: a row that keeps it keeps its elements. */
  keyOf?: (index: number) => string | number;
  height?: number;
  /** Element that scrolls; by default the list is one itself. */
  scroller?: RefObject<HTMLElement | null>;
  label: string;
  /** Called when the last rows come into view. */
  onEnd?: () => void;
  onRange?: (from: number, to: number) => void;
  handle?: Ref<RowsHandle>;
  /** Name under which the position is kept for "back". */
  remember?: string;
  className?: string;
};

const positions = new Map<string, number>();

/** Height of a row as the theme has it now. */
export function rowHeight(): number {
  return parseInt(getComputedStyle(document.documentElement).getPropertyValue("--row"), 10) || 32;
}

export function Rows({ count, row, keyOf, height, scroller, label, onEnd, onRange, handle, remember, className = "" }: Props) {
  const own = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer({
    count,
    getScrollElement: () => (scroller ?? own).current,
    estimateSize: () => height ?? rowHeight(),
    overscan: 12,
    initialOffset: () => (remember ? positions.get(remember) ?? 0 : 0),
    getItemKey: keyOf ?? ((index) => index),
  });
  useEffect(() => {
    const element = (scroller ?? own).current;
    if (!remember || !element) return;
    const at = positions.get(remember);
    if (at) element.scrollTop = at;
    const keep = () => positions.set(remember, element.scrollTop);
    element.addEventListener("scroll", keep, { passive: true });
    return () => element.removeEventListener("scroll", keep);
  }, [remember, scroller]);
  const items = virtualizer.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (last >= 0) onRange?.(first, last);
    if (last >= count - 10 && count > 0) onEnd?.();
  }, [first, last, count]);
  useImperativeHandle(handle, () => ({
    scrollTo: (index, align = "auto") => virtualizer.scrollToIndex(index, { align }),
  }), [virtualizer]);
  const list = (
    <div className="virtual" role="rowgroup" style={{ height: virtualizer.getTotalSize() }}>
      {items.map((item) => (
        <div key={item.key} role="presentation" style={{ height: item.size, transform: `translateY(${item.start}px)` }}>
          {row(item.index)}
        </div>
      ))}
    </div>
  );
  if (scroller) return list;
  return <div ref={own} className={`scroll ${className}`} role="table" aria-label={label} aria-rowcount={count} tabIndex={0}>{list}</div>;
}
