// The config form, built from the plugin's definitions and validated by the server while the user types.
import { Alert, Box, Button, Field, Heading, HStack, Input, NativeSelect, Text } from "@chakra-ui/react";
import { useEffect, useMemo, useState } from "react";
import { ApiError, type ValidationResult, type Config, type Definition, errorText, validate, type Value } from "./api";
import { FieldError, Problem } from "./components";
import { stripHtml } from "./format";

const DEBOUNCE_MS = 400;
const RETRY_MS = 5000;
const HIDDEN = "[hidden]"; // the server sends this in place of a secret, and keeps the stored secret when it receives it

type Answer = { checked: ValidationResult | undefined; error: string | undefined; isForbidden: boolean; isCurrent: boolean };

/** Validates `config` on the server once it has not changed for `DEBOUNCE_MS`. `isForbidden`: the user may not create or change a connector of that name. */
export function useValidation(config: Config): Answer {
  const [answer, setAnswer] = useState<{ of: string; checked?: ValidationResult; error?: string; isForbidden?: boolean }>();
  const [last, setLast] = useState<ValidationResult>();
  const text = JSON.stringify(config);
  useEffect(() => {
    const aborter = new AbortController();
    let timer = 0;
    const ask = () => {
      validate(JSON.parse(text) as Config, aborter.signal).then(
        (checked) => {
          setAnswer({ of: text, checked });
          setLast(checked);
        },
        (error: unknown) => {
          if (aborter.signal.aborted) return;
          setAnswer({ of: text, error: errorText(error), isForbidden: error instanceof ApiError && error.status === 403 });
          const isRefused = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
          if (!isRefused) timer = window.setTimeout(ask, RETRY_MS); // the plugin may respond when the machine is less busy
        },
      );
    };
    timer = window.setTimeout(ask, DEBOUNCE_MS);
    return () => {
      window.clearTimeout(timer);
      aborter.abort();
    };
  }, [text]);
  return {
    checked: answer?.checked ?? last,
    error: answer?.error,
    isForbidden: answer?.isForbidden ?? false,
    isCurrent: answer?.of === text && answer.checked !== undefined,
  };
}

type Key = { definition: Definition; value: Value };

const NO_CONFIG: Config = {};

type FormProps = { config: Config; stored?: Config; set: (config: Config) => void; checked: ValidationResult | undefined; error: string | undefined };

/** `stored`: the connector's config as the server returns it; empty for a new connector. */
export function ConfigForm({ config, stored = NO_CONFIG, set, checked, error }: FormProps) {
  const [search, setSearch] = useState("");
  const [all, setAll] = useState(false);
  const [added, setAdded] = useState("");
  const errors = new Map(checked?.validation.configs.map(({ value }) => [value.name, value.errors]));
  const { groups, unknown, hidden } = useMemo(() => groupSettings(config, stored, checked, search, all), [config, stored, checked, search, all]);
  const put = (key: string, value: string | undefined) => {
    const after = { ...config };
    if (value === undefined) delete after[key];
    else after[key] = value;
    set(after);
  };
  return (
    <Box>
      {error ? <Problem title="Cannot validate the config">{error}</Problem> : null}
      {checked?.warnings.length ? (
        <Alert.Root status="warning" my={2} role="status">
          <Alert.Indicator />
          <Alert.Content>
            {checked.warnings.map((warning) => (
              <Alert.Description key={warning}>{warning}</Alert.Description>
            ))}
          </Alert.Content>
        </Alert.Root>
      ) : null}
      <HStack wrap="wrap" my={2}>
        <Input size="sm" maxW="280px" aria-label="Search settings" placeholder="Search settings" value={search} onChange={(event) => setSearch(event.target.value)} />
        <Button size="xs" variant="outline" aria-pressed={all} onClick={() => setAll(!all)}>
          {all ? "Only important or set" : `All settings${hidden ? ` (${hidden} more)` : ""}`}
        </Button>
      </HStack>
      {groups.map(([group, keys]) => (
        <Box key={group} as="section" mb={4}>
          <Heading as="h3" size="sm" mb={1}>
            {group}
          </Heading>
          {keys.map((key) => (
            <Setting key={key.definition.name} of={key} given={config[key.definition.name]} isStored={stored[key.definition.name] === HIDDEN} put={put} />
          ))}
        </Box>
      ))}
      <Box as="section" mb={4}>
        <Heading as="h3" size="sm" mb={1}>
          Other settings
        </Heading>
        {unknown.map((key) => (
          <HStack key={key} mb={1}>
            <Field.Root invalid={Boolean(errors.get(key)?.length)}>
              <Field.Label>{key}</Field.Label>
              {isSecret(key, stored) ? (
                <Secret given={config[key]} isStored={stored[key] === HIDDEN} set={(text) => put(key, text ?? "")} />
              ) : (
                <Input size="sm" autoComplete="off" value={config[key] ?? ""} onChange={(event) => put(key, event.target.value)} />
              )}
              {errors.get(key)?.map((error) => <FieldError key={error}>{error}</FieldError>)}
            </Field.Root>
            <Button size="xs" variant="outline" alignSelf="end" onClick={() => put(key, undefined)}>
              Remove <span className="connect-hidden">{key}</span>
            </Button>
          </HStack>
        ))}
        <HStack>
          <Input
            size="sm"
            maxW="280px"
            aria-label="Name of another setting"
            placeholder="Name, such as transforms"
            value={added}
            onChange={(event) => setAdded(event.target.value)}
          />
          <Button
            size="xs"
            variant="outline"
            disabled={!added.trim() || added.trim() in config}
            onClick={() => {
              put(added.trim(), "");
              setAdded("");
            }}
          >
            Add setting
          </Button>
        </HStack>
      </Box>
    </Box>
  );
}

