// Forms about secrets and accounts, in the words of the API.

import type { Schema } from "../../forms/fields.ts";

const BINDINGS: Schema = {
  type: "array",
  title: "for playbooks",
  items: { type: "string", minLength: 1 },
  description: "Paths such as finance/*. Empty: as before, or all where you may store secrets.",
};

export const TEXT_SECRET: Schema = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 255 },
    value: { type: "string", minLength: 1, secret: true, description: "No page and no answer ever shows it." },
    kind: { type: "string", default: "secret_manager" },
    for: BINDINGS,
  },
  required: ["name", "value", "kind"],
};

export const CREDENTIAL: Schema = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 255 },
    kind: { type: "string", minLength: 1, default: "postgres_credential" },
    value: { type: "string", minLength: 2, secret: true, description: 'Its fields as one JSON object: {"user": "…", "password": "…"}' },
    for: BINDINGS,
  },
  required: ["name", "kind", "value"],
};

export const USER: Schema = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 255 },
    roles: { type: "array", items: { type: "string", minLength: 1 }, minItems: 1, default: ["viewer"], description: "Such as viewer, or operator:finance/*" },
    password: { type: "string", secret: true, description: "Empty for an account that uses tokens only." },
    email: { type: "string" },
    display_name: { type: "string", title: "display name" },
  },
  required: ["name", "roles"],
};

export const ROLES: Schema = {
  type: "object",
  properties: { roles: { type: "array", items: { type: "string", minLength: 1 }, description: "Such as viewer, or operator:finance/*" } },
  required: ["roles"],
};

export const PASSWORD: Schema = {
  type: "object",
  properties: { password: { type: "string", minLength: 1, secret: true } },
  required: ["password"],
};
