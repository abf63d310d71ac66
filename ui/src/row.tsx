// A connector as a row of the list: columns, sort orders and cells. A cell has two lines, so that all columns fit a page 1280 px wide.
import { Box, Table, Text } from "@chakra-ui/react";
import { memo, type ReactNode } from "react";
import { Link } from "react-router-dom";
import { type Attempt, isStandalone, type Row, type RunView } from "./api";
import { attemptText, isUnfinished } from "./attempts";
import { needsAttention, reasonColor, State } from "./components";
import { Sparkline } from "./sparkline";
import { ago, timeUntil, bytes, count, quantity, shortClass } from "./format";

export const ROW_HEIGHT = 56;

export type Order = { key: string; label: string }; // the server's sort orders
/** `orders`: the sort orders; the first one belongs to the cell's first line. A column without a width takes the remaining space. */
type Column = { orders: [Order, ...Order[]]; width?: string; needsAirflow?: boolean };

const STATE_ORDER = ["FAILED", "UNASSIGNED", "RESTARTING", "RUNNING", "PAUSED", "STOPPED"];
const ALL_COLUMNS: Column[] = [
  {
    orders: [
      { key: "name", label: "Name" },
      { key: "class", label: "Class" },
      { key: "type", label: "Type" },
    ],
  },
  {
    orders: [
      { key: "state", label: "State" },
      { key: "health", label: "Health" },
      { key: "tasks", label: "Tasks" },
    ],
    width: "140px",
  },
  { orders: [{ key: "lag", label: "Lag" }], width: "76px" },
  {
    orders: [
      { key: "records", label: "Records, last run" },
      { key: "bytes", label: "Bytes" },
      { key: "when", label: "Delivered" },
    ],
    width: "160px",
  },
  { orders: [{ key: "day", label: "Last 24 h" }], width: "104px", needsAirflow: true },
  { orders: [{ key: "next", label: "Next run" }], width: "124px", needsAirflow: true },
  {
    orders: [
      { key: "owner", label: "Owner" },
      { key: "tags", label: "Tags" },
    ],
    width: "12%",
    needsAirflow: true,
  },
];
export const COLUMNS = ALL_COLUMNS.filter(({ needsAirflow }) => !(isStandalone && needsAirflow));

function failed(row: Row): number {
  return row.tasks["FAILED"] ?? 0;
}

function tagsText(row: Row): string {
  return row.plan?.tags.join(", ") ?? "";
}

/** Number of tasks by state, failed ones first. */
function tasksText(row: Row): string {
  const texts = Object.entries(row.tasks).sort(([one], [other]) => STATE_ORDER.indexOf(one) - STATE_ORDER.indexOf(other));
  return texts.map(([state, some]) => `${some} ${state.toLowerCase()}`).join(", ") || "no tasks";
}

/** Rendered again only when the row has changed, not on every scroll event. */
export const Cells = memo(function Cells({ row }: { row: Row }) {
  const run = row.last_run;
  const reason = needsAttention(row) ? row.health?.reason : null;
  const facts = `${shortClass(row.class_name)} ${row.version ?? ""} · ${row.type}`;
  return (
    <>
      <TwoLines
        title={[row.name, row.class_name, reason].filter(Boolean).join("\n")}
        first={
          <Box asChild textDecoration="underline">
            <Link to={`?connector=${encodeURIComponent(row.name)}`}>{row.name}</Link>
          </Box>
        }
        second={
          reason && row.health ? (
            <>
              <Box as="span" color={reasonColor(row.health)}>
                {reason}
              </Box>
              {` · ${facts}`}
            </>
          ) : (
            facts
          )
        }
      />
      <TwoLines
        title={[row.health?.reason, tasksText(row)].filter(Boolean).join("\n")}
        first={<State state={row.state} />}
        second={[row.health?.word, tasksText(row)].filter(Boolean).join(" · ")}
        isWarning={needsAttention(row)}
      />
      <TwoLines title={lagTitle(row)} first={row.left === null ? "—" : quantity(row.left, row.left_unit)} />
      <TwoLines
        title={run ? [new Date(run.last_ms).toLocaleString(), refusedText(run)].filter(Boolean).join("\n") : undefined}
        first={run ? [count(run.records), refusedText(run)].filter(Boolean).join(", ") : "—"}
        second={run ? `${bytes(run.bytes)}, ${ago(run.last_ms)}` : undefined}
      />
      {isStandalone ? null : <AirflowCells row={row} />}
    </>
  );
});

