// Sends a signal that the execution waits for.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { post } from "../../api/client.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Notice } from "../../parts/states.tsx";
import { say } from "../../parts/toast.tsx";
import { useExecution } from "./context.tsx";

export function Signal({ name }: { name: string }) {
  const { id } = useExecution();
  const client = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState("{}");
  const send = useMutation({
    mutationFn: async () => {
      let data: unknown;
      try {
        data = text.trim() ? JSON.parse(text) : null;
      } catch (error) {
        throw new Error(`The data are not JSON: ${error instanceof Error ? error.message : error}`);
      }
      await post(`executions/${encodeURIComponent(id)}/signal`, { name, data });
    },
    onSuccess: () => {
      say(`The signal ${name} was sent.`);
      setOpen(false);
      void client.invalidateQueries({ queryKey: ["head", id] });
    },
  });
  return (
    <>
      <button type="button" className="button tight" onClick={() => setOpen(true)}>Answer…</button>
      {isOpen && (
        <Dialog
          title={`Signal ${name}`}
          onClose={() => setOpen(false)}
          onSubmit={() => send.mutate()}
          footer={<><button type="button" className="button" onClick={() => setOpen(false)}>Back</button><button type="submit" className="button primary" disabled={send.isPending}>Send</button></>}
        >
          {send.error && <Notice error={send.error} />}
          <div className="field">
            <label htmlFor="signal-data">Data, as JSON</label>
            <textarea id="signal-data" className="input" spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} />
            <span className="hint">The inbox shows a form, if the task has a schema.</span>
          </div>
        </Dialog>
      )}
    </>
  );
}
