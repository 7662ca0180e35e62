// What tasks printed and logged, from its first line; followed while it grows.

import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { LogLine } from "../../api/types.ts";
import { useSettings } from "../../app/settings.ts";
import { Rows, type RowsHandle } from "../../parts/rows.tsx";
import { Empty, Loading, Notice } from "../../parts/states.tsx";
import { cut, plural, visible } from "../../pure/text.ts";
import { clockTime } from "../../pure/time.ts";
import { useExecution } from "./context.tsx";

const PAGE = 1000;
const MOST = 100_000;
const LONGEST = 2048;
type Page = { lines: LogLine[]; cursor: string | null };

/** Lines from the first; when the execution ends, its last ones are asked for. */
function useLines(id: string, step: string, ended: boolean) {
  const isOver = useRef(ended);
  isOver.current = ended;
  const [lines, setLines] = useState<LogLine[] | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let after: string | null = null;
    let known: LogLine[] = [];
    const more = async () => {
      const wasOver = isOver.current;
      try {
        for (;;) {
          const page: Page = await get<Page>(`executions/${encodeURIComponent(id)}/logs`, { limit: PAGE, after, step: step || null }, abort.signal);
          after = page.cursor ?? after;
          if (page.lines.length) known = known.concat(page.lines).slice(-MOST);
          setLines(known);
          setProblem(null);
          if (page.lines.length < PAGE) break;
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        setProblem(error);
        setLines((old) => old ?? []);
      }
      if (!wasOver) timer = window.setTimeout(() => void more(), 1500);
    };
    setLines(null);
    void more();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [id, step]);
  return { lines, problem };
}

export function Output() {
  const { id, head, step } = useExecution();
  const [only, setOnly] = useState(false);
  const [text, setText] = useState("");
  const rows = useRef<RowsHandle>(null);
  const { lines, problem } = useLines(id, only && step ? step : "", head.ended);
  const { zone } = useSettings();
  const wanted = text.toLowerCase();
  const list = (lines ?? []).filter((line) => !wanted || line.text.toLowerCase().includes(wanted));
  // Who came while it ran follows its output to the end.
  const [follows] = useState(!head.ended);
  useEffect(() => {
    if (follows && list.length) rows.current?.scrollTo(list.length - 1, "end");
  }, [list.length, follows]);
  return (
    <div className="output">
      <div className="events-tools">
        <span className="find-in"><input type="search" className="input" aria-label="Find in the output" placeholder="Find in the output" value={text} onChange={(event) => setText(event.target.value)} /></span>
        {step && <label className="row"><input type="checkbox" checked={only} onChange={(event) => setOnly(event.target.checked)} />only {visible(step)}</label>}
        {lines && <span className="soft small">{plural(list.length, "line")}</span>}
      </div>
      {problem != null && <Notice error={problem} />}
      {lines === null ? <Loading rows={5} /> : list.length === 0 ? (
        <Empty title={text ? "No line has this text" : "No task has printed anything"} icon="executions" />
      ) : (
        <Rows
          handle={rows}
          label="Output"
          count={list.length}
          height={20}
          className="output-rows"
          row={(index) => {
            const line = list[index]!;
            return (
              <div className={`output-row ${line.stream} ${line.level ?? ""}`} role="row">
                <span role="cell" className="mono soft time">{clockTime(Date.parse(line.time), zone)}</span>
                <span role="cell" className="cut soft">{visible(line.step)}{line.iteration !== null && `[${visible(String(line.iteration))}]`}{line.attempt > 1 && ` #${line.attempt}`}</span>
                <span role="cell" className="mono text" title={line.text.length > 160 ? visible(cut(line.text, LONGEST)) : undefined}>{line.level && line.level !== "info" && <b>{line.level} </b>}{visible(cut(line.text, LONGEST))}</span>
              </div>
            );
          }}
        />
      )}
    </div>
  );
}
