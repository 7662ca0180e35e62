// Completion, explanations and marks of diagnostics in the editor.

import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import type { Action, Diagnostic as Mark } from "@codemirror/lint";
import { Text, type Extension } from "@codemirror/state";
import { hoverTooltip } from "@codemirror/view";

import type { Schema } from "../forms/fields.ts";
import { fixOf, rangeOf, type Diagnostic } from "./positions.ts";
import { explain, optionsAt } from "./schema-walk.ts";
import { placeAt, placeForCompletion } from "./yaml-place.ts";

/** Completion and explanation by the schema, as soon as there is one. */
export function assistance(schema: () => Schema | null): Extension {
  const complete = (context: CompletionContext) => completions(context, schema());
  return [
    autocompletion({ override: [complete], activateOnTyping: true, icons: false }),
    hoverTooltip((view, offset) => {
      const known = schema();
      const place = known && placeAt(view.state.doc.toString(), offset);
      const lines = known && place ? explain(known, place) : [];
      if (place === null || lines.length === 0) return null;
      return { pos: place.from, end: place.to, above: true, create: () => ({ dom: paragraphs(lines) }) };
    }),
  ];
}

/** The marks of diagnostics in this text. */
export function marksOf(doc: Text, found: readonly Diagnostic[]): Mark[] {
  const text = doc.toString();
  return found.map((each) => {
    const fix = fixOf(text, each);
    const apply: Action = {
      name: fix?.label ?? "",
      apply: (view) => {
        const now = fixOf(view.state.doc.toString(), each);
        if (now !== null) view.dispatch({ changes: now });
      },
    };
    const severity = each.severity === "hint" ? "info" : each.severity;
    const message = each.hint === null ? each.message : `${each.message}; ${each.hint}`;
    return { ...rangeOf(text, each), severity, message, source: each.code, actions: fix ? [apply] : [] };
  });
}

function completions(context: CompletionContext, schema: Schema | null): CompletionResult | null {
  const place = schema && placeForCompletion(context.state.doc.toString(), context.pos);
  if (schema === null || place === null) return null;
  if (place.word === "" && !context.explicit && place.at === "key") return null;
  const options = optionsAt(schema, place).map((option): Completion => ({
    label: option.label,
    detail: option.detail,
    ...(option.info === "" ? {} : { info: () => paragraphs([option.info]) }),
    apply: place.at === "key" ? `${option.label}: ` : option.label,
    type: place.at === "key" ? "property" : "enum",
  }));
  const hasColon = /^\s*:/.test(context.state.sliceDoc(place.to, place.to + 20));
  if (hasColon) for (const each of options) each.apply = each.label;
  return options.length === 0 ? null : { from: place.from, options, validFor: /^[\w.-]*$/ };
}

function paragraphs(lines: readonly string[]): HTMLElement {
  const box = document.createElement("div");
  box.className = "cm-explain";
  for (const line of lines) {
    const paragraph = document.createElement("p");
    paragraph.textContent = line;
    box.append(paragraph);
  }
  return box;
}
