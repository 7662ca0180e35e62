// State of a view that lives in its address, so that links and "back" keep it.

import { useCallback } from "react";
import { useSearchParams } from "wouter";

/** One parameter of the address; the default is not written. */
export function useParam(name: string, fallback = ""): [string, (value: string, how?: "push" | "replace") => void] {
  const [params, setParams] = useSearchParams();
  const value = params.get(name) ?? fallback;
  const set = useCallback(
    (next: string, how: "push" | "replace" = "replace") => {
      setParams((old) => {
        const changed = new URLSearchParams(old);
        if (next === fallback || next === "") changed.delete(name);
        else changed.set(name, next);
        return changed;
      }, { replace: how === "replace" });
    },
    [name, fallback, setParams],
  );
  return [value, set];
}

/** Several parameters at once. */
export function useAddress(): [URLSearchParams, (change: Record<string, string | null>, how?: "push" | "replace") => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (change: Record<string, string | null>, how: "push" | "replace" = "replace") => {
      setParams((old) => {
        const changed = new URLSearchParams(old);
        for (const [name, value] of Object.entries(change)) {
          if (value === null || value === "") changed.delete(name);
          else changed.set(name, value);
        }
        return changed;
      }, { replace: how === "replace" });
    },
    [setParams],
  );
  return [params, set];
}
