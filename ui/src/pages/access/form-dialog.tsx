// A dialog with one form that is sent as one order.

import type { ReactNode } from "react";

import type { Schema } from "../../forms/fields.ts";
import { TypedForm, useTypedForm, type Value } from "../../forms/typed-form.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { useSend, type Order } from "../../tables/use-send.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { focusFirstProblem } from "../catalog/run.tsx";

type Props = {
  title: string;
  does: string;
  schema: Schema;
  first?: Value;
  order: (value: Value) => Order;
  touched: readonly string[];
  onDone: () => void;
  onClose: () => void;
  tabs?: ReactNode;
};

export function FormDialog({ title, does, schema, first, order, touched, onDone, onClose, tabs }: Props) {
  const form = useTypedForm(schema, undefined, undefined, first);
  const send = useSend<unknown>(touched, onDone);
  const submit = () => {
    const value = form.read();
    if (value === null) focusFirstProblem();
    else send.mutate(order(value));
  };
  const footer = (
    <>
      <button type="button" className="button" onClick={onClose}>Back</button>
      <button type="submit" className="button primary" disabled={send.isPending}>{does}</button>
    </>
  );
  return (
    <Dialog title={title} onClose={onClose} footer={footer} onSubmit={submit}>
      {tabs}
      <TypedForm form={form} label={title} plain />
      <Wrong error={send.error} />
    </Dialog>
  );
}