function AirflowCells({ row }: { row: Row }) {
  const tags = tagsText(row);
  return (
    <>
      <TwoLines first={row.hours.length ? <Sparkline hours={row.hours} /> : "—"} />
      <TwoLines {...nextRunText(row)} />
      <TwoLines title={[row.plan?.owner, tags].filter(Boolean).join("\n") || undefined} first={row.plan?.owner ?? "—"} second={tags} />
    </>
  );
}

const NO_DAG = "Airflow has no DAG for this connector yet. This takes a few seconds after its creation. If it persists, airflow connect doctor finds the reason.";

type NextRunText = { first: string; second: string; title: string; isWarning?: boolean };

/** The current run if there is one, otherwise the next run and the schedule. */
export function nextRunText(row: Row): NextRunText {
  const { plan, has_dag } = row;
  if (has_dag === false) return { first: "no DAG yet", second: "", title: NO_DAG };
  if (plan?.attempt && isUnfinished(plan.attempt)) {
    const [first, second] = runText(row, plan.attempt);
    return { first, second, title: `Run ${plan.attempt.run}`, isWarning: second !== "" };
  }
  const next = plan?.next_run_ms ?? null;
  const schedule = plan?.schedule ?? "";
  const title = [next === null ? "No scheduled run" : new Date(next).toLocaleString(), schedule].filter(Boolean).join("\n");
  return { first: next === null ? "—" : timeUntil(next), second: schedule, title };
}

/** As `attemptText`. The tries of a healthy run that stays are left out, because it has continued. */
function runText(row: Row, attempt: Attempt): [string, string] {
  const [state, tries] = attemptText(attempt);
  return [state, row.plan?.is_continuous && state === "running" && row.state === "RUNNING" && !failed(row) ? "" : tries];
}

/** A line with lag, run, schedule, owner and tags, for the connector's own page. */
export function ConnectorSummary({ row }: { row: Row }) {
  const { plan, left } = row;
  const next = plan?.next_run_ms ?? null;
  const facts = [
    left === null ? "" : `${row.type === "sink" ? "Lag" : "Left after the last run"}: ${quantity(left, row.left_unit)}`,
    plan?.attempt && isUnfinished(plan.attempt) ? `Run: ${runText(row, plan.attempt).filter(Boolean).join(", ")}` : "",
    plan?.schedule ? `Schedule: ${plan.schedule}` : "",
    next === null ? "" : `Next run: ${timeUntil(next)}`,
    plan?.owner ? `Owner: ${plan.owner}` : "",
    plan?.tags.length ? `Tags: ${tagsText(row)}` : "",
  ].filter(Boolean);
  return (
    <Text fontSize="sm" mb={2} wordBreak="break-word">
      {row.has_dag === false ? NO_DAG : facts.join(" · ")}
    </Text>
  );
}

const refusedText = (run: RunView) => (run.failed ? `${count(run.failed)} refused` : "");

type TwoLinesProps = { first: ReactNode; second?: ReactNode; title?: string | undefined; isWarning?: boolean };

/** A cell of one or two lines, each truncated at the column's width. */
function TwoLines({ first, second, title, isWarning = false }: TwoLinesProps) {
  return (
    <Table.Cell py={1} title={title}>
      <Box truncate>{first}</Box>
      {second ? (
        <Box truncate fontSize="xs" color={isWarning ? "red.fg" : "fg.muted"}>
          {second}
        </Box>
      ) : null}
    </Table.Cell>
  );
}

function lagTitle(row: Row): string {
  if (row.lag !== null) return `${row.lag} records after its committed offsets`;
  if (row.left !== null) return `${row.left} ${row.left_unit ?? "records"} left before the end when it last delivered records`;
  return row.type === "sink" ? "Unknown: no topic yet, Kafka has not responded, or a committed offset is beyond the end of its partition (tab offsets)" : "Unknown: this source has not reported its distance from the end, or never does";
}
