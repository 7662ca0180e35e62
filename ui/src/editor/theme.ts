// The look of the editor: the colours of the page, which reach into its shadow root.

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const STYLE = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-text)" },
  { tag: [tags.keyword, tags.typeName, tags.labelName, tags.meta], color: "var(--code-word)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--soft)" },
]);

const SHAPES = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--ink)" },
  ".cm-line": { padding: "0 12px 0 6px" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--soft)", border: "none", borderRight: "1px solid var(--line)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 5%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 26%, transparent)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--sunken)", outline: "1px solid var(--control)" },
  ".cm-searchMatch": { backgroundColor: "var(--waiting-tint)", outline: "1px solid var(--waiting)" },
  ".cm-tooltip": {
    backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--line)",
    borderRadius: "8px", boxShadow: "var(--shadow)", fontFamily: "var(--text)", maxWidth: "min(480px, 90vw)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px", lineHeight: "20px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--chosen)", color: "var(--ink)" },
  ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-completionInfo": { padding: "8px 10px" },
  ".cm-explain": { padding: "6px 10px", lineHeight: "20px" },
  ".cm-explain p": { margin: "0" },
  ".cm-explain p + p": { color: "var(--soft)", fontFamily: "var(--mono)", fontSize: "12px" },
  ".cm-diagnostic": { padding: "6px 10px", borderLeft: "3px solid var(--control)", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--failed)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--waiting)" },
  ".cm-diagnosticAction": {
    backgroundColor: "var(--accent)", color: "var(--on-accent)", borderRadius: "5px",
    padding: "2px 8px", font: "500 12px/18px var(--text)",
  },
  ".cm-lintRange": { backgroundImage: "none", textDecoration: "underline wavy 1px", textUnderlineOffset: "3px", paddingBottom: "0" },
  ".cm-lintRange-error": { textDecorationColor: "var(--failed)" },
  ".cm-lintRange-warning": { textDecorationColor: "var(--waiting)" },
  ".cm-lintRange-hint, .cm-lintRange-info": { textDecorationColor: "var(--accent)" },
  ".cm-lint-marker": { width: "10px", height: "10px", content: "none", borderRadius: "50%", margin: "5px 1px" },
  ".cm-lint-marker-error": { backgroundColor: "var(--failed)", borderRadius: "2px" },
  ".cm-lint-marker-warning": { backgroundColor: "var(--waiting)" },
  ".cm-lint-marker-hint, .cm-lint-marker-info": { backgroundColor: "var(--accent)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--ink)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--paper)", border: "1px solid var(--control)", borderRadius: "5px", padding: "3px 8px" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--paper)", border: "1px solid var(--control)", borderRadius: "5px", padding: "3px 8px" },
  ".cm-changedLine": { backgroundColor: "var(--done-tint) !important" },
  ".cm-insertedLine": { textDecoration: "none" },
  ".cm-changedText": { backgroundImage: "none !important", backgroundColor: "color-mix(in srgb, var(--done) 22%, transparent)" },
  ".cm-deletedChunk": { backgroundColor: "var(--failed-tint)", paddingLeft: "6px" },
  ".cm-deletedChunk .cm-deletedText": { backgroundImage: "none !important", backgroundColor: "color-mix(in srgb, var(--failed) 22%, transparent)" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: "'···'", margin: "0 8px" },
  ".cm-collapsedLines": { color: "var(--soft)", backgroundImage: "none", backgroundColor: "var(--raised)", padding: "4px 12px" },
  ".cm-changeGutter": { width: "3px" },
  ".cm-changedLineGutter": { backgroundColor: "var(--done)" },
  ".cm-deletedLineGutter": { backgroundColor: "var(--failed)" },
});

export const LOOK: Extension = [SHAPES, syntaxHighlighting(STYLE)];
