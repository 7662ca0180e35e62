// Browser sessions: one's own, or all for those who may end them.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { get } from "../../api/client.ts";
import { Ask } from "../../parts/dialog.tsx";
import { Empty } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { shown } from "../../pure/text.ts";
import { Listed } from "../../tables/listed.tsx";
import { PageHead } from "../../tables/page-head.tsx";
import { RowTable, type Column } from "../../tables/row-table.tsx";
import { useSend } from "../../tables/use-send.ts";
import { Wrong } from "../../tables/wrong.tsx";

type SessionLine = {
  session_id: string;
  user: string;
  roles: string[];
  created_at: string;
  expires_at: string;
  last_activity_at: string;
  client_ip: string | null;
};

export default function SessionsPage() {
  const [asked, setAsked] = useState<SessionLine | null>(null);
  const query = useQuery({
    queryKey: ["sessions"],
    queryFn: ({ signal }) => get<{ sessions: SessionLine[] }>("sessions", {}, signal),
  });
  const end = useSend<unknown>(["sessions"], () => setAsked(null));
  const rows = query.data?.sessions ?? [];
  const columns: Column<SessionLine>[] = [
    { title: "User", cell: (row) => <span className="strong">{shown(row.user)}</span> },
    { title: "Active", cell: (row) => <Ago at={row.last_activity_at} /> },
    { title: "Began", cell: (row) => <Ago at={row.created_at} />, wide: true },
    { title: "Ends", cell: (row) => <Ago at={row.expires_at} />, wide: true },
    { title: "Address", cell: (row) => <span className="mono">{shown(row.client_ip ?? "")}</span>, wide: true },
    { title: "Roles", cell: (row) => <span className="mono">{shown(row.roles.join(", "), 200)}</span>, wide: true },
    { title: "Actions", cell: (row) => <button type="button" className="button tight" aria-label={`End the session of ${row.user}`} onClick={() => setAsked(row)}>End</button>, actions: true },
  ];
  return (
    <>
      <PageHead title="Sessions" />
      <div className="page-body filled">
        <Listed asked={query} isEmpty={rows.length === 0} empty={<Empty title="No browser session" icon="sessions"><p>You use a token, or a server without accounts.</p></Empty>}>
          <RowTable label="Sessions" columns={columns} rows={rows} rowKey={(row) => row.session_id} />
        </Listed>
      </div>
      {asked ? (
        <Ask title={`End the session of ${asked.user}?`} does="End 1 session" danger busy={end.isPending} onNo={() => setAsked(null)}
          onYes={() => end.mutate({ method: "DELETE", path: `sessions/${encodeURIComponent(asked.session_id)}` })}>
          <p>That browser must sign in again. It was active <Ago at={asked.last_activity_at} />.</p>
          <Wrong error={end.error} />
        </Ask>
      ) : null}
    </>
  );
}
