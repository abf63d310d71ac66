// A connector's offsets: view, edit and reset. The connector is stopped for a change, then returns to its previous state.
import { Box, Button, HStack, Input, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { change, connectorPath, isStandalone, type Offset, type Row, errorText } from "./api";
import { OffsetsHistory } from "./history";
import { ExactInteger, type Json, parseJson, formatJson } from "./json";
import { LagSection } from "./lag";
import { Confirm, Problem, type Question, type Message, Loading } from "./components";
import { usePolling } from "./polling";
import { whileStopped } from "./verbs";

const text = (value: Json | undefined) => (value === null || value === undefined ? "none" : formatJson(value));

/** Why the typed text is not an offset; empty if it is valid. */
function offsetError(typed: string): string {
  try {
    const value = parseJson(typed);
    if (value !== null && (typeof value !== "object" || value instanceof ExactInteger || Array.isArray(value))) return "An offset must be a JSON object, or null to remove it";
    return "";
  } catch {
    return 'Not valid JSON. Example: {"position": 0}';
  }
}

export function OffsetsTab({ row, notify }: { row: Row; notify: (message: Message) => void }) {
  const { value, error, reload } = usePolling<{ offsets: Offset[] }>(connectorPath(row.name, "/offsets"), 10);
  const [edited, setEdited] = useState<Record<string, string>>({});
  const [question, setQuestion] = useState<Question | null>(null);
  if (!value) return error ? <Problem title="Cannot load the offsets">{error}</Problem> : <Loading what="Loading offsets…" />;
  const changes = value.offsets.filter((each) => {
    const typed = edited[text(each.partition)];
    return typed !== undefined && typed !== (each.offset === null ? "null" : text(each.offset));
  });
  const isInvalid = changes.some((each) => offsetError(edited[text(each.partition)] ?? ""));
  const apply = async (done: string, act: () => Promise<unknown>) => {
    try {
      notify({ kind: "success", text: await whileStopped(row.name, done, act) });
      setEdited({});
    } catch (failure) {
      notify({ kind: "error", text: errorText(failure) });
    }
    reload();
  };
  const stops = row.state === "STOPPED" ? "The connector is stopped and stays stopped." : "The connector is stopped for this change, then returns to its previous state.";
  const save = () =>
    setQuestion({
      title: `Change ${changes.length} ${changes.length === 1 ? "offset" : "offsets"} of ${row.name}?`,
      text: `${changes.map((each) => `${text(each.partition)}\n  ${text(each.offset)} → ${edited[text(each.partition)]}`).join("\n")}\n\n${stops} Records may be delivered again or skipped.`,
      label: "Change offsets",
      act: () => {
        const offsets = changes.map((each) => ({ partition: each.partition, offset: parseJson(edited[text(each.partition)] ?? "null") }));
        return apply("Offsets changed.", () => change("PATCH", connectorPath(row.name, "/offsets"), { offsets }));
      },
    });
  const reset = () =>
    setQuestion({
      title: `Reset all offsets of ${row.name}?`,
      text: `All offsets are removed, and the connector starts from the beginning. ${stops} Records will be delivered again.`,
      label: "Reset offsets",
      act: () => apply("Offsets reset.", () => change("DELETE", connectorPath(row.name, "/offsets"))),
    });
  const below = (
    <>
      <LagSection row={row} />
      {isStandalone ? null : <OffsetsHistory row={row} notify={notify} changed={reload} />}
    </>
  );
  if (!value.offsets.length) {
    return (
      <>
        <Text p={4}>The connector has not committed any offsets yet.</Text>
        {below}
      </>
    );
  }
  return (
    <Box>
      <Table.Root size="sm" aria-label="Offsets">
        <Table.Header>
          <Table.Row>
            <Table.ColumnHeader>Partition</Table.ColumnHeader>
            <Table.ColumnHeader>Offset</Table.ColumnHeader>
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {value.offsets.map((each) => {
            const key = text(each.partition);
            const typed = edited[key];
            const problem = typed === undefined ? "" : offsetError(typed);
            return (
              <Table.Row key={key}>
                <Table.Cell wordBreak="break-all">{key}</Table.Cell>
                <Table.Cell>
                  {row.may_change ? (
                    <Input
                      size="xs"
                      fontFamily="mono"
                      aria-label={`Offset of ${key}`}
                      aria-invalid={problem ? true : undefined}
                      value={typed ?? (each.offset === null ? "null" : text(each.offset))}
                      onChange={(event) => {
                        const now = event.target.value;
                        setEdited((before) => ({ ...before, [key]: now }));
                      }}
                    />
                  ) : (
                    text(each.offset)
                  )}
                  {problem ? (
                    <Text color="red.fg" fontSize="xs">
                      {problem}
                    </Text>
                  ) : null}
                </Table.Cell>
              </Table.Row>
            );
          })}
        </Table.Body>
      </Table.Root>
      {row.may_change ? (
        <HStack mt={2}>
          <Button size="xs" disabled={!changes.length || isInvalid} onClick={save}>
            Change offsets
          </Button>
          <Button size="xs" variant="outline" disabled={!changes.length} onClick={() => setEdited({})}>
            Discard edits
          </Button>
          <Button size="xs" variant="outline" colorPalette="red" onClick={reset}>
            Reset all
          </Button>
        </HStack>
      ) : null}
      {below}
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}
