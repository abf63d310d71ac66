// One connector: state and verbs, tasks with traces, runs, offsets, topics, config. The tab shown stands in the URL.
import { Badge, Box, Button, Heading, HStack, Table, Tabs, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { Link, useNavigate } from "react-router-dom";
import { change, connectorPath, type Detail, isAlone, type Row, type RunView, type Status, textOf } from "./api";
import { NewestRun } from "./attempts";
import { BackfillsTab } from "./backfills";
import { ConfigTab } from "./config";
import { CostByDay, costTitles, useCosts } from "./costs";
import { DeadLettersTab } from "./dead-letters";
import { OffsetsTab } from "./offsets";
import { Confirm, Notice, Problem, type Question, type Said, State, TitledTable, useTitle, Waiting } from "./parts";
import { Throughput } from "./plot";
import { usePolled } from "./polled";
import { LiveProgress } from "./progress";
import { useQuery } from "./query";
import { Facts } from "./row";
import { type VerbName, VERBS } from "./verbs";
import { ago, bytes, count, money, shortClass } from "./words";

const MOST_RUNS = 200; // the server's
const TABS = ["tasks", "runs", "offsets", "dead-letters", "backfills", "topics", "config"] as const;
const TITLES: Record<string, string> = { tasks: "Tasks", runs: "Runs", offsets: "Offsets", "dead-letters": "Dead letters", backfills: "Backfills", topics: "Topics", config: "Config" };

export function ConnectorView({ name, back }: { name: string; back?: string }) {
  useTitle(`${name} · Connect`);
  const [isLive, setIsLive] = useState(false);
  const { value, error, status, reload } = usePolled<Detail>(`ui/connectors/${encodeURIComponent(name)}`, isLive ? 2 : 5);
  const hasProgress = Boolean(value?.progress);
  useEffect(() => setIsLive(hasProgress), [hasProgress]);
  const [parameters, setQuery] = useQuery();
  const [said, setSaid] = useState<Said>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const [busy, setBusy] = useState<string | null>(null);
  const navigate = useNavigate();
  const wanted = parameters.get("tab") ?? "";
  const tab = TITLES[wanted] ? wanted : "tasks";
  if (!value) {
    if (!error) return <Waiting what="Reading the connector" />;
    return (
      <>
        {back ? <Back to={back} /> : null}
        <Problem title={status === 404 ? "There is no such connector" : "The connector cannot be shown"}>{error}</Problem>
      </>
    );
  }
  const { row } = value;
  const act = async (label: string, done: string, send: () => Promise<unknown>) => {
    setBusy(label);
    try {
      await send();
      setSaid({ kind: "success", text: done });
    } catch (failure) {
      setSaid({ kind: "error", text: textOf(failure) });
    }
    setBusy(null);
    reload();
  };
  const run = (verb: VerbName) => {
    const send = () => act(verb, `The connector is ${VERBS[verb].done}.`, () => VERBS[verb].send(name));
    if (verb !== "stop") return void send();
    const text = "Its tasks end and are removed. Its offsets stay. Resume starts it again.";
    return setQuestion({ title: `Stop ${name}?`, text, label: "Stop", act: send });
  };
  const remove = () =>
    setQuestion({
      title: `Delete ${name}?`,
      text: "The connector ends and its config is removed. Its offsets stay, and a later connector of this name goes on from them.",
      label: "Delete",
      act: () =>
        act("delete", "The connector is deleted.", async () => {
          await change("DELETE", connectorPath(name));
          if (back) void navigate(back, { replace: true, state: { deleted: name } });
        }),
    });
  return (
    <Box>
      {back ? <Back to={back} /> : null}
      <HStack wrap="wrap" justify="space-between" mb={2}>
        <HStack wrap="wrap">
          <Heading as="h1" size="lg" wordBreak="break-all">
            {row.name}
          </Heading>
          <State state={row.state} />
          <Badge variant="outline">{row.type}</Badge>
          <Text fontSize="sm" title={row.class_name}>
            {shortClass(row.class_name)} {row.version ?? ""}
          </Text>
        </HStack>
        <HStack wrap="wrap">
          {row.may_change
            ? (Object.keys(VERBS) as VerbName[])
                .filter((verb) => VERBS[verb].sense(row.state))
                .map((verb) => (
                  <Button key={verb} size="xs" variant="outline" loading={busy === verb} disabled={busy !== null} onClick={() => run(verb)}>
                    {VERBS[verb].label}
                  </Button>
                ))
            : null}
          {value.may_delete && !value.defined_in ? (
            <Button size="xs" variant="outline" colorPalette="red" loading={busy === "delete"} disabled={busy !== null} onClick={remove}>
              Delete
            </Button>
          ) : null}
          {back && !isAlone ? (
            <Button asChild size="xs" variant="outline">
              <Link to={`/dags/${encodeURIComponent(row.dag_id)}`}>DAG</Link>
            </Button>
          ) : null}
        </HStack>
      </HStack>
      <Facts row={row} />
      {row.note && !row.failure ? (
        <Text fontSize="sm" color="fg.warning" mb={2} wordBreak="break-word">
          {row.note}
        </Text>
      ) : null}
      {value.progress ? <LiveProgress progress={value.progress} /> : null}
      {value.defined_in ? (
        <Text fontSize="sm" mb={2}>
          Defined in {value.defined_in}: its config is changed there.
        </Text>
      ) : null}
      {error ? <Problem title="What is shown is not up to date">{error}</Problem> : null}
      <Notice said={said} clear={() => setSaid(null)} />
      <Tabs.Root
        value={tab}
        lazyMount
        unmountOnExit
        onValueChange={(event) => setQuery({ tab: event.value })}
      >
        <Tabs.List>
          {TABS.filter((each) => (each !== "runs" || !isAlone) && (each !== "dead-letters" || row.type === "sink")).map((each) => (
            <Tabs.Trigger key={each} value={each}>
              {TITLES[each]}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value="tasks">
          <Tasks row={row} act={act} busy={busy !== null} />
          <NewestRun row={row} attempts={value.attempts} />
        </Tabs.Content>
        <Tabs.Content value="runs">
          <Runs detail={value} />
        </Tabs.Content>
        <Tabs.Content value="offsets">
          <OffsetsTab row={row} say={setSaid} />
        </Tabs.Content>
        <Tabs.Content value="dead-letters">
          <DeadLettersTab row={row} />
        </Tabs.Content>
        <Tabs.Content value="backfills">
          <BackfillsTab row={row} />
        </Tabs.Content>
        <Tabs.Content value="topics">
          <Topics row={row} act={act} busy={busy !== null} />
        </Tabs.Content>
        <Tabs.Content value="config">
          <ConfigTab row={row} dagConfig={value.dag_config} definedIn={value.defined_in} say={setSaid} />
        </Tabs.Content>
      </Tabs.Root>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

function Back({ to }: { to: string }) {
  return (
    <Box asChild textDecoration="underline" fontSize="sm">
      <Link to={to}>All connectors</Link>
    </Box>
  );
}

type Act = (label: string, done: string, send: () => Promise<unknown>) => Promise<void>;

function Tasks({ row, act, busy }: { row: Row; act: Act; busy: boolean }) {
  const { value, error } = usePolled<Status>(connectorPath(row.name, "/status"), 5);
  if (!value) return error ? <Problem title="There is no status">{error}</Problem> : <Waiting what="Reading the status" />;
  return (
    <Box>
      {value.connector.trace ? <Trace title="Why the connector failed" text={value.connector.trace} /> : null}
      {value.tasks.length ? (
        <Table.Root size="sm" aria-label="Tasks">
          <Table.Header>
            <Table.Row>
              <Table.ColumnHeader>Task</Table.ColumnHeader>
              <Table.ColumnHeader>State</Table.ColumnHeader>
              <Table.ColumnHeader>Version</Table.ColumnHeader>
              <Table.ColumnHeader>Worker</Table.ColumnHeader>
              {row.may_change ? <Table.ColumnHeader>Action</Table.ColumnHeader> : null}
            </Table.Row>
          </Table.Header>
          <Table.Body>
            {value.tasks.map((task) => (
              <Table.Row key={task.id}>
                <Table.Cell>{task.id}</Table.Cell>
                <Table.Cell>
                  <State state={task.state} />
                  {task.trace ? <Trace title={`Why task ${task.id} failed`} text={task.trace} /> : null}
                </Table.Cell>
                <Table.Cell>{task.version ?? "–"}</Table.Cell>
                <Table.Cell wordBreak="break-all">{task.worker_id}</Table.Cell>
                {row.may_change ? (
                  <Table.Cell>
                    <Button
                      size="xs"
                      variant="outline"
                      disabled={busy || !VERBS.restart.sense(row.state)}
                      onClick={() => void act("task", `Task ${task.id} is restarted.`, () => change("POST", connectorPath(row.name, `/tasks/${task.id}/restart`)))}
                    >
                      Restart <span className="connect-hidden">task {task.id}</span>
                    </Button>
                  </Table.Cell>
                ) : null}
              </Table.Row>
            ))}
          </Table.Body>
        </Table.Root>
      ) : (
        <Text p={4}>{row.state === "STOPPED" ? "A stopped connector has no tasks." : "No task has reported yet."}</Text>
      )}
    </Box>
  );
}

/** The first line of a trace, and all of it on request. Text alone: it comes from the connector. */
function Trace({ title, text }: { title: string; text: string }) {
  const first = text.trim().split("\n")[0] ?? "";
  return (
    <Box my={2}>
      <Text color="fg.error" wordBreak="break-word">
        {first.slice(0, 500)}
      </Text>
      <details>
        <summary>{title}</summary>
        <Box as="pre" tabIndex={0} fontSize="xs" overflow="auto" maxH="320px" whiteSpace="pre-wrap" wordBreak="break-word">
          {text}
        </Box>
      </details>
    </Box>
  );
}

function Runs({ detail }: { detail: Detail }) {
  const { runs, row } = detail;
  const costs = useCosts(row.name);
  const titles = costs.value ? costTitles(costs.value.prices) : [];
  const moneyOf = new Map(costs.value?.runs.map(({ run, cost }) => [run, cost.money]));
  const rows = runRows(detail);
  if (!rows.length) return <Text p={4}>No run has delivered anything yet. Runs without work are left out.</Text>;
  return (
    <Box>
      {runs.length > 1 ? <Throughput runs={runs} /> : null}
      <TitledTable label="Runs that delivered something or failed" titles={["Run", "When", "Tasks", "Records", "Bytes", "Records/s", "Task seconds", "CPU seconds", ...titles]}>
        {rows.map(({ id, run, at, hasFailed }) => (
          <Table.Row key={id}>
            <Table.Cell>
              <Box asChild textDecoration="underline">
                <Link to={`/dags/${encodeURIComponent(row.dag_id)}/runs/${encodeURIComponent(id)}`}>{id}</Link>
              </Box>{" "}
              {hasFailed ? <Badge colorPalette="red">failed</Badge> : null}
            </Table.Cell>
            <Table.Cell title={new Date(at).toLocaleString()}>{ago(at)}</Table.Cell>
            {run ? (
              <>
                <Table.Cell>{run.tasks}</Table.Cell>
                <Table.Cell>{count(run.records)}</Table.Cell>
                <Table.Cell>{bytes(run.bytes)}</Table.Cell>
                <Table.Cell>{run.seconds > 0 ? count(run.records / run.seconds) : "–"}</Table.Cell>
                <Table.Cell>{run.seconds.toFixed(1)}</Table.Cell>
                <Table.Cell>{run.cpu_seconds.toFixed(1)}</Table.Cell>
                {titles.length ? <Table.Cell>{moneyText(moneyOf.get(id))}</Table.Cell> : null}
              </>
            ) : (
              <Table.Cell colSpan={6 + titles.length}>delivered nothing</Table.Cell>
            )}
          </Table.Row>
        ))}
      </TitledTable>
      <CostByDay costs={costs} />
    </Box>
  );
}

type RunRow = { id: string; at: number; run: RunView | null; hasFailed: boolean };

/** What has delivered something and what has failed, the newest first. Of failures, those that are older than all that is shown are left out. */
function runRows({ runs, failed_runs: failed }: Detail): RunRow[] {
  const failures = new Map(failed.map(({ run, ended_ms }) => [run, ended_ms]));
  const rows = runs.map((run) => ({ id: run.run, at: failures.get(run.run) ?? run.last_ms, run, hasFailed: failures.delete(run.run) }));
  const oldest = runs.length < MOST_RUNS ? 0 : Math.min(...runs.map((run) => run.last_ms));
  const empty = [...failures].filter(([, at]) => at >= oldest).map(([id, at]) => ({ id, at, run: null, hasFailed: true }));
  return [...rows, ...empty].sort((one, other) => other.at - one.at);
}

/** Runs of which only older days are known have no costs here. */
const moneyText = (cost: number | null | undefined) => (typeof cost === "number" ? money(cost) : "–");

function Topics({ row, act, busy }: { row: Row; act: Act; busy: boolean }) {
  const { value, error, reload } = usePolled<Record<string, { topics: string[] }>>(connectorPath(row.name, "/topics"), 10);
  if (!value) return error ? <Problem title="The topics cannot be shown">{error}</Problem> : <Waiting what="Reading the topics" />;
  const topics = value[row.name]?.topics ?? [];
  return (
    <Box p={2}>
      <Text mb={2}>{topics.length ? "Topics that the connector has used since it was created, or since they were reset:" : "The connector has used no topic yet."}</Text>
      <Box as="ul" ps={5} mb={2}>
        {topics.map((topic) => (
          <li key={topic}>{topic}</li>
        ))}
      </Box>
      {row.may_change && topics.length ? (
        <Button
          size="xs"
          variant="outline"
          disabled={busy}
          onClick={() => void act("topics", "The list of topics is empty.", () => change("PUT", connectorPath(row.name, "/topics/reset"))).then(reload)}
        >
          Reset the list
        </Button>
      ) : null}
    </Box>
  );
}
