// One order at a time: a second click waits for the answer of the first.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { call } from "../api/client.ts";

export type Order = { method: "POST" | "PUT" | "DELETE"; path: string; body?: unknown };

/** Send an order; `touched` are the lists that are read again after it. */
export function useSend<Answer>(touched: readonly string[], onDone?: (answer: Answer) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ method, path, body }: Order) => call<Answer>(method, path, { body }),
    onSuccess: (answer) => onDone?.(answer),
    onSettled: () => {
      for (const path of touched) void client.invalidateQueries({ queryKey: [path] });
    },
  });
}
