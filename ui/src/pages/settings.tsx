// What a person chooses for this browser, and who they are.

import type { ReactNode } from "react";

import { useSession } from "../api/session.ts";
import { choose, useSettings, type Settings } from "../app/settings.ts";
import { Loaded } from "../parts/states.tsx";
import { shown } from "../pure/text.ts";
import { PageHead } from "../tables/page-head.tsx";

export default function SettingsPage() {
  const chosen = useSettings();
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <>
      <PageHead title="Settings" />
      <div className="page-body stack settings">
        <Choices name="theme" title="Theme" chosen={chosen.theme} all={{ system: "As the system", light: "Light", dark: "Dark" }} />
        <Choices name="zone" title="Times" chosen={chosen.zone} all={{ local: `Local (${zone})`, utc: "UTC" }} />
        <Choices name="rows" title="Rows" chosen={chosen.rows} all={{ normal: "Normal", compact: "Compact" }} />
        <Choices name="keys" title="Single keys" chosen={chosen.keys} all={{ on: "Act on the page", off: "Do nothing" }}>
          <p className="hint">Press <kbd>?</kbd> for the list. Ctrl K works always.</p>
        </Choices>
        <p className="soft">These are kept in this browser.</p>
        <Who />
      </div>
    </>
  );
}

type ChoicesProps<K extends keyof Settings> = {
  name: K;
  title: string;
  chosen: Settings[K];
  all: Record<Settings[K], string>;
  children?: ReactNode;
};

function Choices<K extends keyof Settings>({ name, title, chosen, all, children }: ChoicesProps<K>) {
  return (
    <fieldset className="form-group">
      <legend>{title}</legend>
      <div className="row wrap">
        {(Object.keys(all) as Settings[K][]).map((value) => (
          <label className="row choice" key={value}>
            <input type="radio" name={name} checked={chosen === value} onChange={() => choose({ [name]: value } as Partial<Settings>)} />
            {all[value]}
          </label>
        ))}
      </div>
      {children}
    </fieldset>
  );
}

function Who() {
  const query = useSession();
  return (
    <section className="stack" aria-label="Account">
      <h2>Account</h2>
      <Loaded query={query} rows={3}>
        {(who) => (
          <dl className="facts">
            <dt>Name</dt><dd>{shown(who.name)}</dd>
            <dt>Roles</dt><dd className="mono">{shown(who.roles.join(", "))}</dd>
            {who.scopes ? <><dt>Scopes</dt><dd className="mono">{shown(who.scopes.join(", "))}</dd></> : null}
            <dt>Signed in by</dt><dd>{who.means}</dd>
            {who.version ? <><dt>Server</dt><dd>NoETL {shown(who.version)}</dd></> : null}
          </dl>
        )}
      </Loaded>
    </section>
  );
}
