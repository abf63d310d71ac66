// Backfills of a connector: parts of its data that separate connectors deliver again. Starts, lists and deletes them.
import { Box, Button, Table, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { Link } from "react-router-dom";
import { type Backfill, type BackfillRow, type BackfillRows, change, connectorPath, isStandalone, type Row, errorText } from "./api";
import { BackfillForm, rangeText } from "./backfill-form";
import { Confirm, Notice, Problem, type Question, type Message, State, TitledTable, Loading } from "./components";
import { usePolling } from "./polling";
import { ago, count } from "./format";

const MAX_RANGES = 5;

export function BackfillsTab({ row }: { row: Row }) {
  const [isPolledOften, setIsPolledOften] = useState(false);
  const { value, error, reload } = usePolling<BackfillRows>(`ui/${connectorPath(row.name, "/backfills")}`, isPolledOften ? 5 : 15);
  const [message, setMessage] = useState<Message>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const isUnderWay = value?.backfills.some((each) => !hasEnded(each)) ?? false;
  useEffect(() => setIsPolledOften(isUnderWay), [isUnderWay]);
  if (!value) return error ? <Problem title="Cannot load the backfills">{error}</Problem> : <Loading what="Loading backfills…" />;
  if (value.of !== null) {
    return (
      <Text p={4}>
        This connector is a backfill of <ConnectorLink name={value.of} />.
      </Text>
    );
  }
  const remove = async (name: string) => {
    try {
      await change("DELETE", connectorPath(name));
      setMessage({ kind: "success", text: `Backfill ${name} deleted.` });
    } catch (failure) {
      setMessage({ kind: "error", text: errorText(failure) });
    }
    reload();
  };
  const ask = ({ name, is_done }: Backfill) =>
    setQuestion({
      title: `Delete backfill ${name}?`,
      text: "This removes its config. Delivered records stay in the destination. Its offsets are kept, so a backfill with the same ID delivers nothing twice." + (is_done === null ? " A run in progress is ended." : ""),
      label: "Delete",
      act: () => remove(name),
    });
  return (
    <Box>
      {error ? <Problem title="The list is out of date">{error}</Problem> : null}
      {value.backfills.length ? (
        <TitledTable label="Backfills" titles={["Backfill", "State", "Ranges", "Delivered", "Last run", ...(value.backfills.some((each) => each.may_delete) ? ["Action"] : [])]}>
          {value.backfills.map((each) => (
            <BackfillLine key={each.backfill.name} line={each} remove={() => ask(each.backfill)} />
          ))}
        </TitledTable>
      ) : (
        <Text p={2}>This connector has no backfills.</Text>
      )}
      <Notice message={message} clear={() => setMessage(null)} />
      {value.may_create ? (
        <BackfillForm
          row={row}
          onStarted={(name) => {
            setMessage({ kind: "success", text: `Backfill ${name} started.` });
            reload();
          }}
        />
      ) : null}
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

/** Whether nothing more happens unless the user acts. A source's backfill counts as ended once its run has delivered something. */
function hasEnded({ backfill, last_run }: BackfillRow): boolean {
  return backfill.state === "FAILED" || backfill.state === "STOPPED" || (backfill.is_done ?? last_run !== null);
}

function BackfillLine({ line, remove }: { line: BackfillRow; remove: () => void }) {
  const { backfill, dag_id, may_delete, last_run } = line;
  const more = backfill.ranges.length - MAX_RANGES;
  return (
    <Table.Row verticalAlign="top">
      <Table.Cell wordBreak="break-all">
        <ConnectorLink name={backfill.name} />
      </Table.Cell>
      <Table.Cell>{backfill.is_done ? "done" : <State state={backfill.state} />}</Table.Cell>
      <Table.Cell wordBreak="break-all">
        {backfill.ranges.length ? backfill.ranges.slice(0, MAX_RANGES).map((range) => <Text key={rangeText(range)}>{rangeText(range)}</Text>) : "defined by its settings"}
        {more > 0 ? <Text>and {count(more)} more</Text> : null}
      </Table.Cell>
      <Table.Cell>{deliveredText(line)}</Table.Cell>
      <Table.Cell>
        {last_run === null ? (
          "—"
        ) : isStandalone ? (
          lastRunText(line)
        ) : (
          <Box asChild textDecoration="underline">
            <Link to={`/dags/${encodeURIComponent(dag_id)}/runs/${encodeURIComponent(last_run.run)}`}>{lastRunText(line)}</Link>
          </Box>
        )}
      </Table.Cell>
      {may_delete ? (
        <Table.Cell>
          {backfill.is_done === null || hasEnded(line) ? (
            <Button size="xs" variant="outline" colorPalette="red" onClick={remove}>
              Delete <span className="connect-hidden">{backfill.name}</span>
            </Button>
          ) : null}
        </Table.Cell>
      ) : null}
    </Table.Row>
  );
}

const lastRunText = ({ last_run: run }: BackfillRow) => (run === null ? "—" : `${count(run.records)} ${run.records === 1 ? "record" : "records"}, ${ago(run.last_ms)}`);

/** Counts offsets, including those of transaction markers. */
function deliveredText({ backfill: { ranges, left } }: BackfillRow): string {
  if (left === null) return "—";
  const all = ranges.reduce((sum, range) => sum + range.to.kafka_offset - range.from.kafka_offset, 0);
  return `${count(all - left)} of ${count(all)} offsets`;
}

function ConnectorLink({ name }: { name: string }) {
  const view = `?connector=${encodeURIComponent(name)}`;
  return (
    <Box asChild textDecoration="underline">
      <Link to={isStandalone ? view : `/plugin/connect${view}`}>{name}</Link>
    </Box>
  );
}
