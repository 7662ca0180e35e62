// A new playbook: the editor with a first text.

export { NewPlaybookPage as default } from "./editor.tsx";
