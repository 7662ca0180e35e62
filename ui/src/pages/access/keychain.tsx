// The keychain: names of secrets, what they are for, and new values. No value is ever shown.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { get } from "../../api/client.ts";
import { useCan } from "../../api/session.ts";
import type { Json } from "../../forms/fields.ts";
import { Ask, Dialog } from "../../parts/dialog.tsx";
import { Command, Empty } from "../../parts/states.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Ago } from "../../parts/time.tsx";
import { say } from "../../parts/toast.tsx";
import { shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import { useSend } from "../../tables/use-send.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { FormDialog } from "./form-dialog.tsx";
import { CREDENTIAL, TEXT_SECRET } from "./schemas.ts";

type Secret = {
  name: string;
  kind: string;
  fields: string[] | null;
  updated_at: string | null;
  for: string[];
  declared: Record<string, string> | null;
};

const COLUMNS: Column<Secret>[] = [
  { title: "Name", cell: (row) => <span className="strong">{shown(row.name)}</span> },
  { title: "Kind", cell: (row) => <span className="tag">{shown(row.kind)}</span> },
  { title: "For", cell: (row) => <span className="mono">{shown(row.for.join(", "), 200)}</span> },
  { title: "Fields", cell: (row) => shown((row.fields ?? []).join(", "), 200), wide: true },
  { title: "Changed", cell: (row) => <Ago at={row.updated_at} />, wide: true },
];

type Opened = { secret: Secret } | "new" | null;

export default function KeychainPage() {
  const [opened, setOpened] = useState<Opened>(null);
  const can = useCan();
  const query = useQuery({
    queryKey: ["keychain"],
    queryFn: ({ signal }) => get<{ keychain: Secret[] }>("keychain", {}, signal),
  });
  const rows = query.data?.keychain ?? [];
  const close = () => setOpened(null);
  return (
    <>
      <PageHead title="Keychain">
        <span className="soft wide-only">values are written and never shown</span>
        <span className="grow" />
        {can("secrets:write") ? <button type="button" className="button primary" onClick={() => setOpened("new")}>Store a secret</button> : null}
      </PageHead>
      <div className="page-body filled">
        <Listed asked={query} isEmpty={rows.length === 0} empty={<Nothing />}>
          <RowTable label="Secrets" columns={COLUMNS} rows={rows} rowKey={(row) => row.name} onOpen={(secret) => setOpened({ secret })} />
        </Listed>
      </div>
      {opened === "new" ? <StoreSecret onClose={close} /> : null}
      {opened !== null && opened !== "new" ? <SecretDrawer secret={opened.secret} onClose={close} /> : null}
    </>
  );
}

function Nothing() {
  return (
    <Empty title="No secret is stored" icon="keychain">
      <p>Playbooks name their credentials under <code>keychain</code>.</p>
      <Command text="noetl keychain set warehouse" />
    </Empty>
  );
}

const SHAPES = [
  { id: "text", label: "One value" },
  { id: "fields", label: "Fields of a credential" },
];

function StoreSecret({ secret, onClose }: { secret?: Secret; onClose: () => void }) {
  const [shape, setShape] = useState(secret?.fields && secret.fields.length > 0 ? "fields" : "text");
  const first = secret ? { name: secret.name, kind: secret.kind, for: secret.for } : undefined;
  return (
    <FormDialog
      key={shape}
      title={secret ? `Replace ${secret.name}` : "Store a secret"}
      does="Store"
      schema={shape === "text" ? TEXT_SECRET : CREDENTIAL}
      first={first}
      touched={["keychain"]}
      tabs={<Tabs tabs={SHAPES} chosen={shape} onChoose={setShape} name="Shape of the secret" />}
      order={({ name, value, kind, for: bindings }) => ({
        method: "POST",
        path: `keychain/${encodeURIComponent(String(name))}`,
        body: {
          kind,
          value: shape === "text" ? value : asFields(String(value)),
          ...(Array.isArray(bindings) && bindings.length > 0 ? { for: bindings } : {}),
        },
      })}
      onDone={() => {
        say("Stored");
        onClose();
      }}
      onClose={onClose}
    />
  );
}

/** What is not JSON is sent as it is: the server says what it expects. */
function asFields(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function SecretDrawer({ secret, onClose }: { secret: Secret; onClose: () => void }) {
  const can = useCan();
  const [asks, setAsks] = useState<"replace" | "delete" | null>(null);
  const remove = useSend<unknown>(["keychain"], () => {
    say(`${secret.name} is deleted`);
    onClose();
  });
  if (asks === "replace") return <StoreSecret secret={secret} onClose={onClose} />;
  return (
    <Dialog title={secret.name} className="drawer" onClose={onClose}>
      <dl className="facts">
        <dt>Kind</dt><dd>{shown(secret.kind)}</dd>
        <dt>For</dt><dd className="mono">{shown(secret.for.join(", "))}</dd>
        <dt>Fields</dt><dd>{shown((secret.fields ?? []).join(", ")) || "one value"}</dd>
        <dt>Changed</dt><dd><Ago at={secret.updated_at} /></dd>
        {Object.entries(secret.declared ?? {}).map(([name, value]) => (
          <div className="contents" key={name}><dt>{shown(name)}</dt><dd className="mono">{shown(value)}</dd></div>
        ))}
      </dl>
      {can("secrets:write") ? (
        <div className="row">
          {secret.declared === null ? <button type="button" className="button" onClick={() => setAsks("replace")}>Replace the value</button> : null}
          <span className="grow" />
          <button type="button" className="button danger" onClick={() => setAsks("delete")}>Delete</button>
        </div>
      ) : null}
      <Wrong error={remove.error} />
      {asks === "delete" ? (
        <Ask title={`Delete the secret ${secret.name}?`} does="Delete 1 secret" danger busy={remove.isPending} onNo={() => setAsks(null)}
          onYes={() => {
            setAsks(null);
            remove.mutate({ method: "DELETE", path: `keychain/${encodeURIComponent(secret.name)}` });
          }}>
          <p>Running executions keep theirs; new ones that need it fail.</p>
        </Ask>
      ) : null}
    </Dialog>
  );
}
