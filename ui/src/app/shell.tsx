// Frame of all pages: navigation, palette, keys, messages, sign-in over the page.

import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { get, onSignedOut } from "../api/client.ts";
import { useLive, useLiveState } from "../api/live.ts";
import { asProblem } from "../api/problem.ts";
import { may, useSession, useSignOut, type Session } from "../api/session.ts";
import { PAGES, type Group, type Page } from "../pages/registry.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Icon, Logo } from "../parts/icons.tsx";
import { Menu } from "../parts/menu.tsx";
import { Loading } from "../parts/states.tsx";
import { setServerTime } from "../parts/time.tsx";
import { Toasts } from "../parts/toast.tsx";
import { KeysHelp } from "./help.tsx";
import { useKeys, type Key } from "./keys.ts";
import { Palette } from "./palette.tsx";
import { Pages } from "./router.tsx";
import { choose, useSettings } from "./settings.ts";
import { SignIn, SignInPage } from "./sign-in.tsx";

/** A page for people without an account. */
const AnswerLink = lazy(() => import("../pages/inbox/answer-link.tsx"));

const GROUPS: [Group, string][] = [["work", ""], ["operate", "Operate"], ["access", "Access"]];
/** Pages of the bar at the bottom of a phone; the others are behind "More". */
const FIRST = ["/executions", "/inbox", "/catalog"];

export function Shell() {
  const [location] = useLocation();
  if (location === "/sign-in") return <><SignInPage /><Toasts /></>;
  if (location === "/answer") return <Suspense fallback={<Loading />}><AnswerLink /></Suspense>;
  return <Framed />;
}

function Framed() {
  const { data: session, error } = useSession();
  const { side } = useSettings();
  const [isOut, setOut] = useState(false);
  const [open, setOpen] = useState<"palette" | "keys" | null>(null);
  const [, navigate] = useLocation();
  useEffect(() => onSignedOut(() => setOut(true)), []);
  useEffect(() => setServerTime(session?.server_time), [session?.server_time]);
  const pages = PAGES.filter((page) => page.place && (!page.permission || may(session, page.permission)));
  const inbox = useInboxCount(session);
  useKeys([
    { keys: "Ctrl+k", does: "Find a page, an action or an execution", always: true, run: () => setOpen("palette") },
    { keys: "?", does: "Show the keys", run: () => setOpen("keys") },
    ...pages.filter((page) => page.key).map((page): Key => ({
      keys: `g ${page.key}`,
      does: `Go to ${page.title.toLowerCase()}`,
      run: () => navigate(addressOf(page)),
    })),
  ]);
  if (!session && error && asProblem(error).isSignedOut) {
    return <main className="sign-in"><div className="panel"><a className="brand" href="/"><Logo /> NoETL</a><SignIn onDone={() => setOut(false)} /></div></main>;
  }
  return (
    <div className={`shell${side === "narrow" ? " narrow" : ""}`}>
      <a className="skip" href="#main">To the content</a>
      <Side pages={pages} session={session} inbox={inbox} onFind={() => setOpen("palette")} onKeys={() => setOpen("keys")} />
      <Banners />
      <main id="main" tabIndex={-1}><Pages /></main>
      <Bottom pages={pages} inbox={inbox} session={session} />
      <Toasts />
      {open === "palette" && <Palette onClose={() => setOpen(null)} />}
      {open === "keys" && <KeysHelp onClose={() => setOpen(null)} />}
      {isOut && (
        <Dialog title="Your session has ended" onClose={() => setOut(false)} className="small">
          <p className="soft">Sign in again; what you typed is still there.</p>
          <SignIn over onDone={() => setOut(false)} />
        </Dialog>
      )}
    </div>
  );
}

function addressOf(page: Page): string {
  return page.place?.address ?? page.path;
}

function useInboxCount(session: Session | undefined): number {
  const [isLater, setLater] = useState(false);
  const mayRead = PAGES.some((page) => page.path === "/inbox") && may(session, "executions:read");
  const enabled = isLater && mayRead;
  useEffect(() => {
    // The content of the page is asked for first.
    if (!mayRead) return;
    const timer = window.setTimeout(() => setLater(true), 600);
    return () => window.clearTimeout(timer);
  }, [mayRead]);
  const { data, refetch } = useQuery({
    queryKey: ["inbox", "count"],
    queryFn: ({ signal }) => get<{ total_mine: number }>("inbox", {}, signal),
    enabled,
    retry: false,
  });
  useLive(mayRead ? "inbox" : null, () => { if (enabled) void refetch(); });
  return data?.total_mine ?? 0;
}

