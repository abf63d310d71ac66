// A connector as a row of the list: its columns, by what they are sorted, and its cells. A cell has two lines, so that all fit a page 1280 px wide.
import { Box, Table, Text } from "@chakra-ui/react";
import { memo, type ReactNode } from "react";
import { Link } from "react-router-dom";
import { isAlone, type Row } from "./api";
import { attemptText, isOpen } from "./attempts";
import { State } from "./parts";
import { Sparkline } from "./sparkline";
import { ago, ahead, bytes, count, quantity, shortClass } from "./words";

export const ROW_HEIGHT = 56;

export type Order = { key: string; label: string; of: (row: Row) => string | number };
/** `orders`: what the rows can be sorted by; the first one is that of the cell's first line. Without a width, a column shares what the others leave. */
type Column = { orders: [Order, ...Order[]]; width?: string; needsAirflow?: boolean };

const NEVER = Number.MAX_SAFE_INTEGER;
const STATE_ORDER = ["FAILED", "UNASSIGNED", "RESTARTING", "RUNNING", "PAUSED", "STOPPED"];
const ALL_COLUMNS: Column[] = [
  {
    orders: [
      { key: "name", label: "Name", of: (row) => row.name.toLowerCase() },
      { key: "class", label: "Class", of: (row) => `${shortClass(row.class_name).toLowerCase()} ${row.version ?? ""}` },
      { key: "type", label: "Type", of: (row) => row.type },
    ],
  },
  {
    orders: [
      { key: "state", label: "State", of: (row) => STATE_ORDER.indexOf(row.state ?? "") + (failed(row) ? -0.5 : 0) },
      { key: "tasks", label: "Tasks", of: (row) => Object.values(row.tasks).reduce((sum, some) => sum + some, 0) },
    ],
    width: "140px",
  },
  { orders: [{ key: "lag", label: "Lag", of: (row) => row.left ?? -1 }], width: "76px" },
  {
    orders: [
      { key: "records", label: "Records, last run", of: (row) => row.last_run?.records ?? -1 },
      { key: "bytes", label: "Bytes", of: (row) => row.last_run?.bytes ?? -1 },
      { key: "when", label: "Delivered", of: (row) => row.last_run?.last_ms ?? 0 },
    ],
    width: "160px",
  },
  { orders: [{ key: "day", label: "Last 24 h", of: (row) => row.hours.reduce((sum, some) => sum + some, 0) }], width: "104px", needsAirflow: true },
  { orders: [{ key: "next", label: "Next run", of: nextRun }], width: "124px", needsAirflow: true },
  {
    orders: [
      { key: "owner", label: "Owner", of: (row) => (row.plan?.owner ?? "").toLowerCase() },
      { key: "tags", label: "Tags", of: (row) => tagsText(row).toLowerCase() },
    ],
    width: "12%",
    needsAirflow: true,
  },
];
export const COLUMNS = ALL_COLUMNS.filter(({ needsAirflow }) => !(isAlone && needsAirflow));

export function failed(row: Row): number {
  return row.tasks["FAILED"] ?? 0;
}

export function tagsText(row: Row): string {
  return row.plan?.tags.join(", ") ?? "";
}

function nextRun({ plan }: Row): number {
  return plan?.attempt && isOpen(plan.attempt) ? 0 : (plan?.next_run_ms ?? NEVER);
}

/** Failed ones first. */
function tasksText(row: Row): string {
  const texts = Object.entries(row.tasks).sort(([one], [other]) => STATE_ORDER.indexOf(one) - STATE_ORDER.indexOf(other));
  return texts.map(([state, some]) => `${some} ${state.toLowerCase()}`).join(", ") || "no tasks";
}

