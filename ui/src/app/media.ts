// Whether a media query holds now.

import { useSyncExternalStore } from "react";

const lists = new Map<string, MediaQueryList>();

function listOf(query: string): MediaQueryList {
  const list = lists.get(query) ?? window.matchMedia(query);
  lists.set(query, list);
  return list;
}

export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const list = listOf(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    () => listOf(query).matches,
  );
}

export const usePhone = (): boolean => useMedia("(max-width: 720px)");
