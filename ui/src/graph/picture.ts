// The drawing of a net as the server lays it out.

export type Node = {
  id: string; kind: "start" | "route" | "end" | "step"; label: string; desc: string; kinds: string[];
  tasks: [string, string][]; badges: string[]; loop: boolean; join: boolean; gate: boolean;
  x: number; y: number; w: number; h: number; line: number;
};
export type Arc = {
  id: string; from: string; to: string; number: number; path: string; head: boolean;
  label: { text: string; x: number; y: number; w: number; h: number } | null;
  when: string | null; line: number; look: "plain" | "guarded" | "failure" | "never"; else: boolean;
};
export type Picture = { digest: string; width: number; height: number; entry: string | null; nodes: Node[]; arcs: Arc[] };

/** What a node shows besides its text. */
export type NodeLook = { status: string; pill: string; tokens: number; share: number | null };
export type Paint = { looks: Map<string, NodeLook>; taken: Set<string>; selected: string | null };
