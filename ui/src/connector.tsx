// One connector: state and actions, an overview, tasks with traces, runs, offsets, topics, config. The URL holds the open tab.
import { Badge, Box, Button, Heading, HStack, Table, Tabs, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { Link, useNavigate } from "react-router-dom";
import { change, connectorPath, type Detail, type Health, isStandalone, type Progress, type Row, type Status, errorText } from "./api";
import { isUnfinished, LatestRun } from "./attempts";
import { BackfillsTab } from "./backfills";
import { ConfigTab } from "./config";
import { DeadLettersTab } from "./dead-letters";
import { OffsetsTab } from "./offsets";
import { Confirm, HealthWord, needsAttention, Notice, Problem, reasonColor, type Question, type Message, State, useTitle, Loading } from "./components";
import { OverviewTab } from "./overview";
import { usePolling } from "./polling";
import { LiveProgress } from "./progress";
import { useQuery } from "./query";
import { ConnectorSummary } from "./row";
import { RunsTab } from "./runs";
import { type VerbName, VERBS } from "./verbs";
import { firstLine, shortClass } from "./format";

const TABS = ["overview", "tasks", "runs", "offsets", "dead-letters", "backfills", "topics", "config"] as const;
const TITLES: Record<string, string> = { overview: "Overview", tasks: "Tasks", runs: "Runs", offsets: "Offsets", "dead-letters": "Dead letters", backfills: "Backfills", topics: "Topics", config: "Config" };

export function ConnectorView({ name, back }: { name: string; back?: string }) {
  useTitle(`${name} · Connect`);
  const [isLive, setIsLive] = useState(false);
  const { value, error, status, reload } = usePolling<Detail>(`ui/connectors/${encodeURIComponent(name)}`, isLive ? 2 : 5);
  const hasProgress = Boolean(value?.progress);
  useEffect(() => setIsLive(hasProgress), [hasProgress]);
  const [parameters, setQuery] = useQuery();
  const [message, setMessage] = useState<Message>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const [busy, setBusy] = useState<string | null>(null);
  const navigate = useNavigate();
  const wanted = parameters.get("tab") ?? "";
  const tab = TITLES[wanted] ? wanted : "overview";
  if (!value) {
    if (!error) return <Loading what="Loading connector…" />;
    return (
      <>
        {back ? <BackLink to={back} /> : null}
        <Problem title={status === 404 ? "Connector not found" : "Cannot load the connector"}>{error}</Problem>
      </>
    );
  }
  const { row } = value;
  const tabs = TABS.filter((each) => (each !== "runs" || !isStandalone) && (each !== "dead-letters" || row.type === "sink"));
  const open = (wantedTab: string) => setQuery({ tab: wantedTab });
  const act = async (label: string, done: string, send: () => Promise<unknown>) => {
    setBusy(label);
    try {
      await send();
      setMessage({ kind: "success", text: done });
    } catch (failure) {
      setMessage({ kind: "error", text: errorText(failure) });
    }
    setBusy(null);
    reload();
  };
  const runVerb = (verb: VerbName) => {
    const send = () => act(verb, `Connector ${VERBS[verb].done}.`, () => VERBS[verb].send(name));
    if (verb !== "stop") return void send();
    const text = "Its tasks are shut down and removed. Its offsets are kept. Resume starts it again.";
    return setQuestion({ title: `Stop ${name}?`, text, label: "Stop", act: send });
  };
  const remove = () =>
    setQuestion({
      title: `Delete ${name}?`,
      text: "The connector is shut down and its config removed. Its offsets are kept: a new connector with this name continues from them.",
      label: "Delete",
      act: () =>
        act("delete", "Connector deleted.", async () => {
          await change("DELETE", connectorPath(name));
          if (back) void navigate(back, { replace: true, state: { deleted: name } });
        }),
    });
  return (
    <Box>
      {back ? <BackLink to={back} /> : null}
      <HStack wrap="wrap" justify="space-between" mb={2}>
        <HStack wrap="wrap">
          <Heading as="h1" size="lg" wordBreak="break-all">
            {row.name}
          </Heading>
          <State state={row.state} />
          {row.health ? <HealthWord health={row.health} /> : null}
          <Badge variant="outline">{row.type}</Badge>
          <Text fontSize="sm" title={row.class_name}>
            {shortClass(row.class_name)} {row.version ?? ""}
          </Text>
        </HStack>
        <HStack wrap="wrap">
          {row.may_change
            ? (Object.keys(VERBS) as VerbName[])
                .filter((verb) => VERBS[verb].appliesTo(row.state))
                .map((verb) => (
                  <Button key={verb} size="xs" variant="outline" loading={busy === verb} disabled={busy !== null} onClick={() => runVerb(verb)}>
                    {VERBS[verb].label}
                  </Button>
                ))
            : null}
          {value.may_delete && !value.defined_in ? (
            <Button size="xs" variant="outline" colorPalette="red" loading={busy === "delete"} disabled={busy !== null} onClick={remove}>
              Delete
            </Button>
          ) : null}
          {back && !isStandalone ? (
            <Button asChild size="xs" variant="outline">
              <Link to={`/dags/${encodeURIComponent(row.dag_id)}`}>DAG</Link>
            </Button>
          ) : null}
        </HStack>
      </HStack>
      {tab === "overview" ? null : <ConnectorSummary row={row} />}
      {row.health?.reason && needsAttention(row) ? <Reason health={row.health} tabs={tabs} open={open} /> : null}
      {value.progress ? <LiveProgress progress={ofWholeRun(value.progress, row)} /> : null}
      {value.defined_in ? (
        <Text fontSize="sm" mb={2}>
          Defined in {value.defined_in}. Change its config there.
        </Text>
      ) : null}
      {error ? <Problem title="This view is out of date">{error}</Problem> : null}
      <Notice message={message} clear={() => setMessage(null)} />
      <Tabs.Root
        value={tab}
        lazyMount
        unmountOnExit
        onValueChange={(event) => open(event.value)}
      >
        <Tabs.List overflowX="auto" overflowY="hidden">
          {tabs.map((each) => (
            <Tabs.Trigger key={each} value={each} flexShrink={0}>
              {TITLES[each]}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value="overview">
          <OverviewTab detail={value} open={open} />
        </Tabs.Content>
        <Tabs.Content value="tasks">
          <Tasks row={row} act={act} busy={busy !== null} />
          <LatestRun row={row} attempts={value.attempts} />
        </Tabs.Content>
        <Tabs.Content value="runs">
          <RunsTab detail={value} />
        </Tabs.Content>
        <Tabs.Content value="offsets">
          <OffsetsTab row={row} notify={setMessage} />
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
          <ConfigTab row={row} dagConfig={value.dag_config} definedIn={value.defined_in} notify={setMessage} />
        </Tabs.Content>
      </Tabs.Root>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

/** The tab where users find what helps, the first one that the connector has. */
const HELP: Record<string, (typeof TABS)[number][]> = { failing: ["tasks"], stuck: ["tasks"], missing: ["config"], refusing: ["dead-letters", "tasks"], behind: ["offsets"] };

function Reason({ health, tabs, open }: { health: Health; tabs: readonly string[]; open: (tab: string) => void }) {
  const help = HELP[health.word]?.find((tab) => tabs.includes(tab));
  return (
    <HStack fontSize="sm" mb={2} align="start" wrap="wrap">
      <Text color={reasonColor(health)} wordBreak="break-word">
        {health.reason}
      </Text>
      {help ? (
        <Button size="2xs" variant="outline" onClick={() => open(help)}>
          {TITLES[help]}
        </Button>
      ) : null}
    </HStack>
  );
}

/** A run that stays has a claim of its own after each pause and restart, and its progress counts from there: the run's records count. */
function ofWholeRun(progress: Progress, { plan, last_run: last }: Row): Progress {
  if (progress.records === null || !last || !plan?.attempt || !isUnfinished(plan.attempt) || plan.attempt.run !== last.run) return progress;
  return { ...progress, records: Math.max(progress.records, last.records), bytes: Math.max(progress.bytes ?? 0, last.bytes) };
}

function BackLink({ to }: { to: string }) {
  return (
    <Box asChild textDecoration="underline" fontSize="sm">
      <Link to={to}>All connectors</Link>
    </Box>
  );
}

type Act = (label: string, done: string, send: () => Promise<unknown>) => Promise<void>;

function Tasks({ row, act, busy }: { row: Row; act: Act; busy: boolean }) {
  const { value, error } = usePolling<Status>(connectorPath(row.name, "/status"), 5);
  if (!value) return error ? <Problem title="Cannot load the status">{error}</Problem> : <Loading what="Loading status…" />;
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
                      disabled={busy || !VERBS.restart.appliesTo(row.state)}
                      onClick={() => void act("task", `Task ${task.id} restarted.`, () => change("POST", connectorPath(row.name, `/tasks/${task.id}/restart`)))}
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
        <Text p={4}>{row.state === "STOPPED" ? "A stopped connector has no tasks." : "No task has reported its status yet."}</Text>
      )}
    </Box>
  );
}

/** The reason of a trace, and the whole trace on request. Shown as plain text only: the connector wrote it. */
function Trace({ title, text }: { title: string; text: string }) {
  const first = firstLine(text);
  return (
    <Box my={2}>
      <Text color="red.fg" wordBreak="break-word">
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

function Topics({ row, act, busy }: { row: Row; act: Act; busy: boolean }) {
  const { value, error, reload } = usePolling<Record<string, { topics: string[] }>>(connectorPath(row.name, "/topics"), 10);
  if (!value) return error ? <Problem title="Cannot load the topics">{error}</Problem> : <Loading what="Loading topics…" />;
  const topics = value[row.name]?.topics ?? [];
  return (
    <Box p={2}>
      <Text mb={2}>{topics.length ? "Topics used since the connector was created or the list was reset:" : "The connector has not used any topics yet."}</Text>
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
          onClick={() => void act("topics", "Topic list reset.", () => change("PUT", connectorPath(row.name, "/topics/reset"))).then(reload)}
        >
          Reset list
        </Button>
      ) : null}
    </Box>
  );
}
