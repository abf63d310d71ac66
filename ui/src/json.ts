// JSON in which whole numbers of any size stay as they are written. JavaScript's own reader rounds those beyond 2^53, such as ids of 64 bits.

/** A whole number that JavaScript would round. */
export class Exact {
  constructor(readonly digits: string) {}
}

export type Json = null | boolean | number | string | Exact | Json[] | { [key: string]: Json };

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
const MANY_DIGITS = /\d{16}/;

/** The value of a text. Raises SyntaxError. */
export function parsed(text: string): Json {
  const value = JSON.parse(text) as Json;
  if (!MANY_DIGITS.test(text)) return value;
  // each string gets a letter before it, and so does a number that is read as a string: no text of others is taken for a number
  const marked = text.replace(TOKEN, (token) => {
    if (token.startsWith('"')) return `"s${token.slice(1)}`;
    return /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"n${token}"` : token;
  });
  return unmarked(JSON.parse(marked) as Json);
}

function unmarked(value: Json): Json {
  if (typeof value === "string") return value.startsWith("n") ? new Exact(value.slice(1)) : value.slice(1);
  if (Array.isArray(value)) return value.map(unmarked);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key.slice(1), unmarked(each)]));
}

/** The text of a value, without spaces. */
export function written(value: unknown): string {
  if (value instanceof Exact) return value.digits;
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value ?? null);
  const fields = Object.entries(value).filter(([, each]) => each !== undefined);
  return `{${fields.map(([key, each]) => `${JSON.stringify(key)}:${written(each)}`).join(",")}}`;
}
