// A menu below its button, in the browser's top layer.

import { useId, useLayoutEffect, useRef, useState, type ReactNode } from "react";

type Props = { label: ReactNode; name: string; className?: string; children: ReactNode; align?: "start" | "end"; up?: boolean };

export function Menu({ label, name, className = "button", children, align = "start", up = false }: Props) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  useLayoutEffect(() => {
    const [box, from] = [menu.current, button.current?.getBoundingClientRect()];
    if (!isOpen || !box || !from) return;
    const width = box.offsetWidth;
    const left = align === "end" ? from.right - width : from.left;
    box.style.left = `${Math.max(8, Math.min(left, window.innerWidth - width - 8))}px`;
    const above = from.top - box.offsetHeight - 4;
    const below = from.bottom + 4;
    box.style.top = `${up || (below + box.offsetHeight > window.innerHeight && above > 0) ? Math.max(8, above) : below}px`;
    box.querySelector<HTMLElement>("button, a, input")?.focus();
  }, [isOpen, align, up]);
  return (
    <>
      <button ref={button} type="button" className={className} popoverTarget={id} aria-haspopup="menu" aria-expanded={isOpen} aria-label={name} title={name}>
        {label}
      </button>
      <div
        ref={menu}
        id={id}
        popover="auto"
        className="menu"
        onToggle={(event) => setOpen(event.newState === "open")}
        onClick={(event) => {
          if ((event.target as HTMLElement).closest("button, a")) menu.current?.hidePopover();
        }}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
          event.preventDefault();
          const items = [...(menu.current?.querySelectorAll<HTMLElement>("button, a") ?? [])];
          const at = items.indexOf(document.activeElement as HTMLElement);
          items[(at + (event.key === "ArrowDown" ? 1 : -1) + items.length) % items.length]?.focus();
        }}
      >
        {children}
      </div>
    </>
  );
}
