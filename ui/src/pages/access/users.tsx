// Accounts: who they are, their roles, and the commands that make their tokens.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { get } from "../../api/client.ts";
import { useCan } from "../../api/session.ts";
import { Ask, Dialog } from "../../parts/dialog.tsx";
import { Command, Empty } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { say } from "../../parts/toast.tsx";
import { shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import { useSend } from "../../tables/use-send.ts";
import { Wrong } from "../../tables/wrong.tsx";
import { FormDialog } from "./form-dialog.tsx";
import { PASSWORD, ROLES, USER } from "./schemas.ts";

type User = {
  name: string;
  user_id: string;
  roles: string[];
  email: string | null;
  display_name: string | null;
  disabled: boolean;
  has_password: boolean;
  issuer: string | null;
  created_at: string;
};

const COLUMNS: Column<User>[] = [
  { title: "Name", cell: (row) => <span className="strong">{shown(row.name)}</span> },
  { title: "Roles", cell: (row) => <span className="mono">{shown(row.roles.join(", "), 300)}</span> },
  { title: "Person", cell: (row) => shown(row.display_name ?? row.email ?? ""), wide: true },
  { title: "Signs in by", cell: meansOf, wide: true },
  { title: "Created", cell: (row) => <Ago at={row.created_at} />, wide: true },
];

function meansOf(row: User): string {
  if (row.disabled) return "disabled";
  if (row.issuer) return "OpenID Connect";
  return row.has_password ? "password" : "tokens only";
}

export default function UsersPage() {
  const [opened, setOpened] = useState<string | null>(null);
  const [isNew, setNew] = useState(false);
  const can = useCan();
  const query = useQuery({
    queryKey: ["users"],
    queryFn: ({ signal }) => get<{ users: User[] }>("users", {}, signal),
  });
  const rows = query.data?.users ?? [];
  const open = rows.find((row) => row.name === opened);
  const isAlone = rows.length === 1 && rows[0]?.name === "local";
  return (
    <>
      <PageHead title="Users">
        <span className="grow" />
        {can("accounts:manage") ? <button type="button" className="button primary" onClick={() => setNew(true)}>New account</button> : null}
      </PageHead>
      <div className="page-body filled">
        {isAlone ? <p className="notice"><span>The account <code>local</code> is the only one, and may do everything. Give each person an account of their own: <code>noetl user add ann --role developer</code></span></p> : null}
        <Listed asked={query} isEmpty={rows.length === 0} empty={<Empty title="No account" icon="users"><Command text="noetl user add ann --role developer" /></Empty>}>
          <RowTable label="Accounts" columns={COLUMNS} rows={rows} rowKey={(row) => row.name} onOpen={(row) => setOpened(row.name)} />
        </Listed>
      </div>
      {open ? <UserDrawer user={open} onClose={() => setOpened(null)} /> : null}
      {isNew ? (
        <FormDialog title="New account" does="Create the account" schema={USER} touched={["users"]}
          order={(value) => ({ method: "POST", path: "users", body: value })} onDone={() => setNew(false)} onClose={() => setNew(false)} />
      ) : null}
    </>
  );
}

type Asks = "roles" | "password" | "sessions" | "delete" | null;

function UserDrawer({ user, onClose }: { user: User; onClose: () => void }) {
  const [asks, setAsks] = useState<Asks>(null);
  const can = useCan();
  const path = `users/${encodeURIComponent(user.name)}`;
  const back = () => setAsks(null);
  return (
    <Dialog title={user.name} className="drawer" onClose={onClose}>
      <dl className="facts">
        <dt>Roles</dt><dd className="mono">{shown(user.roles.join(", "))}</dd>
        {user.display_name ? <><dt>Person</dt><dd>{shown(user.display_name)}</dd></> : null}
        {user.email ? <><dt>Mail</dt><dd>{shown(user.email)}</dd></> : null}
        <dt>Signs in by</dt><dd>{meansOf(user)}</dd>
        <dt>Created</dt><dd><Ago at={user.created_at} /></dd>
        <dt>Id</dt><dd className="mono">{shown(user.user_id)}</dd>
      </dl>
      <div className="row wrap">
        <button type="button" className="button" onClick={() => setAsks("roles")}>Change roles</button>
        <button type="button" className="button" onClick={() => setAsks("password")}>Set a password</button>
        {can("sessions:manage") ? <button type="button" className="button" onClick={() => setAsks("sessions")}>End sessions</button> : null}
        <span className="grow" />
        <button type="button" className="button danger" onClick={() => setAsks("delete")}>Delete</button>
      </div>
      <h3>Tokens</h3>
      <p className="soft">A browser makes no tokens. On the command line:</p>
      <Command text={`noetl token create ${quoted(user.name)} --label "purpose"`} />
      <Command text="noetl token list" />
      {asks === "roles" ? (
        <FormDialog title={`Roles of ${user.name}`} does="Change the roles" schema={ROLES} first={{ roles: user.roles }} touched={["users", "sessions"]}
          order={(value) => ({ method: "POST", path: `${path}/roles`, body: value })} onDone={back} onClose={back} />
      ) : null}
      {asks === "password" ? (
        <FormDialog title={`Password of ${user.name}`} does="Set the password" schema={PASSWORD} touched={["users", "sessions"]}
          order={(value) => ({ method: "POST", path: `${path}/password`, body: value })} onDone={back} onClose={back} />
      ) : null}
      {asks === "sessions" ? <EndSessions user={user} path={path} onClose={back} /> : null}
      {asks === "delete" ? <DeleteUser user={user} path={path} onClose={back} onDone={onClose} /> : null}
    </Dialog>
  );
}

function EndSessions({ user, path, onClose }: { user: User; path: string; onClose: () => void }) {
  const end = useSend<{ ended: number }>(["sessions"], (answer) => {
    say(`${answer.ended} sessions of ${user.name} are ended`);
    onClose();
  });
  return (
    <Ask title={`End all sessions of ${user.name}?`} does="End the sessions" danger busy={end.isPending} onNo={onClose}
      onYes={() => end.mutate({ method: "DELETE", path: `${path}/sessions` })}>
      <p>Browsers of this account must sign in again. Tokens keep working.</p>
      <Wrong error={end.error} />
    </Ask>
  );
}

function DeleteUser({ user, path, onClose, onDone }: { user: User; path: string; onClose: () => void; onDone: () => void }) {
  const remove = useSend<unknown>(["users"], () => {
    say(`${user.name} is deleted`);
    onDone();
  });
  return (
    <Ask title={`Delete the account ${user.name}?`} does="Delete 1 account" danger busy={remove.isPending} onNo={onClose}
      onYes={() => remove.mutate({ method: "DELETE", path })}>
      <p>Its tokens and sessions end at once. Its triggers start nothing any more until another account takes them over.</p>
      <Wrong error={remove.error} />
    </Ask>
  );
}

function quoted(name: string): string {
  return /^[\w.@-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}
