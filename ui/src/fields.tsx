// Labelled fields that the forms of replays and backfills share.
import { Field, Input, NativeSelect, Textarea } from "@chakra-ui/react";
import type { ReactNode } from "react";
import type { Config } from "./api";
import { FieldError } from "./components";

/** `options`: each value with its label. */
export function SelectField({ label, value, options, set }: { label: string; value: string; options: (readonly [string, string])[]; set: (value: string) => void }) {
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

type TextFieldProps = { label: string; placeholder?: string; value: string; isDisabled?: boolean; type?: "text" | "number" | "datetime-local"; list?: string; set: (text: string) => void };

/** `list`: the id of a datalist. */
export function TextField({ label, placeholder = "", value, isDisabled = false, type = "text", list, set }: TextFieldProps) {
  return (
    <Field.Root width="220px" disabled={isDisabled}>
      <Field.Label>{label}</Field.Label>
      <Input size="sm" type={type} min={type === "number" ? 0 : undefined} step={type === "datetime-local" ? 1 : undefined} list={list} spellCheck={false} autoComplete="off" placeholder={placeholder} value={value} onChange={(event) => set(event.target.value)} />
    </Field.Root>
  );
}

/** Parses lines such as `transforms=d`. `error` is empty for valid lines. */
export function parseSettings(text: string): { settings: Config; error: string } {
  const settings: Config = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return { settings, error: `Expected name=value, such as transforms=d, not ${line}` };
    settings[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return { settings, error: "" };
}

/** A text area for such lines; `children` is the help text. */
export function SettingsField({ label, placeholder, text, set, children }: { label: string; placeholder: string; text: string; set: (text: string) => void; children: ReactNode }) {
  const { error } = parseSettings(text);
  return (
    <Field.Root invalid={error !== ""} maxW="720px" my={2}>
      <Field.Label>{label}</Field.Label>
      <Textarea size="sm" fontFamily="mono" rows={4} spellCheck={false} placeholder={placeholder} value={text} onChange={(event) => set(event.target.value)} />
      <Field.HelperText>{children}</Field.HelperText>
      <FieldError>{error}</FieldError>
    </Field.Root>
  );
}
