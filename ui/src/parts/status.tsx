// Status of an execution, step or call: glyph, word and colour together.

import { look, word, type Look } from "../pure/status.ts";

const check = <path d="M4.6 8.3 7 10.7 11.5 5.7" fill="none" stroke="var(--glyph-mark, var(--paper))" strokeWidth="1.8" strokeLinecap="round" strokeLinejoin="round" />;
const ring = <circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" strokeWidth="1.6" />;

/** Shapes in a box of 16 by 16; the graph draws the same ones. */
export const SHAPES: Record<Look, React.ReactNode> = {
  done: <><circle cx="8" cy="8" r="7" fill="currentColor" />{check}</>,
  completed: <><circle cx="8" cy="8" r="7" fill="currentColor" />{check}</>,
  partial: <><circle cx="7.5" cy="8.5" r="6.5" fill="currentColor" />{check}<circle cx="13" cy="3" r="2.6" fill="currentColor" stroke="var(--glyph-mark, var(--paper))" strokeWidth="1.2" /></>,
  failed: <><rect x="1.5" y="1.5" width="13" height="13" rx="3" fill="currentColor" /><path d="M5.3 5.3l5.4 5.4M10.7 5.3l-5.4 5.4" stroke="var(--glyph-mark, var(--paper))" strokeWidth="1.8" strokeLinecap="round" /></>,
  quarantined: <><path d="M8 .8 15.2 8 8 15.2.8 8z" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinejoin="round" /><path d="M8 4.5v4M8 11h.01" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" /></>,
  running: <g className="turning"><circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" strokeWidth="1.8" opacity=".28" /><path d="M8 1.8A6.2 6.2 0 0 1 14.2 8" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" /></g>,
  waiting: <path d="M4 1.8h8M4 14.2h8M5 1.8c0 3.5 2.4 4.2 2.4 6.2S5 10.7 5 14.2M11 1.8c0 3.5-2.4 4.2-2.4 6.2s2.4 2.7 2.4 6.2M6.3 4.5h3.4M6.2 12.5h3.6" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" />,
  ready: <>{ring}<path d="M8 4.5V8l2.2 1.5" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" /></>,
  paused: <>{ring}<path d="M6.2 5.5v5M9.8 5.5v5" stroke="currentColor" strokeWidth="1.7" strokeLinecap="round" /></>,
  cancelled: <>{ring}<path d="M3.7 12.3l8.6-8.6" stroke="currentColor" strokeWidth="1.6" /></>,
  skipped: <path d="M3.5 8h9" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />,
  idle: <circle cx="8" cy="8" r="3" fill="currentColor" />,
  not_reached: <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" strokeWidth="1.4" strokeDasharray="2.4 2.2" />,
};

export function Glyph({ status }: { status: string }) {
  const state = look(status);
  return (
    <svg viewBox="0 0 16 16" className={`glyph state-${state}`} aria-hidden="true">
      {SHAPES[state]}
    </svg>
  );
}

export function Status({ status, pill = false, text }: { status: string; pill?: boolean; text?: string }) {
  return (
    <span className={`status state-${look(status)}${pill ? " pill" : ""}`}>
      <Glyph status={status} />
      {text ?? word(status)}
    </span>
  );
}
