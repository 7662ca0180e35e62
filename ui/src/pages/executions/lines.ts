// Lines of the list: pages by cursor, changed in place by the stream; new ones wait.

import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import { useLive, useLiveState } from "../../api/live.ts";
import type { ExecutionLine, ExecutionList, Wait } from "../../api/types.ts";
import { serverNow } from "../../parts/time.tsx";
import { fits, queryOf, type Filters } from "../../pure/filters.ts";

const PAGE = 100;
/** Changed lines that are kept beside the pages; above it the list is asked for again. */
const MOST_CHANGED = 2000;
const POLL_MS = 5000;

export function useLines(filters: Filters) {
  const key = JSON.stringify(filters);
  const [changed, setChanged] = useState<Map<string, ExecutionLine>>(new Map());
  const [arrived, setArrived] = useState<Set<string>>(new Set());
  const state = useLiveState();
  const query = useInfiniteQuery({
    queryKey: ["executions", key],
    queryFn: ({ pageParam, signal }) =>
      get<ExecutionList>("executions", { ...queryOf(filters, serverNow()), limit: PAGE, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });
  // A stream may tell of lines before the first page is here: what is known is decided
  // when it is shown.
  const known = useMemo(() => {
    const ids = new Set<string>();
    for (const page of query.data?.pages ?? []) for (const line of page.executions) ids.add(line.execution_id);
    return ids;
  }, [query.data]);

  const knownNow = useRef(known);
  knownNow.current = known;
  const take = useCallback((lines: ExecutionLine[]) => {
    const now = serverNow();
    setChanged((old) => {
      const next = new Map(old.size > MOST_CHANGED ? [] : old);
      for (const line of lines) next.set(line.execution_id, line);
      return next;
    });
    const fresh = lines.filter((line) => !knownNow.current.has(line.execution_id) && fits(filters, line, now));
    if (fresh.length) setArrived((old) => new Set([...old, ...fresh.map((line) => line.execution_id)]));
  }, [key]);

  const { refetch } = query;
  const show = useCallback(async () => {
    setArrived(new Set());
    setChanged(new Map());
    await refetch();
  }, [refetch]);

  useEffect(() => {
    setArrived(new Set());
    setChanged(new Map());
  }, [key]);
  const ask = useCallback(() => {
    get<ExecutionList>("executions", { ...queryOf(filters, serverNow()), limit: PAGE }).then(
      (page) => take(page.executions),
      () => undefined,
    );
  }, [key, take]);
  useLive("executions", (data, event) => {
    // The first stream begins after the rows came: they stay where they are.
    if (event === "reset" && (data as { isFirst?: boolean }).isFirst) ask();
    else if (event === "reset") void refetch();
    else take((data as { lines: ExecutionLine[] }).lines);
  });
  useEffect(() => {
    // A server that sends no stream is asked instead.
    if (state === "open" || !query.data) return;
    const timer = window.setInterval(() => {
      if (!document.hidden) ask();
    }, POLL_MS);
    return () => window.clearInterval(timer);
  }, [state, query.data === undefined, ask]);

  const lines = useMemo(
    () => (query.data?.pages ?? []).flatMap((page) => page.executions).map((line) => changed.get(line.execution_id) ?? line),
    [query.data, changed],
  );
  const fresh = useMemo(() => [...arrived].filter((id) => !known.has(id)).length, [arrived, known]);
  return { query, lines, arrived: query.data ? fresh : 0, show };
}

/** What the waiting executions of the list wait for, by their ids. */
export function useWaits(filters: Filters, lines: ExecutionLine[]): Map<string, Wait[]> {
  const waiting = lines.filter((line) => line.status === "waiting").length;
  const { data } = useQuery({
    queryKey: ["executions", "waits", JSON.stringify(filters), waiting],
    queryFn: ({ signal }) => get<ExecutionList>("executions", { ...queryOf({ ...filters, status: [] }, serverNow()), waiting: true, limit: PAGE }, signal),
    enabled: waiting > 0,
    staleTime: 10_000,
    placeholderData: keepPreviousData,
  });
  return useMemo(() => new Map((data?.executions ?? []).map((line) => [line.execution_id, line.waits ?? []])), [data]);
}

export type Counts = { by_status: Record<string, number>; hours: { at: string; counts: Record<string, number> }[]; scanned: number; complete: boolean };

export function useCounts(filters: Filters, changes: unknown) {
  const key = JSON.stringify({ ...filters, status: [] });
  const query = useQuery({
    queryKey: ["executions", "counts", key],
    queryFn: ({ signal }) => get<Counts>("executions/counts", queryOf({ ...filters, status: [] }, serverNow()), signal),
    staleTime: 5000,
    refetchInterval: 30_000,
    placeholderData: keepPreviousData,
  });
  const { refetch } = query;
  useEffect(() => {
    const timer = window.setTimeout(() => void refetch(), 1500);
    return () => window.clearTimeout(timer);
  }, [changes, refetch]);
  return query.data;
}
