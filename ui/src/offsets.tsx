// A connector's offsets: seen, edited and reset. The connector is stopped for a change, and goes on as it was.
import { Box, Button, HStack, Input, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { change, connectorPath, isAlone, type Offset, type Row, textOf } from "./api";
import { OffsetsHistory } from "./history";
import { Exact, type Json, parsed, written } from "./json";
import { LagSection } from "./lag";
import { Confirm, Problem, type Question, type Said, Waiting } from "./parts";
import { usePolled } from "./polled";
import { whileStopped } from "./verbs";

const text = (value: Json | undefined) => (value === null || value === undefined ? "none" : written(value));

/** What is wrong with an offset as it is typed; empty: nothing. */
function wrong(typed: string): string {
  try {
    const value = parsed(typed);
    if (value !== null && (typeof value !== "object" || value instanceof Exact || Array.isArray(value))) return "An offset is a JSON object, or null to remove it";
    return "";
  } catch {
    return 'This is no JSON, such as {"position": 0}';
  }
}

export function OffsetsTab({ row, say }: { row: Row; say: (said: Said) => void }) {
  const { value, error, reload } = usePolled<{ offsets: Offset[] }>(connectorPath(row.name, "/offsets"), 10);
  const [edited, setEdited] = useState<Record<string, string>>({});
  const [question, setQuestion] = useState<Question | null>(null);
  if (!value) return error ? <Problem title="The offsets cannot be shown">{error}</Problem> : <Waiting what="Reading the offsets" />;
  const changes = value.offsets.filter((each) => {
    const typed = edited[text(each.partition)];
    return typed !== undefined && typed !== (each.offset === null ? "null" : text(each.offset));
  });
  const isWrong = changes.some((each) => wrong(edited[text(each.partition)] ?? ""));
  const carryOut = async (done: string, act: () => Promise<unknown>) => {
    try {
      say({ kind: "success", text: await whileStopped(row.name, done, act) });
      setEdited({});
    } catch (failure) {
      say({ kind: "error", text: textOf(failure) });
    }
    reload();
  };
  const stops = row.state === "STOPPED" ? "The connector is stopped and stays so." : "The connector is stopped for this, and goes on afterwards.";
  const save = () =>
    setQuestion({
      title: `Change ${changes.length} ${changes.length === 1 ? "offset" : "offsets"} of ${row.name}?`,
      text: `${changes.map((each) => `${text(each.partition)}\n  ${text(each.offset)} → ${edited[text(each.partition)]}`).join("\n")}\n\n${stops} Records may be delivered again, or be left out.`,
      label: "Change offsets",
      act: () => {
        const offsets = changes.map((each) => ({ partition: each.partition, offset: parsed(edited[text(each.partition)] ?? "null") }));
        return carryOut("The offsets are changed.", () => change("PATCH", connectorPath(row.name, "/offsets"), { offsets }));
      },
    });
  const reset = () =>
    setQuestion({
      title: `Reset all offsets of ${row.name}?`,
      text: `All offsets are removed, and the connector begins from the start. ${stops} Records are delivered again.`,
      label: "Reset offsets",
      act: () => carryOut("The offsets are reset.", () => change("DELETE", connectorPath(row.name, "/offsets"))),
    });
  const below = (
    <>
      <LagSection row={row} />
      {isAlone ? null : <OffsetsHistory row={row} say={say} changed={reload} />}
    </>
  );
  if (!value.offsets.length) {
    return (
      <>
        <Text p={4}>The connector has committed no offset.</Text>
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
            const problem = typed === undefined ? "" : wrong(typed);
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
                    <Text color="fg.error" fontSize="xs">
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
          <Button size="xs" disabled={!changes.length || isWrong} onClick={save}>
            Change offsets
          </Button>
          <Button size="xs" variant="outline" disabled={!changes.length} onClick={() => setEdited({})}>
            Undo edits
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
