// The first line of a page: its name and what can be done there.

import { useEffect, type ReactNode } from "react";

import { useKeys } from "../app/keys.ts";

export function PageHead({ title, name, children }: { title: ReactNode; name?: string; children?: ReactNode }) {
  const words = name ?? (typeof title === "string" ? title : "");
  useEffect(() => {
    document.title = words === "" ? "NoETL" : `${words} · NoETL`;
  }, [words]);
  useKeys([{ keys: "/", does: "Find", run: () => document.querySelector<HTMLElement>("[data-find]")?.focus() }]);
  return (
    <header className="page-head">
      <h1>{title}</h1>
      {children}
    </header>
  );
}
