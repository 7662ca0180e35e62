// A graph with its tools: fit, zoom, find, failing. The renderer draws it.

import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState, type ReactNode, type Ref } from "react";
import { Icon } from "../parts/icons.tsx";
import { SHAPES } from "../parts/status.tsx";
import { match } from "../pure/match.ts";
import { LOOKS } from "../pure/status.ts";
import type { Paint, Picture } from "./picture.ts";
import { Renderer, type View } from "./renderer.ts";
import "./graph.css";

export type GraphHandle = { paint: (paint: Paint) => void; reveal: (id: string, always?: boolean) => void; focus: () => void; find: () => void };
type Props = {
  picture: Picture;
  onSelect: (id: string | null) => void;
  handle?: Ref<GraphHandle>;
  /** Steps that failed, for the tool that walks them. */
  failing?: () => string[];
  view?: string;
  onView?: (view: string) => void;
  children?: ReactNode;
};

export function readView(text: string | undefined): View | null {
  const [k, x, y] = (text ?? "").split(",").map(Number);
  return k && k >= 0.03 && k <= 3 && Number.isFinite(x) && Number.isFinite(y) ? { k, x: x!, y: y! } : null;
}

export function Graph({ picture, onSelect, handle, failing, view, onView, children }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const renderer = useRef<Renderer | null>(null);
  const events = useRef({ onSelect, onView });
  const paint = useRef<Paint | null>(null);
  const [finding, setFinding] = useState(false);
  const turn = useRef(0);
  events.current = { onSelect, onView };
  useLayoutEffect(() => {
    let timer = 0;
    const made = new Renderer(host.current!, picture, {
      onSelect: (id) => events.current.onSelect(id),
      onView: ({ k, x, y }) => {
        window.clearTimeout(timer);
        timer = window.setTimeout(() => events.current.onView?.(`${k.toFixed(3)},${Math.round(x)},${Math.round(y)}`), 300);
      },
    });
    renderer.current = made;
    const wanted = readView(view);
    if (wanted) made.setView(wanted);
    if (paint.current) made.paint(paint.current);
    return () => {
      window.clearTimeout(timer);
      made.destroy();
    };
  }, [picture]);
  useImperativeHandle(handle, () => ({
    paint: (next) => {
      paint.current = next;
      renderer.current?.paint(next);
    },
    reveal: (id, always) => renderer.current?.reveal(id, always),
    focus: () => renderer.current?.svg.focus(),
    find: () => setFinding(true),
  }), []);
  const nextFailing = () => {
    const list = failing?.() ?? [];
    const id = list[turn.current++ % Math.max(1, list.length)];
    if (!id) return;
    onSelect(id);
    renderer.current?.reveal(id, true);
  };
  return (
    <div className="graph">
      <div ref={host} className="graph-host" />
      <Glyphs />
      <div className="graph-tools" role="toolbar" aria-label="Graph">
        {children}
        {finding ? (
          <Find picture={picture} onClose={() => setFinding(false)} onFound={(id) => { onSelect(id); renderer.current?.reveal(id, true); }} />
        ) : <Tool name="Find a step" icon="search" onClick={() => setFinding(true)} />}
        {failing && <button type="button" className="button tight" onClick={nextFailing}>failing</button>}
        <Tool name="Smaller" icon="minus" onClick={() => renderer.current?.zoom(1 / 1.3)} />
        <Tool name="Larger" icon="plus" onClick={() => renderer.current?.zoom(1.3)} />
        <Tool name="Fit into view" icon="fit" onClick={() => { renderer.current?.fit(); onView?.(""); }} />
      </div>
    </div>
  );
}

function Tool({ name, icon, onClick }: { name: string; icon: string; onClick: () => void }) {
  return <button type="button" className="button icon tight" aria-label={name} title={name} onClick={onClick}><Icon name={icon} /></button>;
}

function Find({ picture, onFound, onClose }: { picture: Picture; onFound: (id: string) => void; onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const found = text ? picture.nodes.map((node) => ({ id: node.id, score: match(text, node.id) })).filter((each) => each.score > 0).sort((a, b) => b.score - a.score) : [];
  useEffect(() => {
    const best = found[at % Math.max(1, found.length)];
    if (best) onFound(best.id);
  }, [text, at]);
  return (
    <span className="row graph-find">
      <input
        autoFocus
        type="search"
        className="input"
        aria-label="Find a step"
        placeholder="Find a step"
        value={text}
        onChange={(event) => { setText(event.target.value); setAt(0); }}
        onKeyDown={(event) => {
          if (event.key === "Enter") setAt(at + (event.shiftKey ? -1 + found.length : 1));
          if (event.key === "Escape") onClose();
        }}
      />
      <span className="small soft number">{text && `${found.length ? (at % found.length) + 1 : 0}/${found.length}`}</span>
      <Tool name="Close" icon="close" onClick={onClose} />
    </span>
  );
}

/** Shapes that the renderer uses by name. */
function Glyphs() {
  return (
    <svg width="0" height="0" className="glyph-store" aria-hidden="true">
      <defs>
        {LOOKS.map((look) => (
          <symbol key={look} id={`glyph-${look}`} viewBox="0 0 16 16" overflow="visible">
            <circle cx="8" cy="8" r="8.6" className="glyph-ground" />
            {SHAPES[look]}
          </symbol>
        ))}
        <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
          <path d="M.5 .8 7.5 4 .5 7.2 2.2 4z" fill="context-stroke" />
        </marker>
      </defs>
    </svg>
  );
}
