// Pages below /catalog: the address ends with `/-/edit`, `/-/run` or `/-/diff`, or is a path.

import { lazy } from "react";
import { useParams } from "wouter";

import PlaybookPage from "./playbook.tsx";

const EditorPage = lazy(() => import("./editor.tsx"));
const RunPage = lazy(() => import("./run.tsx"));
const DiffPage = lazy(() => import("./diff.tsx"));

export default function CatalogEntry() {
  const rest = useParams()["*"] ?? "";
  const at = rest.lastIndexOf("/-/");
  const path = decode(at < 0 ? rest : rest.slice(0, at));
  switch (at < 0 ? "" : rest.slice(at + 3)) {
    case "edit":
      return <EditorPage key={path} path={path} />;
    case "run":
      return <RunPage key={path} path={path} />;
    case "diff":
      return <DiffPage path={path} />;
    default:
      return <PlaybookPage path={path} />;
  }
}

function decode(text: string): string {
  try {
    return text.split("/").map(decodeURIComponent).join("/");
  } catch {
    return text;
  }
}