/** Drawn anew only when the row has changed, and not at every step of scrolling. */
export const Cells = memo(function Cells({ row }: { row: Row }) {
  const run = row.last_run;
  const facts = `${shortClass(row.class_name)} ${row.version ?? ""} · ${row.type}`;
  return (
    <>
      <Two
        title={[row.name, row.class_name, row.failure, row.note].filter(Boolean).join("\n")}
        first={
          <Box asChild textDecoration="underline">
            <Link to={`?connector=${encodeURIComponent(row.name)}`}>{row.name}</Link>
          </Box>
        }
        second={
          row.failure || row.note ? (
            <>
              <Box as="span" color={row.failure ? "fg.error" : "fg.warning"}>
                {row.failure || row.note}
              </Box>
              {` · ${facts}`}
            </>
          ) : (
            facts
          )
        }
      />
      <Two title={tasksText(row)} first={<State state={row.state} />} second={tasksText(row)} warns={failed(row) > 0} />
      <Two title={lagTitle(row)} first={row.left === null ? "—" : quantity(row.left, row.left_unit)} />
      <Two
        title={run ? new Date(run.last_ms).toLocaleString() : undefined}
        first={run ? count(run.records) : "—"}
        second={run ? `${bytes(run.bytes)}, ${ago(run.last_ms)}` : undefined}
      />
      {isAlone ? null : <Planned row={row} />}
    </>
  );
});

function Planned({ row }: { row: Row }) {
  const tags = tagsText(row);
  return (
    <>
      <Two first={row.hours.length ? <Sparkline hours={row.hours} /> : "—"} />
      <NextRun row={row} />
      <Two title={[row.plan?.owner, tags].filter(Boolean).join("\n") || undefined} first={row.plan?.owner ?? "—"} second={tags} />
    </>
  );
}

const NO_DAG = "Airflow has no DAG of this connector yet. That takes some seconds after its creation; if it stays so, airflow connect doctor finds the reason.";

function NextRun({ row: { plan, has_dag } }: { row: Row }) {
  if (has_dag === false) return <Two title={NO_DAG} first="no DAG yet" />;
  if (plan?.attempt && isOpen(plan.attempt)) {
    const [first, second] = attemptText(plan.attempt);
    return <Two title={`Run ${plan.attempt.run}`} first={first} second={second} warns={second !== ""} />;
  }
  const next = plan?.next_run_ms ?? null;
  const title = [next === null ? "No run begins by itself" : new Date(next).toLocaleString(), plan?.schedule].filter(Boolean).join("\n");
  return <Two title={title} first={next === null ? "—" : ahead(next)} second={plan?.schedule ?? undefined} />;
}

/** What the list shows of the connector besides its state, for its own page. */
export function Facts({ row }: { row: Row }) {
  const { plan, left } = row;
  const next = plan?.next_run_ms ?? null;
  const facts = [
    left === null ? "" : `${row.type === "sink" ? "Lag" : "Left after the last run"}: ${quantity(left, row.left_unit)}`,
    plan?.attempt && isOpen(plan.attempt) ? `Run: ${attemptText(plan.attempt).filter(Boolean).join(", ")}` : "",
    plan?.schedule ? `Schedule: ${plan.schedule}` : "",
    next === null ? "" : `Next run: ${ahead(next)}`,
    plan?.owner ? `Owner: ${plan.owner}` : "",
    plan?.tags.length ? `Tags: ${tagsText(row)}` : "",
  ].filter(Boolean);
  return (
    <Text fontSize="sm" mb={2} wordBreak="break-word">
      {row.has_dag === false ? NO_DAG : facts.join(" · ")}
    </Text>
  );
}

type TwoProps = { first: ReactNode; second?: ReactNode; title?: string | undefined; warns?: boolean };

/** A cell of one or two lines, each cut where the column ends. */
function Two({ first, second, title, warns = false }: TwoProps) {
  return (
    <Table.Cell py={1} title={title}>
      <Box truncate>{first}</Box>
      {second ? (
        <Box truncate fontSize="xs" color={warns ? "fg.error" : "fg.muted"}>
          {second}
        </Box>
      ) : null}
    </Table.Cell>
  );
}

function lagTitle(row: Row): string {
  if (row.lag !== null) return `${row.lag} records are behind the positions of its last run`;
  if (row.left !== null) return `${row.left} ${row.left_unit ?? "records"} lay before the end when it last delivered something`;
  return row.type === "sink" ? "Not known yet: it has delivered nothing, or Kafka has not answered" : "This source does not know yet, or never, how far its end is";
}
