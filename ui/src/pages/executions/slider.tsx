// The position in the log: a slider with marks, steps by event and by boundary, play.

import { useEffect, useMemo, useRef, useState } from "react";
import { useSettings } from "../../app/settings.ts";
import { useKeys } from "../../app/keys.ts";
import { Icon } from "../../parts/icons.tsx";
import { count } from "../../pure/text.ts";
import { clockTime } from "../../pure/time.ts";
import { placesOf } from "../../pure/track.ts";
import { useExecution, useModel } from "./context.tsx";
import type { Model } from "./model.ts";

const BOUNDARIES = new Set(["begin", "done", "fail", "stop", "wait", "wake", "skip"]);
const WIDTH = 1000;
const PLAY_MS = 250;

export function Slider() {
  const model = useModel();
  const { step, head, move } = useExecution();
  const { zone } = useSettings();
  const [plays, setPlays] = useState(false);
  const { last, seq } = model;
  const jump = (by: 1 | -1, wanted: (op: string, step: string | null) => boolean) => {
    if (!model.page) return;
    const found = model.page.neighbour(model.seq, by, wanted);
    move(found ?? (by > 0 ? null : 1));
  };
  const stepBy = (by: number) => move(Math.max(1, model.seq + by));
  const boundary = (op: string) => BOUNDARIES.has(op);
  const ofStep = (_: string, name: string | null) => name === step;
  useKeys([
    { keys: "ArrowLeft", does: "One event back", run: () => stepBy(-1) },
    { keys: "ArrowRight", does: "One event on", run: () => stepBy(1) },
    { keys: "Shift+ArrowLeft", does: "To the step boundary before", run: () => jump(-1, boundary) },
    { keys: "Shift+ArrowRight", does: "To the next step boundary", run: () => jump(1, boundary) },
    { keys: "Alt+ArrowLeft", does: "To the event before of the selected step", run: () => jump(-1, ofStep) },
    { keys: "Alt+ArrowRight", does: "To the next event of the selected step", run: () => jump(1, ofStep) },
    { keys: "Home", does: "To the first event", run: () => move(1) },
    { keys: "End", does: "To the end, and follow", run: () => move(null) },
    { keys: "Space", does: "Play", run: () => setPlays((old) => !old) },
  ]);
  useEffect(() => {
    if (!plays) return;
    if (model.follows) model.move(1);
    const timer = window.setInterval(() => {
      const next = model.page?.neighbour(model.seq, 1, boundary);
      model.move(next ?? null);
      if (model.follows) setPlays(false);
    }, PLAY_MS);
    return () => window.clearInterval(timer);
  }, [plays, model]);

  const page = model.page;
  const time = page ? clockTime(page.t0 + page.msAt(seq), zone) : "";
  return (
    <div className="slider" role="region" aria-label="Time travel">
      <Button name="First event" icon="first" onClick={() => move(1)} />
      <Button name="One event back" icon="left" onClick={() => stepBy(-1)} />
      <Track model={model} last={last} seq={seq} onMove={move} />
      <Button name="One event on" icon="right" onClick={() => stepBy(1)} />
      <Button name="To the end" icon="last" onClick={() => move(null)} />
      <button type="button" className="button tight quiet play" aria-pressed={plays} onClick={() => setPlays(!plays)}><Icon name={plays ? "pause" : "play"} />{plays ? "Stop" : "Play"}</button>
      <span className="position">event {count(seq)}/{count(last)}<span className="soft mono"> {time}</span></span>
      {head.ended
        ? <span className="tag">{model.follows ? "end" : "past"}</span>
        : <button type="button" className="button tight live" aria-pressed={model.follows} title="Follow the end" onClick={() => move(null)}>LIVE</button>}
    </div>
  );
}

function Button({ name, icon, onClick }: { name: string; icon: string; onClick: () => void }) {
  return <button type="button" className="button quiet icon tight" aria-label={name} title={name} onClick={onClick}><Icon name={icon} /></button>;
}

function Track({ model, last, seq, onMove }: { model: Model; last: number; seq: number; onMove: (at: number | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const held = useRef(false);
  const at = (clientX: number) => {
    const { left, width } = box.current!.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (clientX - left) / width));
    return 1 + Math.round(share * (last - 1));
  };
  const share = last > 1 ? (seq - 1) / (last - 1) : 1;
  return (
    <div
      ref={box}
      className="track"
      role="slider"
      onPointerEnter={() => model.readAhead()}
      tabIndex={0}
      aria-label="Event that is shown"
      aria-valuemin={1}
      aria-valuemax={last}
      aria-valuenow={seq}
      aria-valuetext={`event ${seq} of ${last}`}
      onPointerDown={(event) => {
        held.current = true;
        event.currentTarget.setPointerCapture(event.pointerId);
        onMove(at(event.clientX));
      }}
      onPointerMove={(event) => { if (held.current) onMove(at(event.clientX)); }}
      onPointerUp={() => { held.current = false; }}
      onPointerCancel={() => { held.current = false; }}
    >
      <Strip model={model} last={last} />
      <div className="groove"><div className="past" style={{ width: `${share * 100}%` }} /></div>
      <div className="knob" style={{ left: `${share * 100}%` }} />
    </div>
  );
}

/** Marks of errors, ctx writes, signals and forks, of the pages that are here. */
function Strip({ model, last }: { model: Model; last: number }) {
  const { known } = model;
  const marks = useMemo(() => [...placesOf(model.pages(), last, WIDTH)], [model, known, last, model.pages().length]);
  return (
    <svg className="strip" viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
      {marks.map(([kind, places]) => <path key={kind} className={`mark-${kind}`} d={places.map((x) => (kind === "failed" ? `M${x - 1} 0h2v10h-2z` : `M${x - 1} 3h2v7h-2z`)).join("")} />)}
    </svg>
  );
}
