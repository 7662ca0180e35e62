// All pages. A new page is one line here; each is loaded when it is first opened, except
// for the two that most visits begin with: a chunk more is a round trip more for them.

import { lazy, type ComponentType } from "react";
import Execution from "./executions/execution.tsx";
import Executions from "./executions/list.tsx";

export type Group = "work" | "operate" | "access";
export type Page = {
  /** Pattern of the address; `:name` is one segment, `*` any number of them. */
  path: string;
  title: string;
  view: ComponentType;
  /** Shown in the navigation, with its icon. */
  place?: { group: Group; icon: string; address?: string };
  /** Without it the page is in no navigation. */
  permission?: string;
  /** Second key after `g`. */
  key?: string;
};

type Load = () => Promise<{ default: ComponentType }>;
type More = Omit<Page, "path" | "title" | "view">;
const page = (path: string, title: string, load: Load, more: More = {}): Page => ({ path, title, view: lazy(load), ...more });

export const PAGES: Page[] = [
  { path: "/executions", title: "Executions", view: Executions, place: { group: "work", icon: "executions" }, permission: "executions:read", key: "e" },
  { path: "/executions/:id", title: "Execution", view: Execution },
  page("/inbox", "Inbox", () => import("./inbox/inbox.tsx"), { place: { group: "work", icon: "inbox" }, permission: "executions:read", key: "i" }),
  page("/catalog", "Catalog", () => import("./catalog/catalog.tsx"), { place: { group: "work", icon: "catalog" }, permission: "playbooks:read", key: "c" }),
  page("/catalog/-/new", "New playbook", () => import("./catalog/new-playbook.tsx")),
  page("/catalog/*", "Playbook", () => import("./catalog/index.tsx")),
  page("/triggers", "Triggers", () => import("./operate/triggers.tsx"), { place: { group: "operate", icon: "triggers" }, permission: "triggers:read", key: "t" }),
  page("/workers", "Workers", () => import("./operate/workers.tsx"), { place: { group: "operate", icon: "workers" }, permission: "workers:read", key: "w" }),
  page("/keychain", "Keychain", () => import("./access/keychain.tsx"), { place: { group: "operate", icon: "keychain" }, permission: "secrets:read" }),
  page("/users", "Users", () => import("./access/users.tsx"), { place: { group: "access", icon: "users" }, permission: "accounts:manage" }),
  page("/sessions", "Sessions", () => import("./access/sessions.tsx"), { place: { group: "access", icon: "sessions" } }),
  page("/audit", "Audit", () => import("./access/audit.tsx"), { place: { group: "access", icon: "audit" }, permission: "log:export" }),
  page("/settings", "Settings", () => import("./settings.tsx"), { place: { group: "access", icon: "settings" } }),
];
