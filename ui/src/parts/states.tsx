// What a part shows instead of its content: loading, empty, refused, broken.

import { Component, type ReactNode } from "react";
import { asProblem, type Problem } from "../api/problem.ts";
import { visible } from "../pure/text.ts";
import { Copy } from "./copy.tsx";
import { Icon } from "./icons.tsx";
import { Glyph } from "./status.tsx";

export function Loading({ rows = 8 }: { rows?: number }) {
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => <i key={at} />)}
    </div>
  );
}

export function Empty({ title, icon = "search", children }: { title: string; icon?: string; children?: ReactNode }) {
  return (
    <div className="message">
      <span className="symbol"><Large name={icon} /></span>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

function Large({ name }: { name: string }) {
  return <span className="large-icon"><Icon name={name} /></span>;
}

export function Command({ text }: { text: string }) {
  return <div className="command"><code>{text}</code><Copy text={text} label="Copy the command" /></div>;
}

/** The server is older than this page and has no such call. */
export function isMissing(error: unknown): boolean {
  return asProblem(error).kind === "route.unknown";
}

const TITLES: Record<number, string> = {
  0: "The server cannot be reached",
  403: "You may not see this",
  404: "Not found",
};

/** A refusal of the server, in its own words. */
export function Refused({ error, again }: { error: unknown; again?: () => void }) {
  const problem = asProblem(error);
  return (
    <div className="message" role="alert">
      <span className="symbol"><Large name={problem.status === 403 ? "keychain" : "question"} /></span>
      <h2>{problem.isSignedOut ? "You are not signed in" : TITLES[problem.status] ?? "That did not work"}</h2>
      <p>{visible(problem.message)}</p>
      {problem.hint && <p>{visible(problem.hint)}</p>}
      {again && <button type="button" className="button" onClick={again}>Try again</button>}
    </div>
  );
}

/** A refusal above content that stays: old rows are better than none. */
export function Notice({ error, about }: { error: unknown; about?: string }) {
  const problem: Problem = asProblem(error);
  return (
    <div className="notice failed" role="alert">
      <Glyph status="failed" />
      <div>
        <div>{about ? `${about} ` : ""}{visible(problem.message)}</div>
        {problem.hint && <div className="hint">{visible(problem.hint)}</div>}
      </div>
    </div>
  );
}

type Query<T> = { data: T | undefined; error: unknown; isPending: boolean; refetch: () => unknown };

/** Content of a query, or what is shown instead of it. */
export function Loaded<T>({ query, children, rows }: { query: Query<T>; children: (data: T) => ReactNode; rows?: number }) {
  if (query.data !== undefined) {
    return <>{query.error != null && <Notice error={query.error} about="This may be old." />}{children(query.data)}</>;
  }
  if (query.error != null) return <Refused error={query.error} again={() => void query.refetch()} />;
  return <Loading rows={rows} />;
}

type BoundaryState = { error: Error | null };

/** An error in one part leaves the rest of the page alone. */
export class Boundary extends Component<{ children: ReactNode; name?: string }, BoundaryState> {
  override state: BoundaryState = { error: null };

  static getDerivedStateFromError(error: Error): BoundaryState {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    const isOld = /dynamically imported module|module script|Loading chunk|preload CSS/i.test(error.message);
    return (
      <div className="message" role="alert">
        <h2>{isOld ? "The server has a newer version of this page" : "This part of the page failed"}</h2>
        <p>{isOld ? "Load it again to go on." : visible(error.message)}</p>
        <div className="row">
          <button type="button" className="button primary" onClick={() => window.location.reload()}>Load again</button>
          {!isOld && <button type="button" className="button" onClick={() => this.setState({ error: null })}>Try this part again</button>}
        </div>
      </div>
    );
  }
}
