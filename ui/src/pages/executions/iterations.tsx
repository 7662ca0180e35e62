// A loop, opened: progress, rate, grouped errors, and its iterations.

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../../api/client.ts";
import type { Iterations, RunLine } from "../../api/types.ts";
import { Glyph } from "../../parts/status.tsx";
import { isMissing, Loading, Notice } from "../../parts/states.tsx";
import { hasEnded } from "../../pure/status.ts";
import { count, cut, shown, visible } from "../../pure/text.ts";
import { duration } from "../../pure/time.ts";
import { useExecution, useModel } from "./context.tsx";
import type { StepLook } from "./model.ts";

const WIDTH = 320;
const HEIGHT = 36;

export function IterationList({ line }: { line: RunLine }) {
  const { id, move, head } = useExecution();
  const model = useModel();
  const [status, setStatus] = useState("");
  const [order, setOrder] = useState("index");
  const query = useInfiniteQuery({
    queryKey: ["iterations", id, line.run, status, order],
    queryFn: ({ pageParam, signal }) =>
      get<Iterations>(`executions/${encodeURIComponent(id)}/runs/${encodeURIComponent(line.run)}/iterations`, { status: status || null, order, cursor: pageParam }, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.cursor,
    placeholderData: keepPreviousData,
    refetchInterval: (found) => (found.state.data?.pages[0]?.complete === false ? 300 : hasEnded(head.line.status) ? false : 2000),
    retry: false,
  });
  if (query.error && isMissing(query.error)) return null;
  if (query.error && !query.data) return <div className="pad"><Notice error={query.error} /></div>;
  const first = query.data?.pages[0];
  if (!first) return <Loading rows={3} />;
  const items = query.data!.pages.flatMap((page) => page.items);
  return (
    <section className="iterations pad" aria-label="Iterations">
      <div className="row wrap loop-line">
        <span className="strong">{count(first.done + first.failed)}/{count(first.total)}</span>
        {first.done > 0 && <span className="status state-done"><Glyph status="done" />{count(first.done)}</span>}
        {first.failed > 0 && <span className="status state-failed"><Glyph status="failed" />{count(first.failed)}</span>}
        {first.in_flight > 0 && <span className="status state-running"><Glyph status="running" />{count(first.in_flight)} in flight</span>}
        {first.rate !== null && first.rate > 0 && <span className="soft">{first.rate >= 10 ? count(Math.round(first.rate)) : first.rate.toFixed(1)}/s</span>}
        {first.eta_ms !== null && first.in_flight > 0 && <span className="soft">{duration(first.eta_ms)} left</span>}
      </div>
      {!model.follows && <p className="soft small past-note">{pastOf(model.looks().get(line.step), model.seq, head.ended)}</p>}
      <progress className="hidden-text" value={first.done + first.failed} max={Math.max(1, first.total)} aria-label="Iterations that have ended" />
      <Buckets buckets={first.buckets} />
      {first.errors.length > 0 && (
        <ul className="loop-errors">
          {first.errors.map((error) => <li key={`${error.kind} ${error.message}`}><span className="strong">{count(error.count)} ×</span> <span className="wrong-text">{visible(error.kind)}</span> <span className="soft small">first #{error.first}</span><span className="soft cut" title={visible(error.message)}>{visible(cut(error.message, 200))}</span></li>)}
        </ul>
      )}
      <div className="row wrap">
        <select className="input" aria-label="Which iterations" value={status} onChange={(event) => setStatus(event.target.value)}>
          <option value="">all</option><option value="failed">failed</option><option value="running">in flight</option><option value="done">done</option>
        </select>
        <select className="input" aria-label="Order of the iterations" value={order} onChange={(event) => setOrder(event.target.value)}>
          <option value="index">by number</option><option value="time">by end</option><option value="duration">longest first</option>
        </select>
      </div>
      <ul className="iteration-list">
        {items.map((item) => (
          <li key={item.index}>
            <button type="button" className="iteration" onClick={() => move(item.seq)} title={`event ${item.seq}`}>
              <Glyph status={item.status} /><span className="mono">#{item.index}</span><span className="soft number">{duration(item.ms)}</span>{item.attempts > 1 && <span className="soft small">×{item.attempts}</span>}
              <span className={`cut grow mono${item.error ? " wrong-text" : " soft"}`}>{item.error ? visible(cut(item.error.message ?? item.error.kind ?? "", 160)) : shown(item.value, 120)}</span>
            </button>
          </li>
        ))}
      </ul>
      {query.hasNextPage && <button type="button" className="button quiet tight" disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>More iterations</button>}
    </section>
  );
}

/** Iterations are shown as they are by now: what the cursor shows is said in a line. */
function pastOf(look: StepLook | undefined, seq: number, ended: boolean): string {
  const now = ended ? "at the end" : "by now";
  if (!look || look.loopTotal === 0) return `The loop had not begun at event ${count(seq)}; this is how it is ${now}.`;
  const failed = look.loopFailed ? `, ${count(look.loopFailed)} of them failed` : "";
  return `At event ${count(seq)}, ${count(look.loopDone + look.loopFailed)} of ${count(look.loopTotal)} had ended${failed}; this is how it is ${now}.`;
}

function Buckets({ buckets }: { buckets: Iterations["buckets"] }) {
  const most = Math.max(1, ...buckets.map((bucket) => bucket.done + bucket.failed));
  if (buckets.length < 2) return null;
  const width = WIDTH / buckets.length;
  return (
    <svg className="buckets" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label="Iterations that ended, over time">
      {buckets.map((bucket, at) => {
        const failed = (bucket.failed / most) * HEIGHT;
        const done = (bucket.done / most) * HEIGHT;
        return (
          <g key={at}>
            <rect className="state-done" x={at * width} width={Math.max(0.6, width - 0.4)} y={HEIGHT - done - failed} height={done} />
            <rect className="state-failed" x={at * width} width={Math.max(0.6, width - 0.4)} y={HEIGHT - failed} height={failed} />
          </g>
        );
      })}
    </svg>
  );
}
