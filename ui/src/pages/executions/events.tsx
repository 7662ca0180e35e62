// The log, virtual by position: row n is event n. Pages of 500, of which 40 are kept.

import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { EventLine, Json } from "../../api/types.ts";
import { useSettings } from "../../app/settings.ts";
import { Value } from "../../parts/json.tsx";
import { Rows, type RowsHandle } from "../../parts/rows.tsx";
import { Loading, Notice } from "../../parts/states.tsx";
import { useExecution, useModel } from "./context.tsx";
import { Asked } from "./why.tsx";
import { shown, visible } from "../../pure/text.ts";
import { clockTime } from "../../pure/time.ts";

const PAGE = 500;
const KEPT = 40;
/** Found events at which looking stops until it is asked for. */
const FOUND = 200;
type Page = { events: EventLine[]; cursor: number | null };

/** Pages of events by number; asked for once, the last one again while it grows. */
function useEvents(id: string, last: number) {
  const pages = useRef(new Map<number, EventLine[]>());
  const asked = useRef(new Set<number>());
  const [, setVersion] = useState(0);
  const [problem, setProblem] = useState<unknown>(null);
  const load = async (number: number) => {
    const held = pages.current.get(number);
    const isWhole = held && (held.length === PAGE || number * PAGE + held.length >= last);
    if (isWhole || asked.current.has(number)) return;
    asked.current.add(number);
    try {
      const events: EventLine[] = [];
      let after: number | null = number * PAGE;
      while (after !== null && events.length < PAGE) {
        const page: Page = await get<Page>(`executions/${encodeURIComponent(id)}/events`, { after, limit: PAGE - events.length });
        events.push(...page.events);
        after = page.events.length ? page.cursor : null;
      }
      pages.current.delete(number);
      pages.current.set(number, events);
      for (const old of pages.current.keys()) if (pages.current.size > KEPT && old !== number) pages.current.delete(old);
      setProblem(null);
    } catch (error) {
      setProblem(error);
    }
    asked.current.delete(number);
    setVersion((old) => old + 1);
  };
  return { at: (seq: number) => pages.current.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE], load, problem };
}

export function Events() {
  const { id, move } = useExecution();
  const model = useModel();
  const { last, seq } = model;
  const { at, load, problem } = useEvents(id, last);
  const rows = useRef<RowsHandle>(null);
  const range = useRef<[number, number]>([0, 0]);
  const [find, setFind] = useState("");
  const show = (from: number, to: number) => {
    if (to < from || from < 0) return;
    range.current = [from, to];
    void load(Math.floor(from / PAGE));
    if (Math.floor(to / PAGE) !== Math.floor(from / PAGE)) void load(Math.floor(to / PAGE));
  };
  useEffect(() => {
    rows.current?.scrollTo(seq - 1);
    show(Math.max(0, seq - 20), Math.min(last - 1, seq + 20));
  }, [seq, last]);
  const event = at(seq);
  const [asks, setAsks] = useState(false);
  return (
    <div className="events">
      <div className="events-list">
        <div className="events-tools">
          <span className="find-in"><input type="search" className="input" aria-label="Find in the events" placeholder="Find in the events" value={find} maxLength={200} onChange={(change) => setFind(change.target.value)} /></span>
        </div>
        {problem != null && <Notice error={problem} />}
        {find.trim() ? <Found text={find.trim()} onChoose={(found) => { move(found); setFind(""); }} /> : (
          <Rows
            handle={rows}
            label="Events"
            count={last}
            height={28}
            className="event-rows"
            onRange={show}
            row={(index) => <EventRow event={at(index + 1)} seq={index + 1} isHere={index + 1 === seq} onChoose={() => move(index + 1)} />}
          />
        )}
      </div>
      <div className="event-detail scroll" tabIndex={0} role="region" aria-label="The event">
        {event ? (
          <>
            <header className="row"><span className="tag">#{event.seq}</span><h3 className="grow cut" title={visible(event.name)}>{visible(event.name)}</h3><button type="button" className="button tight" aria-pressed={asks} onClick={() => setAsks(!asks)}>Why?</button></header>
            {asks && <Asked question={{ seq: event.seq }} />}
            <dl className="facts small">
              <dt>time</dt><dd className="mono">{event.timestamp}</dd>
              {event.step && <><dt>step</dt><dd>{visible(event.step)}</dd></>}
              {event.task_label && <><dt>task</dt><dd>{visible(event.task_label)}{event.attempt ? `, attempt ${event.attempt}` : ""}</dd></>}
              {event.iteration_id && <><dt>iteration</dt><dd className="mono">{visible(event.iteration_id.slice(event.iteration_id.indexOf("/") + 1))}</dd></>}
              <dt>from</dt><dd>{visible(event.source)}</dd>
            </dl>
            <Value key={event.seq} title="Payload" value={event.payload} open={3} />
          </>
        ) : <Loading rows={4} />}
      </div>
    </div>
  );
}

