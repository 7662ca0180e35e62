// Calls of the HTTP API. A 401 is announced once to the page, which asks for a sign-in.

import { asProblem, Problem, readProblem } from "./problem.ts";

export type Query = Record<string, string | number | boolean | null | undefined | readonly string[]>;
export type Options = { query?: Query; body?: unknown; signal?: AbortSignal; headers?: Record<string, string> };

type Listener = () => void;
const signedOut = new Set<Listener>();

/** Call `listener` at each answer that says the session is over. */
export function onSignedOut(listener: Listener): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

export function announceSignedOut(): void {
  for (const listener of signedOut) listener();
}

export function address(path: string, query: Query = {}): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    if (Array.isArray(value)) for (const each of value) parts.append(name, each);
    else parts.append(name, String(value));
  }
  const text = parts.toString();
  return text ? `/api/${path}?${text}` : `/api/${path}`;
}

/** Path segments of an id or a playbook's path, each escaped. */
export function escapePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

export async function request(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  const init: RequestInit = { method, headers, signal: options.signal ?? null, credentials: "same-origin", redirect: "error" };
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(address(path, options.query), init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw asProblem(error);
  }
  if (response.ok || response.status === 304) return response;
  const problem = await readProblem(response);
  if (problem.isSignedOut && !(method === "POST" && path === "sessions")) announceSignedOut();
  throw problem;
}

export async function call<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const response = await request(method, path, options);
  const text = await response.text();
  return (text ? JSON.parse(text) : null) as T;
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> =>
  call<T>("GET", path, { query, signal });
export const post = <T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> =>
  call<T>("POST", path, { body, signal });
export const put = <T>(path: string, body: unknown = {}): Promise<T> => call<T>("PUT", path, { body });
export const remove = <T>(path: string): Promise<T> => call<T>("DELETE", path);

/** Text of a document that is not JSON, such as the source of a playbook. */
export async function getText(path: string, query?: Query, signal?: AbortSignal): Promise<string> {
  const response = await request("GET", path, { query, signal, headers: { Accept: "*/*" } });
  return response.text();
}

export { Problem };
