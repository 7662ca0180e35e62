// Runs of steps over time: queue, work and wait; errors as marks.

import { useEffect, useMemo, useRef } from "react";
import { Rows, type RowsHandle } from "../../parts/rows.tsx";
import { Glyph } from "../../parts/status.tsx";
import { Empty, Loading, Refused } from "../../parts/states.tsx";
import { lanes, SHOWN, ticks, type Lane } from "../../pure/lanes.ts";
import { look } from "../../pure/status.ts";
import { count, plural, visible } from "../../pure/text.ts";
import { duration } from "../../pure/time.ts";
import { serverNow } from "../../parts/time.tsx";
import { useExecution, useModel } from "./context.tsx";

export function Timeline() {
  const model = useModel();
  const { head, step, run, select } = useExecution();
  const { page, seq } = model;
  const looks = model.looks();
  const known = page?.to ?? 0;
  const list = useMemo(() => (page ? lanes(page.rowsOf(SHOWN), seq) : []), [page, seq, known]);
  const rows = useRef<RowsHandle>(null);
  const first = list.findIndex((lane) => lane.step === step);
  useEffect(() => {
    if (first >= 0) rows.current?.scrollTo(first);
  }, [step, first >= 0]);
  if (!page) return model.problem ? <Refused error={model.problem} again={() => void model.renew()} /> : <Loading rows={5} />;
  if (list.length === 0) return <Empty title="No step has begun here" icon="clock" />;
  const from = Math.min(...list.map((lane) => lane.from));
  const isLive = model.follows && !head.ended;
  const end = Math.max(from + 1, ...list.map((lane) => lane.to ?? 0), page.msAt(seq), isLive ? serverNow() - page.t0 : 0);
  const share = (ms: number) => `${(((ms - from) / (end - from)) * 100).toFixed(3)}%`;
  const runNumber = run === null ? null : Number(run.slice(run.lastIndexOf("-") + 1));
  const isPart = head.last_seq > 10_000;
  return (
    <div className="timeline">
      <div className="lane axis" aria-hidden="true">
        <span className="soft small">{isPart ? `events ${count(page.from)} to ${count(page.to)}` : plural(list.length, "run")}</span>
        <span className="bars">{ticks(from, end).filter((tick) => tick - from < 0.92 * (end - from)).map((tick) => <span key={tick} className="tick" style={{ left: share(tick) }}>{tick === 0 ? "0" : duration(tick)}</span>)}</span>
        <span />
      </div>
      <Rows
        handle={rows}
        label="Runs over time"
        count={list.length}
        height={28}
        keyOf={(index) => list[index]!.run}
        className="lanes"
        row={(index) => {
          const lane = withErrors(list[index]!, looks.get(list[index]!.step)?.status);
          const isHere = runNumber === null ? lane.step === step : lane.run === runNumber && lane.step === step;
          return <LaneRow lane={lane} end={end} share={share} isHere={isHere} onSelect={() => select(lane.step, `${head.execution_id}-${lane.run}`)} />;
        }}
      />
    </div>
  );
}

function LaneRow({ lane, end, share, isHere, onSelect }: { lane: Lane; end: number; share: (ms: number) => string; isHere: boolean; onSelect: () => void }) {
  return (
    <div className={`lane state-${look(lane.status)}${isHere ? " here" : ""}`} role="row" onClick={onSelect}>
      <span role="cell" className="row"><Glyph status={lane.status} /><button type="button" className="as-link plain cut" onClick={onSelect}>{visible(lane.step)}</button></span>
      <span role="cell" className="bars">
        {lane.spans.map((span, at) => (
          <span key={at} className={`span ${span.kind}`} title={`${{ queue: "in the queue", run: "at work", wait: "waiting" }[span.kind]} ${duration((span.to ?? end) - span.from)}`} style={{ left: share(span.from), right: `calc(100% - ${share(span.to ?? end)})` }} />
        ))}
        {lane.errors.slice(0, 200).map((ms, at) => <span key={`e${at}`} className="fault-mark" style={{ left: share(ms) }} />)}
      </span>
      <span role="cell" className="number soft small">{lane.to === null || lane.cut ? "" : duration(lane.to - lane.from)}</span>
    </div>
  );
}

/** Errors that were ignored may lie before the rows that are here: the step knows of them. */
function withErrors(lane: Lane, step: string | undefined): Lane {
  return lane.cut && lane.status === "done" && step === "partial" ? { ...lane, status: step } : lane;
}