function EventRow({ event, seq, isHere, onChoose }: { event: EventLine | undefined; seq: number; isHere: boolean; onChoose: () => void }) {
  const { zone } = useSettings();
  return (
    <div className={`event-row${isHere ? " here" : ""}${event?.status === "error" ? " error" : ""}`} role="row" aria-selected={isHere} data-seq={seq} onClick={onChoose}>
      <span role="cell" className="number soft">{seq}</span>
      <span role="cell" className="mono soft time">{event ? clockTime(Date.parse(event.timestamp), zone) : ""}</span>
      <span role="cell" className="cut">{event ? visible(event.name) : "…"}</span>
      <span role="cell" className="cut strong">{event?.step ? visible(event.step) : ""}{event?.task_label && <span className="soft"> {visible(event.task_label)}{event.attempt && event.attempt > 1 ? ` #${event.attempt}` : ""}</span>}</span>
      <span role="cell" className="cut soft story">{event ? summary(event) : ""}</span>
    </div>
  );
}

type Shape = { [key: string]: Json };
const part = (value: Json | undefined, key: string): Json | undefined => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Shape)[key] : undefined);

/** The most telling member of a payload, in a few words. */
function summary(event: EventLine): string {
  const { payload } = event;
  const error = payload.error ?? part(payload.outcome, "error");
  const message = part(error, "message") ?? part(error, "kind");
  if (typeof message === "string") return shown(message, 200);
  const directive = payload.directive;
  const does = part(directive, "do");
  if (typeof does === "string" && does !== "continue") return does;
  for (const key of ["result", "args", "workload", "name", "signal", "data"]) if (payload[key] !== undefined && payload[key] !== null) return `${key} ${shown(payload[key], 200)}`;
  const result = part(payload.outcome, "result");
  return result === undefined || result === null ? "" : shown(result, 200);
}

/** Events that contain a text; the server looks, 20,000 events a call. */
function Found({ text, onChoose }: { text: string; onChoose: (seq: number) => void }) {
  const { id } = useExecution();
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(text), 300);
    return () => window.clearTimeout(timer);
  }, [text]);
  const query = useInfiniteQuery({
    queryKey: ["events", "find", id, settled],
    queryFn: ({ pageParam, signal }) => get<Page>(`executions/${encodeURIComponent(id)}/events`, { find: settled, after: pageParam, limit: 200 }, signal),
    initialPageParam: 0,
    getNextPageParam: (page) => page.cursor,
    staleTime: 10_000,
    retry: false,
  });
  const { data, hasNextPage, isFetching, fetchNextPage } = query;
  const events = data?.pages.flatMap((page) => page.events) ?? [];
  useEffect(() => {
    // The server looks at 20,000 events a call: a page without a find is not the end.
    if (hasNextPage && !isFetching && events.length < FOUND) void fetchNextPage();
  }, [hasNextPage, isFetching, events.length, fetchNextPage]);
  if (query.error) return <Notice error={query.error} />;
  if (!data) return <Loading rows={4} />;
  return (
    <div className="scroll event-rows" role="table" aria-label="Found events">
      <div className="small soft found-note">{events.length ? `${events.length}${hasNextPage ? " or more" : ""} found` : hasNextPage ? "Looking…" : "Nothing found"}</div>
      <div role="rowgroup">{events.map((event) => <div key={event.seq} className="found-row"><EventRow event={event} seq={event.seq} isHere={false} onChoose={() => onChoose(event.seq)} /></div>)}</div>
    </div>
  );
}
