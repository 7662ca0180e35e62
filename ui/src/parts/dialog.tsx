// A modal dialog: the browser's own, so that focus, Escape and the backdrop are its.

import { useEffect, useId, useRef, type ReactNode } from "react";
import { Icon } from "./icons.tsx";

type Props = {
  title: string;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
  className?: string;
  /** Called when a form in the dialog is sent with Enter. */
  onSubmit?: () => void;
};

export function Dialog({ title, onClose, children, footer, className = "", onSubmit }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    const before = document.activeElement;
    if (!dialog.open) dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const content = (
    <>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" className="button quiet icon" aria-label="Close" onClick={onClose}><Icon name="close" /></button>
      </header>
      <div className="inside">{children}</div>
      {footer && <footer>{footer}</footer>}
    </>
  );
  return (
    <dialog
      ref={ref}
      className={className}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      {onSubmit ? (
        <form
          className="contents"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            onSubmit();
          }}
        >
          {content}
        </form>
      ) : content}
    </dialog>
  );
}

type AskProps = { title: string; does: string; danger?: boolean; busy?: boolean; onYes: () => void; onNo: () => void; children?: ReactNode };

/** A question before an action that cannot be taken back; `does` names verb and number. */
export function Ask({ title, does, danger = false, busy = false, onYes, onNo, children }: AskProps) {
  return (
    <Dialog
      title={title}
      onClose={onNo}
      className="small"
      footer={
        <>
          <button type="button" className="button" onClick={onNo}>Back</button>
          <button type="button" className={`button ${danger ? "danger" : "primary"}`} disabled={busy} onClick={onYes}>{does}</button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
