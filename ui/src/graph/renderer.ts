// Draws a picture as plain SVG, outside of React. Paint changes only the attributes that
// differ; nodes that are out of view are not in the document.

import { visible } from "../pure/text.ts";
import { look } from "../pure/status.ts";
import type { Arc, Node, NodeLook, Paint, Picture } from "./picture.ts";

const NS = "http://www.w3.org/2000/svg";
const MANY = 150;
const SMALL = 0.35;
/** Below it the whole picture shows nothing: it opens at its entry instead. */
const TINY = 0.1;
export type View = { x: number; y: number; k: number };

/** What is only drawn where it can be read. */
type Details = { g: SVGGElement; pill: SVGGElement; pillText: SVGTextElement; pillBox: SVGRectElement; bar: SVGRectElement; token: SVGGElement; tokenText: SVGTextElement };
type Shape = { g: SVGGElement; glyph: SVGUseElement };
/** Shapes are made when they come into view for the first time. */
type NodeParts = { node: Node; shape: Shape | null; details: Details | null; look: NodeLook | null; selected: boolean; attached: boolean; detailed: boolean };
type ArcParts = { arc: Arc; shape: { g: SVGGElement } | null; details: SVGGElement | null; taken: boolean; attached: boolean; detailed: boolean; box: [number, number, number, number] };
type Events = { onSelect: (id: string | null) => void; onView: (view: View) => void };

function make<K extends keyof SVGElementTagNameMap>(name: K, attributes: Record<string, string | number>, parent?: Element): SVGElementTagNameMap[K] {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  parent?.append(element);
  return element;
}

function write(parent: Element, text: string, attributes: Record<string, string | number>): SVGTextElement {
  const element = make("text", attributes, parent);
  element.textContent = visible(text);
  return element;
}

export class Renderer {
  readonly svg: SVGSVGElement;
  readonly picture: Picture;
  view: View = { x: 0, y: 0, k: 1 };
  #world: SVGGElement;
  #arcLayer: SVGGElement;
  #nodeLayer: SVGGElement;
  #nodes = new Map<string, NodeParts>();
  #arcs: ArcParts[] = [];
  #events: Events;
  #drag: { x: number; y: number; view: View; moved: boolean } | null = null;
  #touches = new Map<number, PointerEvent>();
  #resize: ResizeObserver;
  #frame = 0;
  #isFit = true;

  constructor(host: HTMLElement, picture: Picture, events: Events) {
    this.picture = picture;
    this.#events = events;
    this.svg = make("svg", { class: "net", tabindex: 0, role: "application", "aria-label": "Graph of the playbook; arrow keys follow arcs, Enter selects" });
    this.#world = make("g", {}, this.svg);
    this.#arcLayer = make("g", {}, this.#world);
    this.#nodeLayer = make("g", {}, this.#world);
    for (const arc of picture.arcs) this.#arcs.push({ arc, shape: null, details: null, taken: false, attached: false, detailed: false, box: boxOf(arc) });
    for (const node of picture.nodes) this.#nodes.set(node.id, { node, shape: null, details: null, look: null, selected: false, attached: false, detailed: false });
    host.append(this.svg);
    this.#listen();
    this.#resize = new ResizeObserver(() => (this.#isFit ? this.#open() : this.#cull()));
    this.#resize.observe(this.svg);
    this.#open();
  }

