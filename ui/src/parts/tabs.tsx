// Tabs that are buttons; which one is chosen is the caller's (mostly in the URL).

import { useRef, type ReactNode } from "react";

export type Tab = { id: string; label: ReactNode };

export function Tabs({ tabs, chosen, onChoose, name, children }: { tabs: Tab[]; chosen: string; onChoose: (id: string) => void; name: string; children?: ReactNode }) {
  const list = useRef<HTMLDivElement>(null);
  const move = (event: React.KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = (at + by + tabs.length) % tabs.length;
    onChoose(tabs[next]!.id);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div className="tabs-row">
      <div className="tabs" role="tablist" aria-label={name} ref={list} onKeyDown={move}>
        {tabs.map((tab) => (
          <button key={tab.id} type="button" role="tab" aria-selected={tab.id === chosen} tabIndex={tab.id === chosen ? 0 : -1} onClick={() => onChoose(tab.id)}>
            {tab.label}
          </button>
        ))}
      </div>
      {children}
    </div>
  );
}
