// A connector's runs: bars whose heights are their durations, and a table with their costs.
import { Badge, Box, Table, Text } from "@chakra-ui/react";
import { Link } from "react-router-dom";
import type { Detail, RunView } from "./api";
import { TitledTable } from "./components";
import { CostByDay, costTitles, useCosts } from "./costs";
import { Throughput } from "./plot";
import { ago, bytes, count, money } from "./format";

const MAX_RUNS = 200; // the server's
const MAX_BARS = 60;
const BARS_HEIGHT = 64;

const runPath = (dagId: string, run: string) => `/dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(run)}`;

/** The last runs, oldest first. A link each, to Airflow's view of the run. */
export function RunBars({ detail }: { detail: Detail }) {
  const rows = runRows(detail).slice(0, MAX_BARS).reverse();
  const longest = Math.max(...rows.map(({ run }) => run?.seconds ?? 0));
  return (
    <Box as="ol" aria-label="Last runs" display="flex" alignItems="end" gap="2px" listStyleType="none" overflowX="auto" minH={`${BARS_HEIGHT}px`}>
      {rows.map((row) => (
        <li key={row.id}>
          <Box asChild display="flex" alignItems="end" h={`${BARS_HEIGHT}px`} w="12px">
            <Link to={runPath(detail.row.dag_id, row.id)} title={barTitle(row)} aria-label={barTitle(row)}>
              <Box bg={barColor(row)} w="100%" borderRadius="sm" h={`${longest ? Math.max(4, (BARS_HEIGHT * (row.run?.seconds ?? 0)) / longest) : 4}px`} />
            </Link>
          </Box>
        </li>
      ))}
    </Box>
  );
}

function barColor({ run, hasFailed }: RunRow): string {
  if (hasFailed) return "red.solid";
  return run?.failed ? "orange.solid" : "green.solid";
}

function barTitle({ id, at, run, hasFailed }: RunRow): string {
  const facts = [
    hasFailed ? "failed" : "",
    run ? `${count(run.records)} records` : "no records delivered",
    run?.failed ? `${count(run.failed)} refused` : "",
    run ? `${run.seconds.toFixed(1)} s` : "",
    ago(at),
  ].filter(Boolean);
  return `${id}: ${facts.join(", ")}`;
}

export function RunsTab({ detail }: { detail: Detail }) {
  const { runs, row } = detail;
  const costs = useCosts(row.name);
  const titles = costs.value ? costTitles(costs.value.prices) : [];
  const moneyOf = new Map(costs.value?.runs.map(({ run, cost }) => [run, cost.money]));
  const rows = runRows(detail);
  if (!rows.length) return <Text p={4}>No run has delivered records yet. Runs without work are not listed.</Text>;
  return (
    <Box>
      {runs.length > 1 ? <Throughput runs={runs} /> : null}
      <TitledTable label="Runs that delivered records or failed" titles={["Run", "When", "Tasks", "Records", "Refused", "Bytes", "Records/s", "Task seconds", "CPU seconds", ...titles]}>
        {rows.map(({ id, run, at, hasFailed }) => (
          <Table.Row key={id}>
            <Table.Cell>
              <Box asChild textDecoration="underline">
                <Link to={runPath(row.dag_id, id)}>{id}</Link>
              </Box>{" "}
              {hasFailed ? <Badge colorPalette="red">failed</Badge> : null}
            </Table.Cell>
            <Table.Cell title={new Date(at).toLocaleString()}>{ago(at)}</Table.Cell>
            {run ? (
              <>
                <Table.Cell>{run.tasks}</Table.Cell>
                <Table.Cell>{count(run.records)}</Table.Cell>
                <Table.Cell color={run.failed ? "orange.fg" : undefined}>{count(run.failed)}</Table.Cell>
                <Table.Cell>{bytes(run.bytes)}</Table.Cell>
                <Table.Cell>{run.seconds > 0 ? count(run.records / run.seconds) : "–"}</Table.Cell>
                <Table.Cell>{run.seconds.toFixed(1)}</Table.Cell>
                <Table.Cell>{run.cpu_seconds.toFixed(1)}</Table.Cell>
                {titles.length ? <Table.Cell>{moneyText(moneyOf.get(id))}</Table.Cell> : null}
              </>
            ) : (
              <Table.Cell colSpan={7 + titles.length}>no records delivered</Table.Cell>
            )}
          </Table.Row>
        ))}
      </TitledTable>
      <CostByDay costs={costs} />
    </Box>
  );
}

type RunRow = { id: string; at: number; run: RunView | null; hasFailed: boolean };

/** Runs that delivered records and runs that failed, newest first. Failures older than the oldest run shown are left out. */
function runRows({ runs, failed_runs: failed }: Detail): RunRow[] {
  const failures = new Map(failed.map(({ run, ended_ms }) => [run, ended_ms]));
  const rows = runs.map((run) => ({ id: run.run, at: failures.get(run.run) ?? run.last_ms, run, hasFailed: failures.delete(run.run) }));
  const oldest = runs.length < MAX_RUNS ? 0 : Math.min(...runs.map((run) => run.last_ms));
  const empty = [...failures].filter(([, at]) => at >= oldest).map(([id, at]) => ({ id, at, run: null, hasFailed: true }));
  return [...rows, ...empty].sort((one, other) => other.at - one.at);
}

/** A run has no cost of its own once only the totals of its day are kept. */
const moneyText = (cost: number | null | undefined) => (typeof cost === "number" ? money(cost) : "–");