  /** The whole picture, or its entry if nothing could be told apart in the whole. */
  #open(): void {
    this.fit();
    const { entry } = this.picture;
    const node = entry === null ? undefined : this.#nodes.get(entry)?.node;
    if (this.view.k >= TINY || !node) return;
    const { width } = this.svg.getBoundingClientRect();
    this.view = { k: 0.8, x: width / 2 - (node.x + node.w / 2) * 0.8, y: 40 - node.y * 0.8 };
  }

  destroy(): void {
    cancelAnimationFrame(this.#frame);
    this.#resize.disconnect();
    this.svg.remove();
  }

  paint({ looks, taken, selected }: Paint): void {
    for (const parts of this.#nodes.values()) paintNode(parts, looks.get(parts.node.id), parts.node.id === selected);
    for (const parts of this.#arcs) {
      const is = taken.has(parts.arc.id);
      if (is === parts.taken) continue;
      parts.taken = is;
      parts.shape?.g.classList.toggle("taken", is);
    }
  }

  /** The whole picture in view, never enlarged above its natural size. */
  fit(): void {
    const { width, height } = this.svg.getBoundingClientRect();
    const { width: w, height: h } = this.picture;
    if (!width || !height || !w || !h) return;
    const k = Math.min(1.15, (width - 24) / w, (height - 24) / h);
    this.#isFit = true;
    this.#move({ k, x: (width - w * k) / 2, y: Math.max(12, (height - h * k) / 2) });
  }

  /** Bring a step into view, in the middle unless it is well visible already. */
  reveal(id: string, always = false): void {
    const parts = this.#nodes.get(id);
    const { width, height } = this.svg.getBoundingClientRect();
    if (!parts || !width) return;
    const { x, y, w, h } = parts.node;
    const k = always ? Math.max(this.view.k, 0.8) : this.view.k;
    const left = x * k + this.view.x;
    const top = y * k + this.view.y;
    const isIn = left > 20 && top > 20 && left + w * k < width - 20 && top + h * k < height - 20;
    if (isIn && k === this.view.k) return;
    this.#isFit = false;
    this.#move({ k, x: width / 2 - (x + w / 2) * k, y: height / 2 - (y + h / 2) * k });
    this.#events.onView(this.view);
  }

  zoom(factor: number, cx?: number, cy?: number): void {
    const box = this.svg.getBoundingClientRect();
    const [px, py] = [cx ?? box.width / 2, cy ?? box.height / 2];
    const k = Math.min(3, Math.max(0.03, this.view.k * factor));
    const scale = k / this.view.k;
    this.#isFit = false;
    this.#move({ k, x: px - (px - this.view.x) * scale, y: py - (py - this.view.y) * scale });
    this.#events.onView(this.view);
  }

  setView(view: View): void {
    this.#isFit = false;
    this.#move(view);
  }

  #move(view: View): void {
    this.view = view;
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const { x, y, k } = this.view;
      this.#world.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
      this.svg.classList.toggle("small", k < SMALL);
      this.#cull();
    });
  }

  /** Take out of the document what cannot be seen; small pictures stay whole. */
  #cull(): void {
    const { width, height } = this.svg.getBoundingClientRect();
    const whole = this.#nodes.size <= MANY;
    const { x, y, k } = this.view;
    const [left, top] = [(-x - 100) / k, (-y - 100) / k];
    const [right, bottom] = [(width - x + 100) / k, (height - y + 100) / k];
    const sees = (ax: number, ay: number, bx: number, by: number) => whole || (ax < right && bx > left && ay < bottom && by > top);
    const isLarge = k >= SMALL;
    for (const parts of this.#nodes.values()) {
      const { node } = parts;
      const isSeen = sees(node.x, node.y, node.x + node.w, node.y + node.h);
      attach(parts, this.#nodeLayer, isSeen, () => drawNode(parts));
      if (isSeen) detailNode(parts, isLarge);
    }
    for (const parts of this.#arcs) {
      const isSeen = sees(...parts.box);
      attach(parts, this.#arcLayer, isSeen, () => drawArc(parts));
      if (isSeen) detailArc(parts, isLarge);
    }
  }

  #listen(): void {
    const { svg } = this;
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey || Math.abs(event.deltaY) > Math.abs(event.deltaX)) {
        this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
      } else {
        this.#isFit = false;
        this.#move({ ...this.view, x: this.view.x - event.deltaX });
      }
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.#touches.set(event.pointerId, event);
      this.#drag = { x: event.clientX, y: event.clientY, view: this.view, moved: false };
    });
    svg.addEventListener("pointermove", (event) => this.#pointerMove(event));
    const up = (event: PointerEvent) => {
      this.#touches.delete(event.pointerId);
      const drag = this.#drag;
      this.#drag = null;
      if (!drag || event.type === "pointercancel") return;
      if (drag.moved) this.#events.onView(this.view);
      else this.#events.onSelect(idOf(event.target));
    };
    svg.addEventListener("pointerup", up);
    svg.addEventListener("pointercancel", up);
    svg.addEventListener("keydown", (event) => this.#key(event));
  }

  #pointerMove(event: PointerEvent): void {
    const drag = this.#drag;
    if (!drag) return;
    const before = this.#touches.get(event.pointerId);
    this.#touches.set(event.pointerId, event);
    if (this.#touches.size === 2 && before) {
      const [a, b] = [...this.#touches.values()] as [PointerEvent, PointerEvent];
      const other = a.pointerId === event.pointerId ? b : a;
      const length = (one: PointerEvent) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      const box = this.svg.getBoundingClientRect();
      drag.moved = true;
      this.zoom(length(event) / Math.max(1, length(before)), (event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top);
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!drag.moved) this.svg.setPointerCapture(event.pointerId);
    drag.moved = true;
    this.#isFit = false;
    this.#move({ ...drag.view, x: drag.view.x + dx, y: drag.view.y + dy });
  }

  /** Arrow keys walk: down and up along arcs, left and right to neighbours. */
  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const selected = [...this.#nodes.values()].find((parts) => parts.selected)?.node;
    const next = selected ? this.#neighbour(selected, event.key) : this.picture.entry;
    if (!["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    if (!next) return;
    this.#events.onSelect(next);
    this.reveal(next);
  }

  #neighbour(node: Node, key: string): string | null {
    const { arcs } = this.picture;
    if (key === "ArrowDown") return arcs.find((arc) => arc.from === node.id && arc.to !== node.id)?.to ?? null;
    if (key === "ArrowUp") return arcs.find((arc) => arc.to === node.id && arc.from !== node.id)?.from ?? null;
    const side = key === "ArrowRight" ? 1 : -1;
    let best: Node | null = null;
    for (const { node: other } of this.#nodes.values()) {
      const dx = (other.x + other.w / 2 - node.x - node.w / 2) * side;
      if (dx <= 0 || Math.abs(other.y + other.h / 2 - node.y - node.h / 2) > Math.max(node.h, other.h)) continue;
      if (!best || dx < (best.x + best.w / 2 - node.x - node.w / 2) * side) best = other;
    }
    return best?.id ?? null;
  }
}

function idOf(target: EventTarget | null): string | null {
  return target instanceof Element ? target.closest("[data-step]")?.getAttribute("data-step") ?? null : null;
}

function attach<S extends { g: SVGGElement }>(parts: { attached: boolean; shape: S | null }, layer: SVGGElement, is: boolean, draw: () => S): void {
  if (is === parts.attached) return;
  parts.attached = is;
  if (is) layer.append((parts.shape ??= draw()).g);
  else parts.shape?.g.remove();
}

const LINE = 16;

function drawNode({ node, look: known, selected }: NodeParts): Shape {
  const g = make("g", { class: `node kind-${node.kind} state-idle`, "data-step": node.id, transform: `translate(${node.x} ${node.y})` });
  make("rect", { class: "frame", width: node.w, height: node.h, rx: radiusOf(node) }, g);
  const glyph = make("use", { class: "glyph-mark", href: "#glyph-idle", x: node.w - 12, y: -7, width: 18, height: 18 }, g);
  const shape = { g, glyph };
  if (known) showStatus(shape, "idle", known.status);
  g.classList.toggle("selected", selected);
  return shape;
}

function radiusOf(node: Node): number {
  return Math.min(node.kind === "route" ? node.h / 2 : 9, node.h / 2);
}

function detailNode(parts: NodeParts, is: boolean): void {
  if (is === parts.detailed) return;
  parts.detailed = is;
  if (!is) return parts.details?.g.remove();
  const details = (parts.details ??= drawDetails(parts.node));
  if (parts.look) paintDetails(details, parts.node, parts.look);
  parts.shape?.glyph.before(details.g);
}

function drawDetails(node: Node): Details {
  const g = make("g", {});
  const tip = make("title", {}, g);
  tip.textContent = visible([node.label, node.desc].filter(Boolean).join("\n"));
  if (node.kind === "end") make("rect", { class: "inner", x: 3, y: 3, width: node.w - 6, height: node.h - 6, rx: radiusOf(node) - 3 }, g);
  const lines = 1 + node.badges.length * 1.25 + node.tasks.length;
  let y = (node.h - lines * LINE) / 2 + 12;
  write(g, node.label, { class: "name", x: node.w / 2, y });
  for (const badge of node.badges) {
    y += LINE * 1.25;
    write(g, badge, { class: "note", x: node.w / 2, y });
  }
  for (const [label, kind] of node.tasks) {
    y += LINE;
    const text = write(g, label, { class: "task", x: node.w / 2, y });
    const tail = make("tspan", { class: "kind", dx: label ? 5 : 0 }, text);
    tail.textContent = visible(kind);
  }
  const bar = make("rect", { class: "bar", x: 6, y: node.h - 5, width: 0, height: 2.5, rx: 1.25 }, g);
  const pill = make("g", { class: "pill", visibility: "hidden" }, g);
  const pillBox = make("rect", { y: node.h - 9, height: 18, rx: 9 }, pill);
  const pillText = write(pill, "", { x: node.w / 2, y: node.h + 4 });
  const token = make("g", { class: "token", visibility: "hidden" }, g);
  make("circle", { cx: node.w / 2, cy: -2, r: 8 }, token);
  const tokenText = write(token, "", { x: node.w / 2, y: 2 });
  return { g, pill, pillText, pillBox, bar, token, tokenText };
}

function paintNode(parts: NodeParts, next: NodeLook | undefined, selected: boolean): void {
  const { shape, node, look: old } = parts;
  if (selected !== parts.selected) {
    parts.selected = selected;
    shape?.g.classList.toggle("selected", selected);
  }
  if (!next || (old && old.status === next.status && old.pill === next.pill && old.tokens === next.tokens && old.share === next.share)) return;
  if (shape && old?.status !== next.status) showStatus(shape, old?.status ?? "idle", next.status);
  parts.look = next;
  if (parts.details && parts.detailed) paintDetails(parts.details, node, next);
}

function showStatus({ g, glyph }: Shape, old: string, next: string): void {
  const state = look(next);
  g.classList.remove(`state-${look(old)}`);
  g.classList.add(`state-${state}`);
  glyph.setAttribute("href", `#glyph-${state}`);
  glyph.setAttribute("visibility", state === "idle" ? "hidden" : "visible");
}

function paintDetails(details: Details, node: Node, { pill, tokens, share }: NodeLook): void {
  if (details.pillText.textContent !== pill) {
    const width = pill.length * 6.6 + 14;
    details.pill.setAttribute("visibility", pill ? "visible" : "hidden");
    details.pillText.textContent = pill;
    details.pillBox.setAttribute("width", String(width));
    details.pillBox.setAttribute("x", String((node.w - width) / 2));
  }
  const number = tokens > 99 ? "99+" : String(tokens);
  if (details.tokenText.textContent !== number) {
    details.token.setAttribute("visibility", tokens > 0 ? "visible" : "hidden");
    details.tokenText.textContent = number;
  }
  const width = String(Math.max(0, (node.w - 12) * (share ?? 0)));
  if (details.bar.getAttribute("width") !== width) details.bar.setAttribute("width", width);
}

function drawArc({ arc, taken }: ArcParts): { g: SVGGElement } {
  const g = make("g", { class: `arc ${arc.look}` });
  const line = make("path", { d: arc.path }, g);
  if (arc.head) line.setAttribute("marker-end", "url(#head)");
  g.classList.toggle("taken", taken);
  return { g };
}

function detailArc(parts: ArcParts, is: boolean): void {
  if (is === parts.detailed) return;
  parts.detailed = is;
  if (is) parts.shape?.g.append((parts.details ??= drawArcDetails(parts.arc)));
  else parts.details?.remove();
}

function drawArcDetails(arc: Arc): SVGGElement {
  const g = make("g", {});
  make("title", {}, g).textContent = visible(`${arc.from} → ${arc.to}${arc.when ? ` when ${arc.when}` : arc.else ? " otherwise" : ""}`);
  if (!arc.label) return g;
  const { x, y, w, h, text } = arc.label;
  make("rect", { class: "label", x, y, width: w, height: h, rx: h / 2 }, g);
  write(g, text, { class: "guard", x: x + w / 2, y: y + h / 2 + 4 });
  return g;
}

/** Box around the numbers of a path: commands M, L, C, V and H in absolute coordinates. */
function boxOf(arc: Arc): [number, number, number, number] {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  let [x, y] = [0, 0];
  const see = (ax: number, ay: number) => {
    [x, y] = [ax, ay];
    [left, top, right, bottom] = [Math.min(left, ax), Math.min(top, ay), Math.max(right, ax), Math.max(bottom, ay)];
  };
  for (const [, command, numbers] of arc.path.matchAll(/([A-Z])([^A-Z]*)/g)) {
    const values = (numbers!.match(/-?\d+(\.\d+)?/g) ?? []).map(Number);
    if (command === "V") for (const value of values) see(x, value);
    else if (command === "H") for (const value of values) see(value, y);
    else for (let at = 0; at + 1 < values.length; at += 2) see(values[at]!, values[at + 1]!);
  }
  if (arc.label) {
    see(arc.label.x, arc.label.y);
    see(arc.label.x + arc.label.w, arc.label.y + arc.label.h);
  }
  return [left, top, right, bottom];
}
