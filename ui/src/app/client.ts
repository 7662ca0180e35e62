// Cache of answers: asked again when the tab comes back, never more than twice on errors.

import { QueryClient } from "@tanstack/react-query";
import { Problem } from "../api/problem.ts";

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
