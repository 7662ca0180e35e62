// Who is signed in, and what they may do.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { get, remove } from "./client.ts";

export type Grant = { permission: string; places: string[] };
export type Session = {
  user_id: string;
  name: string;
  roles: string[];
  scopes: string[] | null;
  means: string;
  permissions?: Grant[];
  version?: string;
  server_time?: string;
};

export function useSession() {
  return useQuery({
    queryKey: ["session"],
    queryFn: ({ signal }) => get<Session>("sessions/current", {}, signal),
    staleTime: 60_000,
    retry: false,
  });
}

/** Whether a place (`sales/*`, `sales/orders`, `*`) covers a path. */
export function covers(place: string, path: string): boolean {
  if (place === "*") return true;
  if (place.endsWith("/*")) return path.startsWith(place.slice(0, -1));
  return place === path;
}

/** Whether the caller has a permission, at a path or anywhere. */
export function may(session: Session | undefined, permission: string, path?: string): boolean {
  if (!session) return false;
  if (!session.permissions) return true;
  return session.permissions.some(
    (grant) =>
      grant.permission === permission &&
      (path === undefined ? grant.places.length > 0 : grant.places.some((place) => covers(place, path))),
  );
}

/** `can("executions:run", path)`: what this returns false for is not drawn. */
export function useCan(): (permission: string, path?: string) => boolean {
  const { data } = useSession();
  return (permission, path) => may(data, permission, path);
}

export function useSignOut(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    await remove("sessions/current");
    client.clear();
    window.location.assign("/sign-in");
  };
}
