// What the parts of an execution's page share.

import { createContext, useContext, useSyncExternalStore } from "react";
import type { Head } from "../../api/types.ts";
import type { Picture } from "../../graph/picture.ts";
import type { Model } from "./model.ts";

export type Shared = {
  id: string;
  /** The execution whose playbook is drawn: of a fork before its first own event, its origin. */
  textOf: string;
  model: Model;
  head: Head;
  picture: Picture | undefined;
  step: string | null;
  run: string | null;
  select: (step: string | null, run?: string | null) => void;
  openTab: (tab: string, more?: Record<string, string | null>) => void;
  /** Move the cursor; null follows the end. */
  move: (at: number | null) => void;
};

export const ExecutionContext = createContext<Shared | null>(null);

export function useExecution(): Shared {
  const shared = useContext(ExecutionContext);
  if (!shared) throw new Error("outside of an execution");
  return shared;
}

/** Draw again at each change of the model; in one frame with all other parts. */
export function useModel(): Model {
  const { model } = useExecution();
  useSyncExternalStore(model.subscribe, model.getVersion);
  return model;
}
