// Backfills of a connector: parts of its data delivered again by connectors of their own. Started here, followed, and removed.
import { Box, Button, Table, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { Link } from "react-router-dom";
import { type Backfill, type BackfillRow, type BackfillRows, change, connectorPath, isAlone, type Row, textOf } from "./api";
import { BackfillForm, rangeText } from "./backfill-form";
import { Confirm, Notice, Problem, type Question, type Said, State, TitledTable, Waiting } from "./parts";
import { usePolled } from "./polled";
import { ago, count } from "./words";

const MOST_RANGES = 5;

export function BackfillsTab({ row }: { row: Row }) {
  const [isPolledOften, setIsPolledOften] = useState(false);
  const { value, error, reload } = usePolled<BackfillRows>(`ui/${connectorPath(row.name, "/backfills")}`, isPolledOften ? 5 : 15);
  const [said, setSaid] = useState<Said>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const isUnderWay = value?.backfills.some((each) => !hasEnded(each)) ?? false;
  useEffect(() => setIsPolledOften(isUnderWay), [isUnderWay]);
  if (!value) return error ? <Problem title="The backfills cannot be shown">{error}</Problem> : <Waiting what="Reading the backfills" />;
  if (value.of !== null) {
    return (
      <Text p={4}>
        This connector is a backfill of <ToConnector name={value.of} />.
      </Text>
    );
  }
  const remove = async (name: string) => {
    try {
      await change("DELETE", connectorPath(name));
      setSaid({ kind: "success", text: `Backfill ${name} is deleted.` });
    } catch (failure) {
      setSaid({ kind: "error", text: textOf(failure) });
    }
    reload();
  };
  const ask = ({ name, is_done }: Backfill) =>
    setQuestion({
      title: `Delete backfill ${name}?`,
      text: "Its config is removed. What it has delivered stays in the destination, and its offsets stay, so that a backfill of the same id delivers nothing twice." + (is_done === null ? " If its run has not ended, it ends." : ""),
      label: "Delete",
      act: () => remove(name),
    });
  return (
    <Box>
      {error ? <Problem title="The list is not up to date">{error}</Problem> : null}
      {value.backfills.length ? (
        <TitledTable label="Backfills" titles={["Backfill", "State", "Ranges", "Delivered", "Last run", ...(value.backfills.some((each) => each.may_delete) ? ["Action"] : [])]}>
          {value.backfills.map((each) => (
            <Line key={each.backfill.name} line={each} remove={() => ask(each.backfill)} />
          ))}
        </TitledTable>
      ) : (
        <Text p={2}>There is no backfill of this connector.</Text>
      )}
      <Notice said={said} clear={() => setSaid(null)} />
      {value.may_create ? (
        <BackfillForm
          row={row}
          started={(name) => {
            setSaid({ kind: "success", text: `Backfill ${name} is started.` });
            reload();
          }}
        />
      ) : null}
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

/** Whether nothing is to come without an act of the user. Of a source's run it is known alone that it has delivered something. */
function hasEnded({ backfill, last_run }: BackfillRow): boolean {
  return backfill.state === "FAILED" || backfill.state === "STOPPED" || (backfill.is_done ?? last_run !== null);
}

function Line({ line, remove }: { line: BackfillRow; remove: () => void }) {
  const { backfill, dag_id, may_delete, last_run } = line;
  const more = backfill.ranges.length - MOST_RANGES;
  return (
    <Table.Row verticalAlign="top">
      <Table.Cell wordBreak="break-all">
        <ToConnector name={backfill.name} />
      </Table.Cell>
      <Table.Cell>{backfill.is_done ? "done" : <State state={backfill.state} />}</Table.Cell>
      <Table.Cell wordBreak="break-all">
        {backfill.ranges.length ? backfill.ranges.slice(0, MOST_RANGES).map((range) => <Text key={rangeText(range)}>{rangeText(range)}</Text>) : "by its settings"}
        {more > 0 ? <Text>and {count(more)} more</Text> : null}
      </Table.Cell>
      <Table.Cell>{delivered(line)}</Table.Cell>
      <Table.Cell>
        {last_run === null ? (
          "—"
        ) : isAlone ? (
          lastRun(line)
        ) : (
          <Box asChild textDecoration="underline">
            <Link to={`/dags/${encodeURIComponent(dag_id)}/runs/${encodeURIComponent(last_run.run)}`}>{lastRun(line)}</Link>
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

const lastRun = ({ last_run: run }: BackfillRow) => (run === null ? "—" : `${count(run.records)} ${run.records === 1 ? "record" : "records"}, ${ago(run.last_ms)}`);

/** Offsets, those of transactions' markers among them. */
function delivered({ backfill: { ranges, left } }: BackfillRow): string {
  if (left === null) return "—";
  const all = ranges.reduce((sum, range) => sum + range.to.kafka_offset - range.from.kafka_offset, 0);
  return `${count(all - left)} of ${count(all)} offsets`;
}

function ToConnector({ name }: { name: string }) {
  const view = `?connector=${encodeURIComponent(name)}`;
  return (
    <Box asChild textDecoration="underline">
      <Link to={isAlone ? view : `/plugin/connect${view}`}>{name}</Link>
    </Box>
  );
}
