// The validator's answer to a text, asked 300 ms after the last key.

import { useQuery, keepPreviousData } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { call } from "../../api/client.ts";
import { asProblem } from "../../api/problem.ts";
import type { ValidateAnswer } from "./types.ts";

const REST_MS = 300;

export type Checked = { answer: ValidateAnswer | undefined; error: unknown; isBehind: boolean };

export function useValidation(text: string): Checked {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = window.setTimeout(() => setRested(text), REST_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  const query = useQuery({
    queryKey: ["validate", rested],
    gcTime: 10_000,
    staleTime: Infinity,
    placeholderData: keepPreviousData,
    retry: (count, error) => count < 5 && asProblem(error).passes,
    queryFn: ({ signal }) =>
      call<ValidateAnswer>("POST", "validate", {
        body: { playbook: rested, verify: true, graph: true, form: true },
        signal,
      }),
  });
  return { answer: query.data, error: query.error, isBehind: rested !== text || query.isPlaceholderData };
}
