// A connector's config: read, and changed by its form. Only what changed is sent, so keys that are not shown stay.
import { Box, Button, HStack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { change, type Config, connectorPath, isAlone, type Row, textOf } from "./api";
import { ConfigForm, isSecret, useChecked, Verdict } from "./form";
import { ConfigHistory } from "./history";
import { Confirm, Problem, type Question, type Said, Waiting } from "./parts";
import { usePolled } from "./polled";
import { useDryRun } from "./preview";
import { Versions } from "./upgrade";

/** `dagConfig`: the settings of the connector's DAG, which Kafka Connect's answer does not have. */
export function ConfigTab({ row, dagConfig, definedIn, say }: { row: Row; dagConfig: Config; definedIn: string | null; say: (said: Said) => void }) {
  const { value: connectorConfig, error, reload } = usePolled<Config>(connectorPath(row.name, "/config"), 10);
  const value = connectorConfig && { ...connectorConfig, ...dagConfig };
  const [edited, setEdited] = useState<{ config: Config; from: Config } | null>(null);
  if (!value) return error ? <Problem title="The config cannot be shown">{error}</Problem> : <Waiting what="Reading the config" />;
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
        say={say}
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
      <Versions row={row} mayChange={row.may_change} say={say} />
      {isAlone ? null : <ConfigHistory row={row} mayChange={row.may_change && !definedIn} say={say} />}
    </Box>
  );
}

/** The settings that differ; null: removed. */
export function difference(before: Config, after: Config): Record<string, string | null> {
  const changed: Record<string, string | null> = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (before[key] !== after[key]) changed[key] = after[key] ?? null;
  }
  return changed;
}

type EditorProps = { row: Row; edited: Config; before: Config; set: (config: Config) => void; close: () => void; say: (said: Said) => void };

function Editor({ row, edited, before, set, close, say }: EditorProps) {
  const { checked, error, isCurrent } = useChecked({ ...edited, name: row.name });
  const [question, setQuestion] = useState<Question | null>(null);
  const dryRun = useDryRun(row.name, edited, (failure) => say(failure === null ? null : { kind: "error", text: failure }));
  const changed = difference(before, edited);
  const keys = Object.keys(changed);
  const isRight = isCurrent && checked?.validation.error_count === 0;
  const save = async () => {
    try {
      await change("PATCH", connectorPath(row.name, "/config"), changed);
      say({ kind: "success", text: "The config is changed." });
      close();
    } catch (failure) {
      say({ kind: "error", text: textOf(failure) });
    }
  };
  const isHidden = (key: string) =>
    isSecret(key, before) || (checked?.validation.configs.some((each) => each.definition?.name === key && each.definition.type === "PASSWORD") ?? false);
  const line = (key: string) => {
    if (isHidden(key)) return `${key}: a secret ${changed[key] === null ? "is removed" : "changes"}`;
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
      {dryRun.found}
      <HStack position="sticky" bottom={0} bg="bg" py={2}>
        <Button size="sm" disabled={!keys.length || !isRight} onClick={ask}>
          Change config
        </Button>
        {dryRun.button(!isRight)}
        <Button size="sm" variant="outline" onClick={close}>
          Cancel
        </Button>
        <Verdict checked={checked} isCurrent={isCurrent} />
        <Text fontSize="sm">{keys.length ? `${keys.length} changed` : "nothing changed"}</Text>
      </HStack>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}