/** Whether a value must not be shown: the server hides it, or its key looks like that of a secret. */
export const isSecret = (key: string, stored: Config) => stored[key] === HIDDEN || /password|secret|token|credential|private/i.test(key);

/** A field for a secret, which the server never returns. An empty field keeps the stored secret. */
function Secret({ given, isStored, set }: { given: string | undefined; isStored: boolean; set: (text: string | undefined) => void }) {
  return (
    <Input
      size="sm"
      type="password"
      autoComplete="new-password"
      placeholder={given === HIDDEN ? "unchanged" : ""}
      value={given === HIDDEN ? "" : (given ?? "")}
      onChange={(event) => set(event.target.value || (isStored ? HIDDEN : undefined))}
    />
  );
}

/** The visible settings by group in the server's order, the config's keys without a definition, and the number of hidden settings. */
function groupSettings(config: Config, stored: Config, checked: ValidationResult | undefined, search: string, all: boolean) {
  const groups = new Map<string, Key[]>();
  const defined = new Set<string>(["connector.class", "name"]);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  let hidden = 0;
  for (const { definition, value } of checked?.validation.configs ?? []) {
    if (!definition) continue;
    defined.add(definition.name);
    if (definition.name === "connector.class" || definition.name === "name" || !value.visible) continue;
    const text = `${definition.name} ${definition.display_name} ${definition.documentation}`.toLowerCase();
    const matters = all || words.length > 0 || definition.name in config || definition.name in stored || definition.required || definition.importance === "HIGH" || value.errors.length > 0;
    if (!matters) hidden += 1;
    if (!matters || !words.every((word) => text.includes(word))) continue;
    const group = definition.group ?? "Settings";
    groups.set(group, [...(groups.get(group) ?? []), { definition, value }]);
  }
  const order = (key: Key) => key.definition.order_in_group ?? key.definition.order ?? 0;
  const sorted = [...groups].map(([group, keys]) => [group, keys.sort((one, other) => order(one) - order(other))] as const);
  return { groups: sorted, unknown: Object.keys(config).filter((key) => !defined.has(key)), hidden };
}

type SettingProps = { of: Key; given: string | undefined; isStored: boolean; put: (key: string, value: string | undefined) => void };

/** `isStored`: the server stores a secret for this setting. */
function Setting({ of: { definition, value }, given, isStored, put }: SettingProps) {
  const { name, type } = definition;
  const list = `connect-values-${name}`;
  const fallback = definition.default_value;
  const placeholder = fallback === null || fallback === "" ? "" : `default: ${fallback}`;
  const change = (text: string) => put(name, text === "" ? undefined : text);
  return (
    <Field.Root invalid={value.errors.length > 0} required={definition.required} mb={2} maxW="720px">
      <Field.Label>
        {name}
        <Field.RequiredIndicator />
      </Field.Label>
      {type === "BOOLEAN" ? (
        <NativeSelect.Root size="sm">
          <NativeSelect.Field value={given ?? ""} onChange={(event) => change(event.currentTarget.value)}>
            <option value="">{placeholder || "not set"}</option>
            <option>true</option>
            <option>false</option>
          </NativeSelect.Field>
          <NativeSelect.Indicator />
        </NativeSelect.Root>
      ) : type === "PASSWORD" || isStored ? (
        <HStack width="100%">
          <Secret given={given} isStored={isStored} set={(text) => put(name, text)} />
          {isStored ? (
            <Button size="xs" variant="outline" onClick={() => put(name, given === undefined ? HIDDEN : undefined)}>
              {given === undefined ? "Keep" : "Remove"} <span className="connect-hidden">{name}</span>
            </Button>
          ) : null}
        </HStack>
      ) : (
        <Input
          size="sm"
          autoComplete="off"
          spellCheck={false}
          placeholder={placeholder}
          list={value.recommended_values.length ? list : undefined}
          value={given ?? ""}
          onChange={(event) => change(event.target.value)}
        />
      )}
      {value.recommended_values.length && type !== "BOOLEAN" ? (
        <datalist id={list}>
          {value.recommended_values.slice(0, 200).map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      ) : null}
      {definition.documentation ? <Field.HelperText>{stripHtml(definition.documentation)}</Field.HelperText> : null}
      {value.errors.map((each) => (
        <FieldError key={each}>{each}</FieldError>
      ))}
    </Field.Root>
  );
}

/** The number of validation errors. */
export function ValidationSummary({ checked, isCurrent }: { checked: ValidationResult | undefined; isCurrent: boolean }) {
  const errors = checked?.validation.error_count;
  return (
    <Text aria-live="polite" fontSize="sm">
      {!isCurrent || errors === undefined ? "Validating…" : errors ? `${errors} ${errors === 1 ? "error" : "errors"}` : "No errors"}
    </Text>
  );
}
