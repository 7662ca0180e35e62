// Ctrl-K: pages, actions, playbooks, steps and executions by a few letters.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useId, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { escapePath, get } from "../api/client.ts";
import { may, useSession } from "../api/session.ts";
import { PAGES } from "../pages/registry.ts";
import { Icon } from "../parts/icons.tsx";
import { match } from "../pure/match.ts";
import { allKeys, keyWords, type Key } from "./keys.ts";

type Entry = { id: string; text: string; kind: string; icon: string; keys?: string; run: () => void };

const providers = new Set<(go: (to: string) => void) => Entry[]>();

/** Entries of the page that is shown, such as the steps of an execution. */
export function usePaletteEntries(list: (go: (to: string) => void) => Entry[]): void {
  const held = useRef(list);
  useEffect(() => {
    held.current = list;
  });
  useEffect(() => {
    const provider = (go: (to: string) => void) => held.current(go);
    providers.add(provider);
    return () => {
      providers.delete(provider);
    };
  }, []);
}

const EXECUTION = /^[0-9a-z]{8,}[0-9a-z-]*$/i;

export function Palette({ onClose }: { onClose: () => void }) {
  const [, navigate] = useLocation();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const { data: session } = useSession();
  const [keys] = useState<Key[]>(allKeys);
  const asks = /^[>@#:]/.test(text) ? text[0]! : "";
  const words = asks ? text.slice(1).trim() : text.trim();
  const playbooks = useQuery({
    queryKey: ["palette", "playbooks"],
    queryFn: ({ signal }) => get<{ playbooks: { path: string }[] }>("catalog", { limit: 1000 }, signal),
    enabled: may(session, "playbooks:read") && (asks === "@" || words.length > 1),
    staleTime: 60_000,
  });
  useEffect(() => {
    dialog.current?.showModal();
  }, []);

  const entries = useMemo(() => {
    const go = (to: string) => navigate(to);
    const list: Entry[] = [];
    if (!asks || asks === ">") {
      for (const page of PAGES) {
        if (!page.place || (page.permission && !may(session, page.permission))) continue;
        list.push({ id: page.path, text: page.title, kind: "page", icon: page.place.icon, keys: page.key ? `g ${page.key}` : undefined, run: () => go(page.place?.address ?? page.path) });
      }
      for (const key of keys) {
        if (key.keys.startsWith("g ") || key.keys === "Ctrl+k") continue;
        list.push({ id: `key ${key.keys}`, text: key.does, kind: "action", icon: "right", keys: key.keys, run: () => key.run(new KeyboardEvent("keydown")) });
      }
    }
    for (const provider of providers) {
      list.push(...provider(go).filter((entry) => !asks || asks === ">" || (asks === "#" && entry.kind === "step") || (asks === ":" && entry.kind === "event")));
    }
    if (!asks || asks === "@") {
      const paths = [...new Set(playbooks.data?.playbooks.map((each) => each.path))];
      for (const path of paths) list.push({ id: `@${path}`, text: path, kind: "playbook", icon: "catalog", run: () => go(`/catalog/${escapePath(path)}`) });
    }
    const found = list
      .map((entry) => ({ entry, score: match(words, entry.text) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .map(({ entry }) => entry)
      .slice(0, 50);
    if (EXECUTION.test(words) && !asks) {
      found.unshift({ id: `id ${words}`, text: `Open execution ${words}`, kind: "id", icon: "executions", run: () => go(`/executions/${encodeURIComponent(words)}`) });
    }
    if (asks === ":" && /^\d+$/.test(words)) {
      found.unshift({ id: `event ${words}`, text: `Go to event ${words}`, kind: "event", icon: "clock", run: () => go(`${window.location.pathname}?${withAt(words)}`) });
    }
    return found;
  }, [asks, words, keys, session, playbooks.data, navigate]);

  const chosen = Math.min(at, entries.length - 1);
  const take = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  return (
    <dialog
      ref={dialog}
      className="palette small"
      aria-label="Find a page, an action or an execution"
      onCancel={(event) => { event.preventDefault(); onClose(); }}
      onMouseDown={(event) => { if (event.target === dialog.current) onClose(); }}
    >
      <div className="ask">
        <Icon name="search" />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={entries[chosen] ? `${id}-${chosen}` : undefined}
          aria-label="Find"
          placeholder="Find…   > action   @ playbook   # step   : event"
          value={text}
          onChange={(event) => { setText(event.target.value); setAt(0); }}
          onKeyDown={(event) => {
            const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (by) {
              event.preventDefault();
              setAt((chosen + by + entries.length) % Math.max(1, entries.length));
            } else if (event.key === "Enter") {
              event.preventDefault();
              take(entries[chosen]);
            }
          }}
        />
        <kbd>Esc</kbd>
      </div>
      <ul id={id} role="listbox" aria-label="Results">
        {entries.map((entry, index) => (
          <li
            key={entry.id}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === chosen}
            ref={(item) => { if (index === chosen) item?.scrollIntoView({ block: "nearest" }); }}
            onMouseMove={() => setAt(index)}
            onClick={() => take(entry)}
          >
            <Icon name={entry.icon} />
            <span className="cut">{entry.text}</span>
            <span className="kind">{entry.kind}</span>
            {entry.keys && <kbd>{keyWords(entry.keys)}</kbd>}
          </li>
        ))}
        {entries.length === 0 && <li role="option" aria-selected="false" className="soft">Nothing fits.</li>}
      </ul>
    </dialog>
  );
}

function withAt(seq: string): string {
  const params = new URLSearchParams(window.location.search);
  params.set("at", seq);
  return params.toString();
}
