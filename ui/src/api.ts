// Requests to Kafka Connect's REST API and to the page's own routes, authenticated by the cookie of Airflow's UI.
import { type Json, parseJson, formatJson } from "./json";

export type Config = Record<string, string>;
export type RunView = { run: string; tasks: number; records: number; bytes: number; seconds: number; cpu_seconds: number; first_ms: number; last_ms: number; failed: number };
/** The last attempt of one Airflow task. `state` is Airflow's, `most` the number of tries allowed. */
export type Attempt = { run: string; task: string; map_index: number; label: string | null; state: string | null; number: number; most: number; next_ms: number | null };
/** Whether a connector delivers, in one word, and why not. */
export type Health = { word: string; reason: string | null };
export type Row = {
  name: string;
  dag_id: string;
  type: string;
  class_name: string;
  version: string | null;
  state: string | null;
  tasks: Record<string, number>;
  may_change: boolean;
  last_run: RunView | null;
  lag: number | null;
  hours: number[];
  plan: { next_run_ms: number | null; owner: string | null; tags: string[]; attempt: Attempt | null; schedule: string | null; is_continuous: boolean } | null;
  has_dag: boolean | null;
  health: Health | null;
  left: number | null;
  left_unit: string | null;
};
/** Rows from `offset` on of the `matching` ones, of `total`. `changeable`: how many the user may change. `states`: the number of connectors by state. */
export type Overview = {
  connectors: Row[];
  may_create: boolean;
  may_administer: boolean;
  may_read_all: boolean;
  offset: number;
  matching: number;
  total: number;
  changeable: number;
  states: Record<string, number>;
};
/** The connectors that the user may change; `matches`: it fits the filters. */
export type Names = { connectors: { name: string; state: string | null; matches: boolean }[] };
export type LoggerLevel = { level: string | null; last_modified?: number | null };
/** Totals of the current runs; null: unknown. */
export type Progress = { records: number | null; bytes: number | null; rate: number | null; left: number | null; seconds_left: number | null; left_unit: string | null; failed: number | null };
/** What a connector reads or writes outside of Kafka, under OpenLineage's names. */
export type Dataset = { namespace: string; name: string };
/** `dag_config`: the `airflow.*` keys, which Kafka Connect's responses leave out. */
export type Detail = {
  row: Row;
  target: "STARTED" | "PAUSED" | "STOPPED";
  may_delete: boolean;
  defined_in: string | null;
  runs: RunView[];
  attempts: Attempt[];
  progress: Progress | null;
  dag_config: Config;
  failed_runs: { run: string; ended_ms: number }[];
  datasets: Dataset[];
};
export type Prices = { cpu_hour: number; task_hour: number; gigabyte: number; currency: string };
export type Cost = { runs: number; records: number; bytes: number; seconds: number; cpu_seconds: number; money: number | null };
export type Costs = { prices: Prices; days: { day: string; cost: Cost }[]; runs: { run: string; cost: Cost }[]; total: Cost };
export type Status = {
  name: string;
  type: string;
  connector: { state: string; worker_id: string; version?: string; trace?: string };
  tasks: { id: number; state: string; worker_id: string; version?: string; trace?: string }[];
};
export type Offset = { partition: Record<string, Json>; offset: Record<string, Json> | null };
export type Lag = { partitions: { topic: string; partition: number; position: number | null; end: number; lag: number | null }[]; lag: number | null; left_out: number };
/** The largest distance in each step; null: not measured. Empty `distances`: the server keeps no history. */
export type LagHistory = { from_ms: number; step_ms: number; unit: string | null; distances: (number | null)[] };
export type Texts = Record<string, string | null>;
export type DeadLetter = { partition: number; offset: number; timestamp: number; key: string | null; value: string | null; errors: Texts; headers: Texts; is_whole: boolean; is_replayed: boolean };
export type DeadLetters = { topic: string | null; has_headers: boolean; records: DeadLetter[]; is_whole: boolean; left_out: number };
/** Replacement text by part; null replaces the part with null. */
export type Edit = { key?: string | null; value?: string | null };
export type ReplayRequest = { offsets: string[]; from_topics: string[]; exceptions: string[]; topic: string | null; edits: Record<string, Edit>; transforms: Config };
export type Replay = { connector: string; replay: string; records: number; is_done: boolean; state: string | null; failure: string | null; preview?: Preview };
export type ReplayView = { replay: Replay | null; connector: string; dag_id: string; run: string | null; may_replay: boolean };
/** A bound is an offset, or a time in ISO 8601. */
export type RequestedRange = { topic?: string; partition?: number; from?: number | string; to?: number | string };
type At = { kafka_offset: number };
export type BackfillRange = { partition: { kafka_topic: string; kafka_partition: number }; from: At; to: At; position: At };
export type Backfill = { name: string; of: string; state: string; is_done: boolean | null; left: number | null; ranges: BackfillRange[] };
export type BackfillRow = { backfill: Backfill; dag_id: string; may_delete: boolean; last_run: RunView | null };
export type BackfillRows = { backfills: BackfillRow[]; may_create: boolean; of: string | null };
export type ConfigRevision = {
  revision: number;
  at_ms: number;
  who: string | null;
  changes: { key: string; old: string | null; new: string | null }[];
  config: Config | null;
  note?: string;
};
export type OffsetMove = { partition: Record<string, Json>; old: Record<string, Json> | null; new: Record<string, Json> | null };
export type OffsetChange = { entry: number; from_ms: number; to_ms: number; who: string | null; run: string | null; moves: OffsetMove[] };
export type OffsetReturn = { partition: Record<string, Json>; now: Record<string, Json> | null; then: Record<string, Json> | null; effect: string; records: number | null };
export type OffsetUndo = { to_ms: number; dry_run: boolean; returns: OffsetReturn[]; left_out?: number; message: string };
export type Comparison = {
  old_version: string;
  new_version: string;
  records: number;
  equal_records: number;
  differences: { subject: string; change: string; topic: string; path: string; old: string | null; new: string | null }[];
  has_seen_enough: boolean;
};
export type Upgrade = { state: string; to: string; old: string; new: string; reason: string; changed_ms: number };
export type Plugin = { class: string; type: string; version?: string };
export type ConnectorClass = { class: string; type: string; version: string; summary: string | null };
export type Definition = {
  name: string;
  type: string;
  required: boolean;
  default_value: string | null;
  importance: string;
  documentation: string;
  group: string | null;
  order_in_group?: number;
  order?: number;
  display_name: string;
  dependents: string[];
};
export type Value = { name: string; value: string | null; recommended_values: string[]; errors: string[]; visible: boolean };
export type Validation = { name: string; error_count: number; groups: string[]; configs: { definition: Definition | null; value: Value }[] };
export type ValidationResult = { validation: Validation; warnings: string[] };
export type PreviewedRecord = {
  task: number;
  topic: string;
  partition: number | null;
  timestamp: Json;
  key: Json;
  value: Json;
  headers: { key: string; value: Json }[];
  is_cut: boolean;
  source_offset: Json;
};
export type PreviewedStep = {
  alias: string;
  class_name: string;
  outcome: "applied" | "skipped" | "dropped" | "failed";
  predicate: string | null;
  records: PreviewedRecord[];
  error: string | null;
};
export type PreviewedSteps = { read: PreviewedRecord; transforms: PreviewedStep[]; is_cut: boolean };
export type Preview = {
  read: number;
  seconds: number;
  skipped: number;
  failures: string[];
  tasks: { task: number; records: number; end: string; config: Config }[];
  topics: { topic: string; records: number; bytes: number; key: Record<string, string>; value: Record<string, string> }[];
  records: PreviewedRecord[];
  steps?: PreviewedSteps[];
  missing?: string; // what a run would wait for
};

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Whether a server without Airflow serves the page: it has the API at its root, and no DAGs, runs or histories. */
export const isStandalone = document.documentElement.dataset["connect"] === "standalone";
const API = isStandalone ? "" : "connect/";

