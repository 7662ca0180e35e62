// Pages of a list that the server gives by cursor, one after the other.

import { useInfiniteQuery } from "@tanstack/react-query";
import { get, type Query } from "../api/client.ts";

/** Empty pages with a cursor are passed over, up to this many at once. */
const MAX_EMPTY = 20;

type Page<Row> = { rows: Row[]; cursor: string | null; body: Record<string, unknown> };

export function usePages<Row>(path: string, query: Query, member: string, enabled = true) {
  const answer = useInfiniteQuery({
    queryKey: [path, query],
    enabled,
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) => readPage<Row>(path, query, member, pageParam, signal),
    getNextPageParam: (page: Page<Row>) => page.cursor,
  });
  const rows = answer.data?.pages.flatMap((page) => page.rows) ?? [];
  const more = () => {
    if (answer.hasNextPage && !answer.isFetchingNextPage) void answer.fetchNextPage();
  };
  return { answer, rows, more };
}

async function readPage<Row>(
  path: string,
  query: Query,
  member: string,
  from: string,
  signal: AbortSignal,
): Promise<Page<Row>> {
  let cursor: string | null = from;
  let body: Record<string, unknown> = {};
  for (let tries = 0; tries < MAX_EMPTY; tries += 1) {
    body = await get(path, { ...query, cursor }, signal);
    const rows = (body[member] ?? []) as Row[];
    const next = body["cursor"];
    cursor = typeof next === "string" && next !== "" ? next : null;
    if (rows.length > 0 || cursor === null) return { rows, cursor, body };
  }
  return { rows: [], cursor, body };
}