function Place({ page, inbox }: { page: Page; inbox: number }) {
  const [location] = useLocation();
  const to = addressOf(page);
  const isHere = location === to || location.startsWith(`${to}/`);
  return (
    <Link href={to} className="place" aria-current={isHere ? "page" : undefined} title={page.title}>
      <Icon name={page.place?.icon ?? "right"} />
      <span className="word">{page.title}</span>
      {page.path === "/inbox" && inbox > 0 && <span className="badge" aria-label={`${inbox} for me`}>{inbox}</span>}
    </Link>
  );
}

type SideProps = { pages: Page[]; session: Session | undefined; inbox: number; onFind: () => void; onKeys: () => void };

function Side({ pages, session, inbox, onFind, onKeys }: SideProps) {
  const { side } = useSettings();
  return (
    <nav className="side" aria-label="Pages">
      <Link href="/executions" className="brand" aria-label="NoETL"><Logo /><span className="word">NoETL</span></Link>
      <button type="button" className="place" onClick={onFind} title="Find">
        <Icon name="search" /><span className="word">Find</span><kbd className="word at-end">Ctrl K</kbd>
      </button>
      {GROUPS.map(([group, title]) => {
        const list = pages.filter((page) => page.place?.group === group);
        return list.length > 0 && (
          <div key={group} className="places">
            {title && <div className="group">{title}</div>}
            {list.map((page) => <Place key={page.path} page={page} inbox={inbox} />)}
          </div>
        );
      })}
      <div className="rest">
        <button type="button" className="place" onClick={onKeys} title="Keys"><Icon name="question" /><span className="word">Keys</span><kbd className="word at-end">?</kbd></button>
        <Menu className="place" name={`${session?.name ?? "…"}: your account and the look of the pages`} up label={<><Icon name="person" /><span className="word cut">{session?.name ?? "…"}</span></>}>
          <Looks session={session} />
        </Menu>
        <button type="button" className="place" aria-label={side === "wide" ? "Make the navigation narrow" : "Make the navigation wide"} title={side === "wide" ? "Narrow" : "Wide"} onClick={() => choose({ side: side === "wide" ? "narrow" : "wide" })}>
          <Icon name="side" /><span className="word">Narrow</span>
        </button>
      </div>
    </nav>
  );
}

function Looks({ session }: { session: Session | undefined }) {
  const { theme, zone, rows } = useSettings();
  const signOut = useSignOut();
  const mark = (chosen: boolean) => <span className="mark">{chosen && <Icon name="check" />}</span>;
  return (
    <>
      <div className="label">{session ? `${session.name}: ${session.roles.join(", ") || "no roles"}` : ""}</div>
      <div className="label">Theme</div>
      {(["system", "light", "dark"] as const).map((each) => <button key={each} type="button" onClick={() => choose({ theme: each })}>{mark(theme === each)}{each}</button>)}
      <div className="label">Times</div>
      {(["local", "utc"] as const).map((each) => <button key={each} type="button" onClick={() => choose({ zone: each })}>{mark(zone === each)}{each === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone}</button>)}
      <div className="label">Rows</div>
      {(["normal", "compact"] as const).map((each) => <button key={each} type="button" onClick={() => choose({ rows: each })}>{mark(rows === each)}{each}</button>)}
      <div className="label">{session?.version ? `NoETL ${session.version}` : ""}</div>
      <button type="button" onClick={() => void signOut()}><Icon name="sign_out" />Sign out</button>
    </>
  );
}

function Bottom({ pages, inbox, session }: { pages: Page[]; inbox: number; session: Session | undefined }) {
  const rest = pages.filter((page) => !FIRST.includes(page.path));
  return (
    <nav className="bottom" aria-label="Pages">
      {pages.filter((page) => FIRST.includes(page.path)).map((page) => <Place key={page.path} page={page} inbox={inbox} />)}
      <Menu className="place" name="More" align="end" up label={<><Icon name="more" /><span className="word">More</span></>}>
        {rest.map((page) => <Link key={page.path} href={addressOf(page)}><Icon name={page.place!.icon} />{page.title}</Link>)}
        <Looks session={session} />
      </Menu>
    </nav>
  );
}

function Banners() {
  const state = useLiveState();
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    if (state !== "lost") {
      setLate(false);
      return;
    }
    const timer = window.setTimeout(() => setLate(true), 3000);
    return () => window.clearTimeout(timer);
  }, [state]);
  return (
    <div className="banners" role="status">
      {isLate && <div className="banner">The connection to the server is lost. What you see may be old; it is tried again.</div>}
    </div>
  );
}
