// One execution: what it did, why, and what can be done about it.

import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useParams } from "wouter";
import { get } from "../../api/client.ts";
import { useLive, useLiveState } from "../../api/live.ts";
import type { Head } from "../../api/types.ts";
import { usePhone } from "../../app/media.ts";
import { usePaletteEntries } from "../../app/palette.tsx";
import { useAddress } from "../../app/view-state.ts";
import { Graph, type GraphHandle } from "../../graph/graph.tsx";
import type { Picture } from "../../graph/picture.ts";
import { Icon } from "../../parts/icons.tsx";
import { Boundary, Loading, Notice, Refused } from "../../parts/states.tsx";
import { ValueOwner } from "../../parts/stored-rows.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { hasEnded } from "../../pure/status.ts";
import { Banner } from "./banner.tsx";
import { ExecutionContext, type Shared } from "./context.tsx";
import { Data } from "./data.tsx";
import { Events } from "./events.tsx";
import { Header } from "./header.tsx";
import { Model, type LiveTrack } from "./model.ts";
import { Output } from "./output.tsx";
import { paintOf } from "./paint.ts";
import { Panel } from "./panel.tsx";
import { Slider } from "./slider.tsx";
import { Source, sourceOf } from "./source.tsx";
import { Steps } from "./steps.tsx";
import { Timeline } from "./timeline.tsx";
import "./execution.css";

const TABS = [
  { id: "timeline", label: "Timeline" },
  { id: "events", label: "Events" },
  { id: "data", label: "Data" },
  { id: "output", label: "Output" },
  { id: "steps", label: "Steps" },
  { id: "yaml", label: "Playbook" },
];

export default function Execution() {
  const { id = "" } = useParams<{ id: string }>();
  return <Page key={id} id={id} />;
}

function useHead(id: string) {
  const state = useLiveState();
  return useQuery({
    queryKey: ["head", id],
    queryFn: ({ signal }) => get<Head>(`executions/${encodeURIComponent(id)}/head`, {}, signal),
    placeholderData: keepPreviousData,
    refetchInterval: (query) => (query.state.data?.ended ? false : state === "open" ? 10_000 : 2000),
  });
}

/**
 * The execution whose playbook is shown: before the event at which a fork begins it is
 * its origin, if that had another text and may be seen.
 */
function useTextOwner(id: string, model: Model, head: Head | undefined): string {
  const from = head?.forked_from ?? null;
  const isBefore = useSyncExternalStore(model.subscribe, () => from !== null && model.at !== null && model.at <= from.seq);
  const origin = from?.execution_id ?? id;
  const first = useQuery({ ...sourceOf(origin), enabled: isBefore });
  const own = useQuery({ ...sourceOf(id), enabled: isBefore });
  const differs = first.data !== undefined && own.data !== undefined && first.data !== own.data;
  return isBefore && differs ? origin : id;
}

/** The graph belongs to the playbook: it is asked for once. */
function usePicture(id: string) {
  return useQuery({
    queryKey: ["picture", id],
    queryFn: ({ signal }) => get<Picture>(`executions/${encodeURIComponent(id)}/graph`, {}, signal),
    placeholderData: keepPreviousData,
    staleTime: Infinity,
    retry: false,
  });
}

function Page({ id }: { id: string }) {
  const [params, setParams] = useAddress();
  const head = useHead(id);
  const [model] = useState(() => new Model(id, Number(params.get("at")) || null));
  const textOf = useTextOwner(id, model, head.data);
  const picture = usePicture(textOf);
  useEffect(() => () => model.close(), [model]);
  useEffect(() => {
    if (head.data) model.setLast(head.data.last_seq);
  }, [head.data, model]);
  useFollow(id, model, head.data);
  if (head.data === undefined) {
    if (head.error) return <Refused error={head.error} again={() => void head.refetch()} />;
    return <div className="execution"><Loading rows={14} /></div>;
  }
  return <Loaded id={id} textOf={textOf} model={model} head={head.data} headError={head.error} picture={picture.data} pictureError={picture.error} params={params} setParams={setParams} />;
}

/** Changes of the execution as they are committed. */
function useFollow(id: string, model: Model, head: Head | undefined): void {
  const client = useQueryClient();
  const timer = useRef(0);
  const follows = head !== undefined && !hasEnded(head.line.status);
  useLive(follows ? `track:${id}` : null, (data, event) => {
    if (event === "reset") void model.renew();
    else model.take(data as LiveTrack);
    if (timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      void client.invalidateQueries({ queryKey: ["head", id] });
      void client.invalidateQueries({ queryKey: ["run-lines", id] });
    }, 500);
  }, () => model.known);
  useEffect(() => () => window.clearTimeout(timer.current), []);
}

type LoadedProps = {
  id: string; textOf: string; model: Model; head: Head; headError: unknown; picture: Picture | undefined; pictureError: unknown;
  params: URLSearchParams; setParams: (change: Record<string, string | null>, how?: "push" | "replace") => void;
};

