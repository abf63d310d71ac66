// JSON that keeps integers of any size. JavaScript's own parser rounds those beyond 2^53, such as 64-bit IDs.

/** An integer that JavaScript would round. */
export class ExactInteger {
  constructor(readonly digits: string) {}
}

export type Json = null | boolean | number | string | ExactInteger | Json[] | { [key: string]: Json };

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
const LONG_NUMBER = /\d{16}/;

/** Parses JSON text. Throws SyntaxError. */
export function parseJson(text: string): Json {
  const value = JSON.parse(text) as Json;
  if (!LONG_NUMBER.test(text)) return value;
  // prefix strings with s, and large integers, parsed as strings, with n: no string in the input can be mistaken for a number
  const marked = text.replace(TOKEN, (token) => {
    if (token.startsWith('"')) return `"s${token.slice(1)}`;
    return /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"n${token}"` : token;
  });
  return unmark(JSON.parse(marked) as Json);
}

function unmark(value: Json): Json {
  if (typeof value === "string") return value.startsWith("n") ? new ExactInteger(value.slice(1)) : value.slice(1);
  if (Array.isArray(value)) return value.map(unmark);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key.slice(1), unmark(each)]));
}

/** Formats a value as JSON without spaces. */
export function formatJson(value: unknown): string {
  if (value instanceof ExactInteger) return value.digits;
  if (Array.isArray(value)) return `[${value.map(formatJson).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  const fields = Object.entries(value).filter(([, each]) => each !== undefined);
  return `{${fields.map(([key, each]) => `${JSON.stringify(key)}:${formatJson(each)}`).join(",")}}`;
}
