// Answers of the catalog's calls.

import type { Picture } from "../../graph/picture.ts";
import type { Diagnostic } from "../../editor/positions.ts";
import type { Schema } from "../../forms/fields.ts";

export type PlaybookLine = {
  playbook_id: string;
  path: string;
  version: string;
  name: string;
  sha256: string;
  registered_at: string;
  registered_by: string | null;
  extensions: string[];
};

export type PlaybookDocument = PlaybookLine & { source: string };

export type FormAnswer = {
  path?: string;
  version?: string;
  fields: Schema;
  required?: string[];
  order?: string[];
  comments?: Record<string, string>;
};

/** A finding about the net; the witness is the steps that a token takes to it. */
export type Finding = Diagnostic & { witness: string[] };

export type ValidateAnswer = {
  valid: boolean;
  diagnostics: Diagnostic[];
  findings?: Finding[] | null;
  graph?: Picture | null;
  form?: FormAnswer | null;
};

export type TestsAnswer = {
  passed: number;
  failed: number;
  tests: { name: string; verdict: string; message?: string | null; ms?: number | null }[];
  diagnostics: (Diagnostic & { file: string })[];
  coverage?: unknown;
};
