// A table of any number of rows: only those in view are in the page.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState, type ReactNode } from "react";

import { useKeys } from "../app/keys.ts";

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ReactNode;
  /** Left out on a narrow screen. */
  wide?: boolean;
  number?: boolean;
  /** Buttons of the row, at its end. */
  actions?: boolean;
};

type Props<Row> = {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  onOpen?: (row: Row) => void;
  chosen?: string | null;
  /** Called when the last rows come into view. */
  onEnd?: () => void;
};

const FEW = 60;

export function RowTable<Row>(props: Props<Row>) {
  const { label, columns, rows } = props;
  const box = useRef<HTMLDivElement>(null);
  const isLong = rows.length > FEW;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight(),
    overscan: 12,
    enabled: isLong,
  });
  const items = isLong ? virtual.getVirtualItems() : null;
  const first = items?.[0]?.index ?? 0;
  const last = items === null ? rows.length - 1 : (items.at(-1)?.index ?? 0);
  const at = useWalk(rows.length, props.onOpen && ((index) => rows[index] && props.onOpen?.(rows[index])), (index) => {
    if (isLong) virtual.scrollToIndex(index);
    else box.current?.querySelectorAll("tbody tr")[index]?.scrollIntoView({ block: "nearest" });
  });
  useEndOfRows(last >= rows.length - 1, rows.length, props.onEnd);
  const above = items?.[0]?.start ?? 0;
  const below = items === null ? 0 : virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <div className="scroll rows" ref={box} tabIndex={isLong ? 0 : undefined} role="region" aria-label={label}>
      <table className="table" aria-rowcount={rows.length + 1}>
        <caption className="hidden-text">{label}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" className={nameOf(column)}>{column.title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Space height={above} />
          {rows.slice(first, last + 1).map((row, index) => (
            <Line key={props.rowKey(row)} row={row} index={first + index} isAt={first + index === at} {...props} />
          ))}
          <Space height={below} />
        </tbody>
      </table>
    </div>
  );
}

/** The row that j and k have reached; Enter opens it. */
function useWalk(count: number, open: ((index: number) => void) | undefined, show: (index: number) => void): number {
  const [at, setAt] = useState(-1);
  const step = (by: number) => {
    const next = Math.max(0, Math.min(count - 1, at + by));
    setAt(next);
    show(next);
  };
  useKeys(
    open === undefined
      ? []
      : [
          { keys: "j", does: "Next row", run: () => step(1) },
          { keys: "k", does: "Previous row", run: () => step(-1) },
          { keys: "Enter", does: "Open the row", run: () => at >= 0 && open(at) },
        ],
  );
  return at;
}

function Line<Row>({ row, index, isAt, columns, rowKey, onOpen, chosen }: Props<Row> & { row: Row; index: number; isAt: boolean }) {
  const isHere = isAt || chosen === rowKey(row);
  return (
    <tr
      aria-rowindex={index + 2}
      className={[onOpen ? "opens" : "", isHere ? "here" : ""].join(" ")}
      onClick={onOpen ? (event) => isPlain(event.target) && onOpen(row) : undefined}
    >
      {columns.map((column, at) => (
        <td key={column.title} className={nameOf(column)}>
          {at === 0 && onOpen ? (
            <button type="button" className="open-row" onClick={() => onOpen(row)}>{column.cell(row)}</button>
          ) : (
            column.cell(row)
          )}
        </td>
      ))}
    </tr>
  );
}

function Space({ height }: { height: number }) {
  return height > 0 ? <tr aria-hidden className="space"><td style={{ height }} /></tr> : null;
}

function useEndOfRows(isAtEnd: boolean, length: number, onEnd: (() => void) | undefined) {
  const call = useRef(onEnd);
  call.current = onEnd;
  useEffect(() => {
    if (isAtEnd && length > 0) call.current?.();
  }, [isAtEnd, length]);
}

/** Links and buttons of a row do what they say; the rest of it opens the row. */
function isPlain(target: EventTarget): boolean {
  return target instanceof Element && target.closest("a, button, input, label") === null;
}

function nameOf<Row>(column: Column<Row>): string {
  return [column.wide ? "wide-only" : "", column.number ? "number" : "", column.actions ? "end" : ""].join(" ").trim();
}

function rowHeight(): number {
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 32;
}
