// Numbers, times and states as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const cents = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const small = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 });

export const count = (value: number) => (value < 100_000 ? whole.format(value) : short.format(value));

/** An amount of money with two decimals, or up to six for small amounts. */
export const money = (value: number) => (value !== 0 && value < 1 ? small : cents).format(value);

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let left = value;
  while (left >= 1000 && at < units.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${at && left < 10 ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}

/** A number of records, or of bytes if that is the unit. */
export const quantity = (value: number, unit: string | null) => (unit === "bytes" ? bytes(value) : count(value));

export function ago(ms: number, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

/** The time until a planned run; past times are due, waiting for the scheduler. */
export function timeUntil(ms: number, now = Date.now()): string {
  const seconds = Math.round((ms - now) / 1000);
  if (seconds <= 0) return "due now";
  if (seconds < 60) return `in ${seconds} s`;
  if (seconds < 3600) return `in ${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `in ${Math.round(seconds / 3600)} h`;
  return `in ${Math.round(seconds / 86_400)} days`;
}

/** A length of time. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

const TAGS = /<\/?(?:a|b|br|code|em|h[1-6]|i|li|ol|p|pre|span|strong|table|tbody|td|th|thead|tr|tt|u|ul)(?:\s[^<>]*)?\/?>/gi;
const ENTITIES: Record<string, string> = { amp: "&", apos: "'", gt: ">", lt: "<", nbsp: " ", quot: '"', "#39": "'" };

/** The text of a description that may contain HTML, as those of Java connectors do. The result is still shown as plain text. */
export const stripHtml = (text: string) => text.replace(TAGS, " ").replace(/&([a-z]+|#39);/g, (whole, name: string) => ENTITIES[name] ?? whole).replace(/ {2,}/g, " ").trim();

/** The first line of a message or trace. If it ends with a colon, the line that it announces follows it. */
export function firstLine(text: string): string {
  const lines = text.trim().split("\n");
  let line = lines[0] ?? "";
  for (const next of lines.slice(1)) {
    if (!line.endsWith(":") || /^(\tat |    at |Traceback \(most recent call last\))/.test(next)) break;
    line = `${line} ${next.trim()}`.trim();
  }
  return line;
}

export const shortClass = (name: string) => name.slice(name.lastIndexOf(".") + 1);

const PALETTES: Record<string, string> = { RUNNING: "green", PAUSED: "yellow", STOPPED: "gray", FAILED: "red", UNASSIGNED: "blue", RESTARTING: "blue" };
const MARKS: Record<string, string> = { RUNNING: "▶", PAUSED: "❚❚", STOPPED: "■", FAILED: "✖", UNASSIGNED: "…", RESTARTING: "↻" };
/** From worst to best, as the server has them. */
export const HEALTHS = ["failing", "waiting", "stuck", "missing", "refusing", "behind", "idle", "healthy"];
export const STATES = Object.keys(PALETTES);
export const palette = (state: string | null) => PALETTES[state ?? ""] ?? "gray";
export const mark = (state: string | null) => MARKS[state ?? ""] ?? "?";
