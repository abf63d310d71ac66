// Labelled fields that the forms of replays and backfills share.
import { Field, Input, NativeSelect, Textarea } from "@chakra-ui/react";
import type { ReactNode } from "react";
import type { Config } from "./api";

/** `options` are values with the texts that are shown. */
export function Choice({ label, value, options, set }: { label: string; value: string; options: (readonly [string, string])[]; set: (value: string) => void }) {
  return (
    <Field.Root width="auto">
      <Field.Label>{label}</Field.Label>
      <NativeSelect.Root size="sm" width="auto">
        <NativeSelect.Field value={value} onChange={(event) => set(event.currentTarget.value)}>
          {options.map(([option, text]) => (
            <option key={option} value={option}>
              {text}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
    </Field.Root>
  );
}

type TypedParts = { label: string; hint?: string; value: string; isDisabled?: boolean; type?: "text" | "number" | "datetime-local"; list?: string; set: (text: string) => void };

/** `list`: the id of a datalist. */
export function Typed({ label, hint = "", value, isDisabled = false, type = "text", list, set }: TypedParts) {
  return (
    <Field.Root width="220px" disabled={isDisabled}>
      <Field.Label>{label}</Field.Label>
      <Input size="sm" type={type} min={type === "number" ? 0 : undefined} step={type === "datetime-local" ? 1 : undefined} list={list} spellCheck={false} autoComplete="off" placeholder={hint} value={value} onChange={(event) => set(event.target.value)} />
    </Field.Root>
  );
}

/** Settings of lines such as `transforms=d`, and what is wrong with the lines. */
export function settingsOf(text: string): { settings: Config; wrong: string } {
  const settings: Config = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return { settings, wrong: `${line} is no setting, such as transforms=d` };
    settings[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return { settings, wrong: "" };
}

/** A text of such lines; `children` is what helps. */
export function SettingLines({ label, hint, text, set, children }: { label: string; hint: string; text: string; set: (text: string) => void; children: ReactNode }) {
  const { wrong } = settingsOf(text);
  return (
    <Field.Root invalid={wrong !== ""} maxW="720px" my={2}>
      <Field.Label>{label}</Field.Label>
      <Textarea size="sm" fontFamily="mono" rows={4} spellCheck={false} placeholder={hint} value={text} onChange={(event) => set(event.target.value)} />
      <Field.HelperText>{children}</Field.HelperText>
      <Field.ErrorText>{wrong}</Field.ErrorText>
    </Field.Root>
  );
}
