// A YAML editor in a shadow root, where its style sheets are allowed by the content policy.

import { closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, Compartment, EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers,
} from "@codemirror/view";
import { useEffect, useImperativeHandle, useRef, useState, type Ref } from "react";

import type { Schema } from "../forms/fields.ts";
import { assistance, marksOf } from "./assistance.ts";
import { offsetOf, type Diagnostic } from "./positions.ts";
import { LOOK } from "./theme.ts";
import { Told } from "./told.ts";

export type EditorHandle = {
  /** Put the cursor at a line and column, and show it. */
  goTo: (line: number, column: number) => void;
  focus: () => void;
};

type Props = {
  text: string;
  label: string;
  onChange?: (text: string) => void;
  diagnostics?: readonly Diagnostic[];
  schema?: Schema | null;
  /** The text is compared with this one, and cannot be changed. */
  compareWith?: string;
  language?: "yaml" | "text";
  handle?: Ref<EditorHandle>;
};

const NONE: readonly Diagnostic[] = [];
/** Marks a text that the page has given: it is not told back. */
const Given = Annotation.define<boolean>();

export default function CodeEditor(props: Props) {
  const { text, diagnostics = NONE, compareWith } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [told] = useState(() => new Told());

  useEffect(() => {
    const box = host.current;
    if (box === null) return;
    const root = box.shadowRoot ?? box.attachShadow({ mode: "open" });
    const tell = (now: string) => {
      told.tell(now);
      latest.current.onChange?.(now);
    };
    const made = new EditorView({ state: stateOf(latest.current, () => latest.current, tell), parent: root, root });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, [compareWith]);

  useEffect(() => {
    const now = view.current;
    if (told.takes(text) || now === null || now.state.doc.toString() === text) return;
    told.forget();
    now.dispatch({ changes: { from: 0, to: now.state.doc.length, insert: text }, annotations: Given.of(true) });
  }, [text]);

  useEffect(() => {
    const now = view.current;
    if (now !== null) now.dispatch(setDiagnostics(now.state, marksOf(now.state.doc, diagnostics)));
  }, [diagnostics]);

  useImperativeHandle(props.handle, () => ({
    goTo(line, column) {
      const now = view.current;
      if (now === null) return;
      const at = offsetOf(now.state.doc.toString(), line, column);
      now.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      now.focus();
    },
    focus: () => view.current?.focus(),
  }));

  return <div ref={host} className="editor-host" />;
}

function stateOf(first: Props, latest: () => Props, tell: (text: string) => void): EditorState {
  const isFixed = first.onChange === undefined || first.compareWith !== undefined;
  const changed = EditorView.updateListener.of((update) => {
    const isGiven = update.transactions.some((each) => each.annotation(Given));
    if (update.docChanged && !isGiven) tell(update.state.doc.toString());
  });
  const extensions: Extension[] = [
    lineNumbers(),
    new Compartment().of(first.language === "text" ? [] : yaml()),
    LOOK,
    drawSelection(),
    highlightSelectionMatches(),
    EditorView.contentAttributes.of({ "aria-label": first.label }),
    EditorView.lineWrapping,
    isFixed ? fixed() : editing(latest),
    changed,
    comparison(first.compareWith),
  ];
  return EditorState.create({ doc: first.text, extensions });
}

function fixed(): Extension {
  // focusable, so that it can be scrolled and copied from by keyboard
  const reachable = EditorView.contentAttributes.of({ tabindex: "0" });
  return [EditorState.readOnly.of(true), EditorView.editable.of(false), reachable, keymap.of(searchKeymap)];
}

function editing(latest: () => Props): Extension {
  return [
    history(),
    TYPED_OVER,
    lintGutter(),
    foldGutter({ openText: "▾", closedText: "▸" }),
    bracketMatching(),
    closeBrackets(),
    indentOnInput(),
    indentUnit.of("  "),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    assistance(() => latest().schema ?? null),
    keymap.of([
      ...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap,
      ...foldKeymap, ...lintKeymap, ...defaultKeymap, indentWithTab,
    ]),
  ];
}

/** Text over a selection is written by the editor: the browser would set inline styles, which the policy refuses. */
const TYPED_OVER = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { main } = view.state.selection;
    const text = event.data;
    if (event.inputType !== "insertText" || text === null || main.empty || view.composing) return false;
    event.preventDefault();
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type" });
    const handlers = view.state.facet(EditorView.inputHandler);
    if (!handlers.some((handle) => handle(view, main.from, main.to, text, insert))) view.dispatch(insert());
    return true;
  },
});

function comparison(original: string | undefined): Extension {
  if (original === undefined) return [];
  return unifiedMergeView({
    original,
    mergeControls: false,
    highlightChanges: true,
    gutter: true,
    collapseUnchanged: { margin: 3, minSize: 6 },
    diffConfig: { timeout: 300 },
  });
}