function Loaded({ id, textOf, model, head, headError, picture, pictureError, params, setParams }: LoadedProps) {
  const isPhone = usePhone();
  const graph = useRef<GraphHandle>(null);
  const given = params.get("sel");
  // What failed is open at once, where there is room; "-" is a choice of nothing.
  const first = isPhone ? null : head.failure?.step ?? head.waits[0]?.step ?? null;
  const step = given === "-" ? null : given ?? first;
  const run = params.get("run") ?? (given === null ? head.failure?.run ?? null : null);
  const tab = params.get("tab") ?? (isPhone ? "steps" : "timeline");
  const [showsGraph, setShowsGraph] = useState(false);

  const select = useCallback((next: string | null, nextRun: string | null = null) => {
    setParams({ sel: next ?? "-", run: nextRun, panel: next === null ? null : params.get("panel") });
  }, [setParams, params]);
  const move = useCallback((at: number | null) => model.move(at), [model]);
  const openTab = useCallback((next: string, more: Record<string, string | null> = {}) => setParams({ tab: next, ...more }), [setParams]);
  const shared = useMemo<Shared>(() => ({ id, textOf, model, head, picture, step, run, select, openTab, move }), [id, textOf, model, head, picture, step, run, select, openTab, move]);

  useEffect(() => {
    if (!picture) return;
    const paint = () => graph.current?.paint(paintOf(model, picture, step));
    paint();
    return model.subscribe(paint);
  }, [model, picture, step, isPhone, showsGraph]);
  useCursorInAddress(model, setParams);
  const revealed = useRef<string | null>(null);
  useEffect(() => {
    if (!picture || !step || revealed.current === step) return;
    revealed.current = step;
    graph.current?.reveal(step);
  }, [step, picture]);
  usePaletteEntries(() => (picture?.nodes ?? []).map((node) => ({ id: `#${node.id}`, text: node.id, kind: "step", icon: "graph", run: () => { select(node.id); graph.current?.reveal(node.id, true); } })));

  const drawing = picture ? (
    <Graph
      picture={picture}
      handle={graph}
      onSelect={(next) => select(next)}
      failing={Object.values(head.steps).some((each) => each.failed > 0 || (each.loops?.failed ?? 0) > 0) ? () => [...model.looks()].filter(([, look]) => look.failed > 0 || look.loopFailed > 0).map(([name]) => name) : undefined}
      view={params.get("zoom") ?? undefined}
      onView={(zoom) => setParams({ zoom: zoom || null })}
    />
  ) : pictureError ? <Refused error={pictureError} /> : <Loading rows={6} />;

  return (
    <ExecutionContext value={shared}><ValueOwner value={id}>
      <div className={`execution${step ? " with-panel" : ""}`}>
        <Header graph={graph} />
        {headError != null && <Notice error={headError} about="This may be old." />}
        <Banner />
        <div className="execution-main">
          {!isPhone && <div className="execution-graph">{drawing}</div>}
          {isPhone && (
            <div className="phone-graph">
              <button type="button" className="button" aria-expanded={showsGraph} onClick={() => setShowsGraph(!showsGraph)}><Icon name="graph" />Graph</button>
              {showsGraph && <div className="execution-graph">{drawing}</div>}
            </div>
          )}
          <div className="execution-tabs">
            <Tabs name="Parts of the execution" tabs={TABS} chosen={tab} onChoose={(next) => openTab(next)} />
            <div className="execution-tab" role="tabpanel" aria-label={TABS.find((each) => each.id === tab)?.label}>
              <Boundary key={tab}>
                {tab === "timeline" && <Timeline />}
                {tab === "events" && <Events />}
                {tab === "data" && <Data />}
                {tab === "output" && <Output />}
                {tab === "steps" && <Steps />}
                {tab === "yaml" && <Source />}
              </Boundary>
            </div>
          </div>
        </div>
        {step && <Boundary key={step}><Panel /></Boundary>}
        <Slider />
      </div>
    </ValueOwner></ExecutionContext>
  );
}

/** The cursor is written into the address once it rests. */
function useCursorInAddress(model: Model, setParams: (change: Record<string, string | null>) => void): void {
  const written = useRef(model.at);
  const set = useRef(setParams);
  set.current = setParams;
  useEffect(() => {
    let timer = 0;
    const forget = model.subscribe(() => {
      if (model.at === written.current) return;
      window.clearTimeout(timer);
      timer = window.setTimeout(() => {
        written.current = model.at;
        set.current({ at: model.at === null ? null : String(model.at) });
      }, 250);
    });
    return () => {
      window.clearTimeout(timer);
      forget();
    };
  }, [model]);
  // "Back" and the palette change the address from outside.
  const address = new URLSearchParams(window.location.search).get("at");
  useEffect(() => {
    const wanted = Number(address) || null;
    if (wanted !== written.current && wanted !== model.at) {
      written.current = wanted;
      model.move(wanted);
    }
  }, [address, model]);
}
