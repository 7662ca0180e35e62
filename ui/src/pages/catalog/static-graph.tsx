// The net of a playbook without an execution: a chosen step leads to its line.

import { useLayoutEffect, useRef, useState } from "react";

import { Graph, type GraphHandle } from "../../graph/graph.tsx";
import type { NodeLook, Picture } from "../../graph/picture.ts";

const IDLE: NodeLook = { status: "idle", pill: "", tokens: 0, share: null };

export function StaticGraph({ picture, onLine }: { picture: Picture; onLine?: (line: number) => void }) {
  const [selected, setSelected] = useState<string | null>(null);
  const handle = useRef<GraphHandle>(null);
  useLayoutEffect(() => {
    const looks = new Map(picture.nodes.map((node) => [node.id, IDLE]));
    handle.current?.paint({ looks, taken: new Set(), selected });
  }, [picture, selected]);
  const choose = (id: string | null) => {
    setSelected(id);
    const line = picture.nodes.find((node) => node.id === id)?.line;
    if (line !== undefined) onLine?.(line);
  };
  return <div className="static-graph"><Graph picture={picture} onSelect={choose} handle={handle} /></div>;
}
