// A connector's config: view and form. Only changed keys are sent, so keys that the page does not show stay as they are.
import { Box, Button, HStack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { change, type Config, connectorPath, isStandalone, type Row, errorText } from "./api";
import { ConfigForm, isSecret, useValidation, ValidationSummary } from "./form";
import { ConfigHistory } from "./history";
import { Confirm, Problem, type Question, type Message, Loading } from "./components";
import { usePolling } from "./polling";
import { useDryRun } from "./preview";
import { Versions } from "./upgrade";

/** `dagConfig`: the settings of the connector's DAG, which Kafka Connect's response leaves out. */
export function ConfigTab({ row, dagConfig, definedIn, notify }: { row: Row; dagConfig: Config; definedIn: string | null; notify: (message: Message) => void }) {
  const { value: connectorConfig, error, reload } = usePolling<Config>(connectorPath(row.name, "/config"), 10);
  const value = connectorConfig && { ...connectorConfig, ...dagConfig };
  const [edited, setEdited] = useState<{ config: Config; from: Config } | null>(null);
  if (!value) return error ? <Problem title="Cannot load the config">{error}</Problem> : <Loading what="Loading config…" />;
  if (edited) {
    return (
      <Editor
        row={row}
        edited={edited.config}
        before={edited.from}
        set={(config) => setEdited({ ...edited, config })}
        close={() => {
          setEdited(null);
          reload();
        }}
        notify={notify}
      />
    );
  }
  return (
    <Box>
      <Table.Root size="sm" aria-label="Config">
        <Table.Header>
          <Table.Row>
            <Table.ColumnHeader>Setting</Table.ColumnHeader>
            <Table.ColumnHeader>Value</Table.ColumnHeader>
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {Object.keys(value)
            .sort()
            .map((key) => (
              <Table.Row key={key}>
                <Table.Cell wordBreak="break-all">{key}</Table.Cell>
                <Table.Cell wordBreak="break-all" whiteSpace="pre-wrap">
                  {value[key]}
                </Table.Cell>
              </Table.Row>
            ))}
        </Table.Body>
      </Table.Root>
      {row.may_change && !definedIn ? (
        <Button size="xs" mt={2} onClick={() => setEdited({ config: value, from: value })}>
          Edit config
        </Button>
      ) : null}
      <Versions row={row} mayChange={row.may_change} notify={notify} />
      {isStandalone ? null : <ConfigHistory row={row} mayChange={row.may_change && !definedIn} notify={notify} />}
    </Box>
  );
}

/** The settings of `after` that differ from `before`; null: removed. */
export function difference(before: Config, after: Config): Record<string, string | null> {
  const changed: Record<string, string | null> = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (before[key] !== after[key]) changed[key] = after[key] ?? null;
  }
  return changed;
}

type EditorProps = { row: Row; edited: Config; before: Config; set: (config: Config) => void; close: () => void; notify: (message: Message) => void };

function Editor({ row, edited, before, set, close, notify }: EditorProps) {
  const { checked, error, isCurrent } = useValidation({ ...edited, name: row.name });
  const [question, setQuestion] = useState<Question | null>(null);
  const dryRun = useDryRun(row.name, edited, (failure) => notify(failure === null ? null : { kind: "error", text: failure }));
  const changed = difference(before, edited);
  const keys = Object.keys(changed);
  const isValid = isCurrent && checked?.validation.error_count === 0;
  const save = async () => {
    try {
      await change("PATCH", connectorPath(row.name, "/config"), changed);
      notify({ kind: "success", text: "Config changed." });
      close();
    } catch (failure) {
      notify({ kind: "error", text: errorText(failure) });
    }
  };
  const isHidden = (key: string) =>
    isSecret(key, before) || (checked?.validation.configs.some((each) => each.definition?.name === key && each.definition.type === "PASSWORD") ?? false);
  const line = (key: string) => {
    if (isHidden(key)) return `${key}: secret ${changed[key] === null ? "removed" : "changed"}`;
    return `${key}: ${before[key] ?? "not set"} → ${changed[key] ?? "not set"}`;
  };
  const ask = () =>
    setQuestion({
      title: `Change ${keys.length} ${keys.length === 1 ? "setting" : "settings"} of ${row.name}?`,
      text: keys.map(line).join("\n"),
      label: "Change config",
      act: save,
    });
  return (
    <Box>
      <ConfigForm config={edited} stored={before} set={set} checked={checked} error={error} />
      {dryRun.result}
      <HStack position="sticky" bottom={0} bg="bg" py={2}>
        <Button size="sm" disabled={!keys.length || !isValid} onClick={ask}>
          Change config
        </Button>
        {dryRun.button(!isValid)}
        <Button size="sm" variant="outline" onClick={close}>
          Cancel
        </Button>
        <ValidationSummary checked={checked} isCurrent={isCurrent} />
        <Text fontSize="sm">{keys.length ? `${keys.length} changed` : "no changes"}</Text>
      </HStack>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}
