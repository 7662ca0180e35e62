// Orders to many executions: chosen ones, or all that fit the filter. A dry run comes first.

import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { post } from "../../api/client.ts";
import type { ExecutionLine } from "../../api/types.ts";
import { Ask } from "../../parts/dialog.tsx";
import { Notice } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, serverNow } from "../../parts/time.tsx";
import { say, sayProblem } from "../../parts/toast.tsx";
import { bulkOf, isFiltered, type Filters } from "../../pure/filters.ts";
import { count, plural, visible } from "../../pure/text.ts";

export type BulkAnswer = {
  done: { execution_id: string; status: string }[];
  refused: { execution_id: string; status: string; reason?: string | null }[];
  more: boolean;
  count?: number;
  first?: ExecutionLine[];
};
type Action = "cancel" | "pause" | "resume" | "retry";
type Order = { action: Action; body: Record<string, unknown>; plan: BulkAnswer };

const ACTIONS: [Action, string, string][] = [
  ["cancel", "Cancel", "Cancelled"],
  ["pause", "Pause", "Paused"],
  ["resume", "Resume", "Resumed"],
  ["retry", "Retry", "Retried"],
];
const MOST = 1000;

type Props = { filters: Filters; chosen: string[]; onDone: () => void; onNone: () => void };

export function Bulk({ filters, chosen, onDone, onNone }: Props) {
  const [order, setOrder] = useState<Order | null>(null);
  const filtered = isFiltered(filters);
  const ask = useMutation({
    mutationFn: async ({ action, all }: { action: Action; all: boolean }) => {
      const body = { action, ...(all ? { ...bulkOf(filters, serverNow()), limit: MOST } : { ids: chosen, limit: MOST }) };
      return { action, body, plan: await post<BulkAnswer>("executions/bulk", { ...body, dry_run: true }) };
    },
    onSuccess: setOrder,
    onError: sayProblem,
  });
  if (chosen.length === 0 && !filtered) return null;
  const all = chosen.length === 0;
  return (
    <>
      <div className="bulk" role="region" aria-label="Orders to many executions">
        <span className="strong">{all ? "All that fit this filter" : `${count(chosen.length)} chosen`}</span>
        {ACTIONS.map(([action, verb]) => (
          <button key={action} type="button" className="button tight" disabled={ask.isPending} onClick={() => ask.mutate({ action, all })}>{verb}…</button>
        ))}
        {!all && <button type="button" className="button quiet tight" onClick={onNone}>Choose none</button>}
      </div>
      {order && <Confirm order={order} onClose={() => setOrder(null)} onDone={() => { setOrder(null); onDone(); }} />}
    </>
  );
}

function Confirm({ order, onClose, onDone }: { order: Order; onClose: () => void; onDone: () => void }) {
  const [, verb, past] = ACTIONS.find(([action]) => action === order.action)!;
  const { plan } = order;
  const number = plan.count ?? plan.done.length;
  const run = useMutation({
    // The executions of the dry run and no others: what came since is not touched.
    mutationFn: () => post<BulkAnswer>("executions/bulk", { action: order.action, ids: plan.done.map((line) => line.execution_id), limit: MOST }),
    onSuccess: (answer) => {
      say(`${past} ${plural(answer.done.length, "execution")}${answer.refused.length ? `, ${count(answer.refused.length)} refused` : ""}.`);
      onDone();
    },
  });
  return (
    <Ask
      title={number ? `${verb} ${plural(number, "execution")}?` : `There is nothing to ${order.action}`}
      does={`${verb} ${plural(number, "execution")}`}
      danger={order.action === "cancel"}
      busy={run.isPending || number === 0}
      onYes={() => run.mutate()}
      onNo={onClose}
    >
      {run.error && <Notice error={run.error} />}
      {plan.more && <p>Only the newest {count(MOST)} are in this order; repeat it for the others.</p>}
      {plan.refused.length > 0 && <p className="soft">{plural(plan.refused.length, "execution")} cannot: {visible(plan.refused[0]?.reason ?? plan.refused[0]?.status ?? "")}</p>}
      {plan.first && plan.first.length > 0 && (
        <ul className="plan">
          {plan.first.map((line) => (
            <li key={line.execution_id}>
              <Status status={line.status} />
              <span className="cut grow">{visible(line.playbook.path ?? line.execution_id)}</span>
              <span className="soft"><Ago at={line.started_at} /></span>
            </li>
          ))}
          {number > plan.first.length && <li className="soft">and {count(number - plan.first.length)} more</li>}
        </ul>
      )}
    </Ask>
  );
}
