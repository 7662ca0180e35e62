// Cache of answers: asked again when the tab comes back, never more than twice on errors.

import { QueryClient } from "@tanstack/react-query";
import { Problem } from "../api/problem.ts";

const AWAY_MS = 3000;

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      gcTime: 5 * 60_000,
      retry: (failures, error) => failures < 2 && error instanceof Problem && error.passes,
      retryDelay: (attempt) => 1000 * 2 ** attempt,
    },
    mutations: { retry: false },
  },
});

/** What a server did not answer because it was away is asked again until it is back. */
window.setInterval(() => {
  if (document.hidden) return;
  void client.refetchQueries({
    type: "active",
    predicate: ({ state }) => state.status === "error" && state.fetchStatus === "idle" && state.error instanceof Problem && state.error.isAway,
  });
}, AWAY_MS);