const segment = encodeURIComponent;
export const connectorPath = (name: string, rest = "") => `connectors/${segment(name)}${rest}`;
export const pluginPath = (plugin: string, rest: string) => `connector-plugins/${segment(plugin)}/config${rest}`;

function redirectToLogin(): never {
  if (isStandalone) throw new ApiError(401, "Signed out. Reload this page.");
  const next = encodeURIComponent(window.location.href);
  window.location.assign(new URL(`api/v2/auth/login?next=${next}`, document.baseURI));
  throw new ApiError(401, "Signed out");
}

async function send(path: string, method: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, headers: { Accept: "application/json" }, credentials: "same-origin", signal: signal ?? null };
  if (method !== "GET") {
    init.headers = { Accept: "application/json", "Content-Type": "application/json" };
    if (body !== undefined) init.body = formatJson(body);
  }
  let response: Response;
  try {
    response = await fetch(new URL(`${API}${path}`, document.baseURI), init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, isStandalone ? "The server is not responding" : "Airflow's API server is not responding");
  }
  if (response.status === 401) redirectToLogin();
  if (!response.ok) throw new ApiError(response.status, await errorMessage(response));
  return response;
}

async function errorMessage(response: Response): Promise<string> {
  try {
    const { message } = (await response.json()) as { message?: unknown };
    if (typeof message === "string" && message) return message;
  } catch {
    // not JSON: a proxy's page
  }
  return `The server returned HTTP status ${response.status}`;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return parseJson(await (await send(path, "GET", undefined, signal)).text()) as T;
}

export async function change(method: "POST" | "PUT" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<unknown> {
  const text = await (await send(path, method, body)).text();
  return text ? parseJson(text) : null;
}

export async function validate(config: Config, signal: AbortSignal): Promise<ValidationResult> {
  const response = await send(pluginPath(config["connector.class"] ?? "", "/validate"), "PUT", config, signal);
  const warnings = response.headers.get("X-Config-Warnings");
  return { validation: (await response.json()) as Validation, warnings: warnings ? (JSON.parse(warnings) as string[]) : [] };
}

export const errorText = (error: unknown) => (error instanceof Error ? error.message : String(error));
