// Below the header: what failed, what it waits for, where it comes from.

import { Link } from "wouter";
import { Command } from "../../parts/states.tsx";
import { Glyph } from "../../parts/status.tsx";
import { Ago, useNow } from "../../parts/time.tsx";
import type { HeadWait } from "../../api/types.ts";
import { cut, shortId, visible } from "../../pure/text.ts";
import { parseTime, relative } from "../../pure/time.ts";
import { useExecution } from "./context.tsx";
import { Signal } from "./signal.tsx";

export function Banner() {
  const { head, select, openTab, move } = useExecution();
  const { failure, defect, waits } = head;
  const hint = hintOf(failure) ?? hintOf(head.line.error);
  return (
    <div className="banner-list">
      {defect && (
        <div className="notice failed" role="alert">
          <Glyph status="quarantined" />
          <div>
            <div className="strong">{visible(cut(defect.message, 1000))}</div>
            <div className="hint">The log cannot be read from event {defect.seq} ({visible(defect.kind)}). Nothing is lost; “Resume” tries again.</div>
          </div>
        </div>
      )}
      {failure && !defect && (
        <div className="notice failed failure">
          <Glyph status="failed" />
          <div className="grow">
            <div className="strong message-text">{visible(cut(failure.message, 1000))}</div>
            {hint && <div className="message-text">{visible(cut(hint, 500))}</div>}
            <div className="hint">
              step <button type="button" className="as-link" onClick={() => select(failure.step, failure.run)}>{visible(failure.step)}</button>
              {failure.task && <>, task {visible(failure.task)}</>}
              {failure.attempt !== null && failure.attempt > 1 && <>, attempt {failure.attempt}</>}
              {`, ${failure.kind}, `}
              <button type="button" className="as-link" onClick={() => move(failure.seq)}>event {failure.seq}</button>
            </div>
          </div>
          <button type="button" className="button tight" onClick={() => openTab(new URLSearchParams(window.location.search).get("tab") ?? "timeline", { sel: failure.step, run: failure.run, panel: "why" })}>Why?</button>
        </div>
      )}
      {head.line.interrupted && (
        <div className="notice waiting">
          <Glyph status="paused" />
          <div className="grow">The process that ran it has ended; nothing is lost. This continues it:</div>
          <Command text={`noetl resume ${head.execution_id}`} />
        </div>
      )}
      {head.line.local && !head.line.interrupted && !head.ended && <div className="soft small">Run by <code>noetl run</code> in a process of its own; it is steered there.</div>}
      {waits.slice(0, 3).map((wait) => <Wait key={`${wait.run}${wait.task}`} wait={wait} />)}
      {head.waits_total > 3 && <div className="soft small">and {head.waits_total - 3} more waits, in the steps</div>}
      <Lineage />
    </div>
  );
}

/** The server's advice, where an error has one. */
function hintOf(error: unknown): string | null {
  if (typeof error !== "object" || error === null) return null;
  const { hint, details } = error as { hint?: unknown; details?: unknown };
  return typeof hint === "string" ? hint : hintOf(details);
}

const WAITS: Record<string, string> = { signal: "signal", timer: "a time", child: "another execution", event: "an event", place: "a free place", pause: "a person: it is paused", pool: "a worker" };

function Wait({ wait }: { wait: HeadWait }) {
  const { head, select } = useExecution();
  const now = useNow();
  const until = parseTime(wait.until);
  return (
    <div className="notice waiting">
      <Glyph status="waiting" />
      <div className="grow">
        {wait.step && <><button type="button" className="as-link strong" onClick={() => select(wait.step, wait.run)}>{visible(wait.step)}</button> </>}
        waits for {WAITS[wait.kind] ?? visible(wait.kind)}
        {wait.kind === "child" && wait.name ? <> <Link href={`/executions/${wait.name}`}>{shortId(wait.name)}</Link></> : wait.name && <b> {visible(wait.name)}</b>}
        <span className="soft"> since <Ago at={wait.since} />{until !== null && `, ${until > now ? "ends" : "due"} ${relative(until, now)}`}{wait.detail && ` (${visible(cut(wait.detail, 200))})`}</span>
      </div>
      {wait.kind === "signal" && wait.name && head.may.includes("signal") && <Signal name={wait.name} />}
    </div>
  );
}

function Lineage() {
  const { head } = useExecution();
  const { parent, forked_from: from, forks, children_total: children, line } = head;
  if (!parent && !from && forks.length === 0 && children === 0 && !line.trigger && Object.keys(line.labels).length === 0) return null;
  const to = (id: string) => <Link key={id} href={`/executions/${id}`} className="mono" title={id}>{shortId(id)}</Link>;
  return (
    <div className="lineage soft small">
      {parent && <span>called by {to(parent.execution_id)}</span>}
      {from && <span>forked from {to(from.execution_id)} at event {from.seq}</span>}
      {forks.length > 0 && <span>forked as {forks.slice(0, 8).map((id, at) => <span key={id}>{at > 0 && ", "}{to(id)}</span>)}{forks.length > 8 && ` and ${forks.length - 8} more`}</span>}
      {children > 0 && <Link href={`/executions?parent=${head.execution_id}`}>{children === 1 ? "1 child" : `${children} children`}</Link>}
      {typeof line.trigger?.name === "string" && <span>started by {visible(line.trigger.name)}</span>}
      {Object.entries(line.labels).map(([key, value]) => <Link key={key} className="tag" href={`/executions?label=${encodeURIComponent(`${key}=${value}`)}`}>{visible(key)}={visible(cut(value, 60))}</Link>)}
    </div>
  );
}
