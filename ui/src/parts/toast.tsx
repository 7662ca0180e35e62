// Short messages at the edge of the page. Errors stay until they are closed.

import { useSyncExternalStore, type ReactNode } from "react";
import { asProblem } from "../api/problem.ts";
import { visible } from "../pure/text.ts";
import { Icon } from "./icons.tsx";
import { Glyph } from "./status.tsx";

type Toast = { id: number; status: "done" | "failed"; text: string; hint: string | null; more?: ReactNode };

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function change(list: Toast[]): void {
  toasts = list;
  for (const listener of listeners) listener();
}

function close(id: number): void {
  change(toasts.filter((each) => each.id !== id));
}

export function say(text: string, more?: ReactNode): void {
  const id = next++;
  change([...toasts.slice(-3), { id, status: "done", text, hint: null, more }]);
  window.setTimeout(() => close(id), 6000);
}

export function sayProblem(error: unknown): void {
  const problem = asProblem(error);
  if (problem.isSignedOut) return; // the sign-in says it
  change([...toasts.slice(-3), { id: next++, status: "failed", text: problem.message, hint: problem.hint }]);
}

export function Toasts() {
  const list = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {list.map((toast) => (
        <div key={toast.id} className="toast">
          <Glyph status={toast.status} />
          <div className="grow">
            <div>{visible(toast.text)}</div>
            {toast.hint && <div className="soft">{visible(toast.hint)}</div>}
            {toast.more}
          </div>
          <button type="button" className="button quiet icon tight" aria-label="Close the message" onClick={() => close(toast.id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  );
}
