// Forms of triggers, in the words of the API.

import type { Schema } from "../../forms/fields.ts";

const FIRST: Schema = {
  name: { type: "string", minLength: 1, maxLength: 63, pattern: "^[a-z0-9][a-z0-9._-]*$", description: "Lower case letters, digits, . _ -" },
  playbook: { type: "string", minLength: 1, description: "A path, or path@version." },
};

const LAST: Schema = {
  workload: { type: "object", description: "Inputs, as JSON; values may be templates." },
};

const SCHEDULE: Schema = {
  cron: { type: "string", minLength: 1, description: "Minute, hour, day, month, day of the week: 0 3 * * 1-5" },
  zone: { type: "string", minLength: 1, default: "UTC", description: "Such as Europe/Berlin." },
  catch_up: { enum: ["last", "all", "none"], default: "last", description: "Slots of an outage that run after it." },
  overlap: { type: "boolean", default: true, description: "The next one may begin before the end of the one before." },
};

const WEBHOOK: Schema = {
  verify: { enum: ["token", "signature"], default: "token", description: "How a sender proves itself." },
  key: { type: "string", description: "A template: deliveries with the same key are one." },
  rate: { type: "string", description: "The most deliveries: 10/m" },
};

const FINISHED: Schema = {
  path: { type: "string", minLength: 1, description: "A playbook, or sales/* for all below." },
  status: { type: "array", items: { enum: ["completed", "failed", "cancelled"] }, default: ["completed"] },
};

export type TriggerKind = "schedule" | "webhook" | "finished";
const PARTS: Record<TriggerKind, { properties: Schema; required: string[] }> = {
  schedule: { properties: SCHEDULE, required: ["cron", "zone", "catch_up"] },
  webhook: { properties: WEBHOOK, required: ["verify"] },
  finished: { properties: FINISHED, required: ["path"] },
};

/** The form of a trigger of this kind. */
export function triggerSchema(kind: TriggerKind): Schema {
  const part = PARTS[kind];
  const source = { type: "object", title: kind, properties: part.properties, required: part.required };
  return { type: "object", properties: { ...FIRST, [kind]: source, ...LAST }, required: ["name", "playbook", kind] };
}

export const BACKFILL: Schema = {
  type: "object",
  properties: {
    since: { type: "string", minLength: 1, description: "A day or a time: 2026-01-01" },
    until: { type: "string", description: "Empty for now." },
    at_once: { type: "integer", minimum: 1, maximum: 50, default: 4, description: "Executions that run at the same time." },
    failed: { type: "boolean", default: false, description: "Also slots whose latest execution failed." },
  },
  required: ["since"],
};
