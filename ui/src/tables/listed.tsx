// A list that was asked for: its rows, or what is shown instead of them.

import type { ReactNode } from "react";

import { Loaded } from "../parts/states.tsx";

type Asked = { data: unknown; error: unknown; isPending: boolean; refetch: () => unknown };

export function Listed({ asked, isEmpty, empty, children }: { asked: Asked; isEmpty: boolean; empty: ReactNode; children: ReactNode }) {
  return <Loaded query={asked}>{() => (isEmpty ? empty : children)}</Loaded>;
}
