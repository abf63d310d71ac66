// Replays of dead-letter records, written back to their topics: selection, changes, dry run, and progress of the last replay.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useEffect, useRef, useState } from "react";
import { Link } from "react-router-dom";
import { change, connectorPath, type DeadLetter, type Edit, isStandalone, type Preview, type PreviewedRecord, type Replay, type ReplayRequest, type ReplayView, type Row, errorText } from "./api";
import { SelectField, SettingsField, parseSettings, TextField } from "./fields";
import { type Json, formatJson } from "./json";
import { Confirm, Notice, Problem, type Question, type Message, State, TitledTable } from "./components";
import { usePolling } from "./polling";
import { Steps } from "./steps";
import { count, shortClass } from "./format";

const RECORDS = 20;
const TRANSFORMS = "transforms=d\ntransforms.d.type=org.apache.kafka.connect.transforms.ReplaceField$Value\ntransforms.d.exclude=note";

export const locationOf = (record: { partition: number; offset: number }) => `${record.partition}:${record.offset}`;

type Criteria = { offsets: string; exception: string; from: string; topic: string; transforms: string };
const NO_CRITERIA: Criteria = { offsets: "", exception: "", from: "", topic: "", transforms: "" };

/** The REST request. Selected records take precedence over typed offsets; only edits of selected records are sent. */
function buildRequest(criteria: Criteria, selected: Set<string>, edits: Record<string, Edit>): ReplayRequest {
  return {
    offsets: selected.size ? [...selected] : criteria.offsets.split(/[\s,]+/).filter(Boolean),
    from_topics: criteria.from ? [criteria.from] : [],
    exceptions: criteria.exception ? [criteria.exception] : [],
    topic: criteria.topic.trim() || null,
    edits: Object.fromEntries(Object.entries(edits).filter(([at]) => selected.has(at))),
    transforms: parseSettings(criteria.transforms).settings,
  };
}

type ReplayFormProps = { row: Row; records: DeadLetter[]; selected: Set<string>; edits: Record<string, Edit>; onDone: () => void };

/** `onDone` is called when a replay ends that the page has seen in progress. */
export function ReplayForm({ row, records, selected, edits, onDone }: ReplayFormProps) {
  const [criteria, setCriteria] = useState(NO_CRITERIA);
  const [dryRun, setDryRun] = useState<(DryRun & { request: string }) | null>(null);
  const [busy, setBusy] = useState("");
  const [message, setMessage] = useState<Message>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const last = useLastReplay(row.name, onDone);
  const set = (key: keyof Criteria) => (text: string) => setCriteria((before) => ({ ...before, [key]: text }));
  const path = connectorPath(row.name, "/dead-letters/replay");
  const request = buildRequest(criteria, selected, edits);
  const { error } = parseSettings(criteria.transforms);
  const current = JSON.stringify(request);
  const isDryRunCurrent = dryRun?.request === current;
  const runDryRun = async () => {
    setBusy("dry run");
    setMessage(null);
    try {
      const { preview } = (await change("POST", path, { ...request, dry_run: true, records: RECORDS })) as Replay;
      setDryRun({ request: current, preview: preview ?? null, failure: "" });
    } catch (failure) {
      setDryRun({ request: current, preview: null, failure: errorText(failure) });
    }
    setBusy("");
  };
  const replay = async () => {
    setBusy("replay");
    try {
      await change("POST", path, { ...request, replay: `page-${Date.now()}` });
      setMessage({ kind: "success", text: "Replay requested." });
      setDryRun(null);
    } catch (failure) {
      setMessage({ kind: "error", text: errorText(failure) });
    }
    setBusy("");
    last.reload();
  };
  const ask = () =>
    setQuestion({
      title: `Replay dead-letter records of ${row.name}?`,
      text: `${extentText(dryRun?.preview ?? null)} ${request.topic ? `They go to topic ${request.topic}, where all its consumers read them.` : "They go back to the topics on which they failed, where all consumers read them again."} Each record is replayed only once, and this cannot be undone.${dryRun?.failure ? `\n\nThe dry run failed: ${dryRun.failure}` : ""}`,
      label: "Replay",
      act: replay,
    });
  const exceptions = distinct(records.map((each) => each.errors["exception.class.name"]));
  const topics = distinct(records.map((each) => each.errors["topic"]));
  if (last.value && !last.value.may_replay) {
    return (
      <Box as="section" mt={6} aria-label="Replay">
        <LastReplay last={last.value} error={last.error} />
        <Text fontSize="sm">A replay runs as connector {last.value.connector}, which you may not change.</Text>
      </Box>
    );
  }
  return (
    <Box as="section" mt={6} aria-label="Replay">
      <Heading as="h2" size="md" mb={2}>
        Replay
      </Heading>
      <LastReplay last={last.value} error={last.error} />
      <Text fontSize="sm" mb={2}>
        {selected.size ? `The selected records (${selected.size}) are written back if they meet the conditions.` : "No records selected: all records that meet the conditions and were not replayed yet are written back."}
      </Text>
      <HStack wrap="wrap" align="start" mb={2}>
        <SelectField label="Exception" value={criteria.exception} options={[["", "all"], ...exceptions.map((each) => [each, shortClass(each)] as const)]} set={set("exception")} />
        <SelectField label="Failed on topic" value={criteria.from} options={[["", "all"], ...topics.map((each) => [each, each] as const)]} set={set("from")} />
        <TextField label="Offsets in the queue" placeholder="such as 0:5-20 1:7" value={selected.size ? "" : criteria.offsets} isDisabled={selected.size > 0} set={set("offsets")} />
        <TextField label="Target topic" placeholder="each record's own" value={criteria.topic} set={set("topic")} />
      </HStack>
      <details>
        <summary>Transformations</summary>
        <SettingsField label="Transformation settings, one per line" placeholder={TRANSFORMS} text={criteria.transforms} set={set("transforms")}>
          They are applied to records as the sink&apos;s converters read them.
        </SettingsField>
      </details>
      <Box role="status">{isDryRunCurrent && dryRun ? <DryRunResult dryRun={dryRun} records={records} /> : null}</Box>
      <Notice message={message} clear={() => setMessage(null)} />
      <HStack mt={2} wrap="wrap">
        <Button size="sm" variant="outline" loading={busy === "dry run"} disabled={busy !== "" || error !== ""} onClick={() => void runDryRun()}>
          Dry run
        </Button>
        <Button size="sm" loading={busy === "replay"} disabled={busy !== "" || !isDryRunCurrent || last.isInProgress} onClick={ask}>
          Replay
        </Button>
        <Text fontSize="sm">{error ? "Correct the transformation settings first." : last.isInProgress ? "A replay is in progress." : isDryRunCurrent ? "" : "Start a dry run first."}</Text>
      </HStack>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

const distinct = (texts: (string | null | undefined)[]) => [...new Set(texts.filter((text): text is string => Boolean(text)))].sort();

function extentText(preview: Preview | null): string {
  if (preview === null) return "The number of records is unknown.";
  if (preview.read >= RECORDS) return `A replay writes ${RECORDS} records or more.`;
  return `A replay writes ${preview.read} ${preview.read === 1 ? "record" : "records"}.`;
}

/** The last replay of the sink, polled often until it is done. `onDone` is called when a replay ends that the page has seen in progress. */
function useLastReplay(name: string, onDone: () => void) {
  const [isPolledOften, setIsPolledOften] = useState(false);
  const found = usePolling<ReplayView>(`ui/${connectorPath(name, "/replay")}`, isPolledOften ? 2 : 15);
  const replay = found.value?.replay ?? null;
  const [id, isDone] = [replay?.replay, replay?.is_done ?? true];
  const seen = useRef<string | null | undefined>(null);
  useEffect(() => {
    if (!found.value) return;
    if (isDone && id !== undefined && seen.current !== null && seen.current !== id) onDone();
    seen.current = isDone ? id : undefined; // a replay that was done when the page was opened was not seen in progress
    setIsPolledOften(!isDone);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [found.value === undefined, id, isDone]);
  const isInProgress = !isDone && replay?.state !== "FAILED" && replay?.state !== "PAUSED" && replay?.state !== "STOPPED";
  return { ...found, isInProgress };
}

function LastReplay({ last, error }: { last: ReplayView | undefined; error: string | undefined }) {
  if (error) return <Problem title="Cannot load the last replay">{error}</Problem>;
  if (!last?.replay) return null;
  const { replay, connector, dag_id, run } = last;
  const writtenText = `${count(replay.records)} ${replay.records === 1 ? "record" : "records"} written`;
  const view = `?connector=${encodeURIComponent(connector)}`;
  return (
    <Box mb={3} role="status">
      <HStack wrap="wrap" fontSize="sm">
        {replay.is_done ? null : <State state={replay.state} />}
        <Text>{replay.is_done ? `Last replay done: ${writtenText}.` : replay.state === "FAILED" ? `Last replay failed: ${writtenText}.` : `Replay in progress: ${writtenText} so far.`}</Text>
        <Box asChild textDecoration="underline">
          <Link to={isStandalone ? view : `/plugin/connect${view}`}>Connector {connector}</Link>
        </Box>
        {run && !isStandalone ? (
          <Box asChild textDecoration="underline">
            <Link to={`/dags/${encodeURIComponent(dag_id)}/runs/${encodeURIComponent(run)}`}>DAG run {run}</Link>
          </Box>
        ) : null}
      </HStack>
      {replay.failure ? <Problem title="Why the replay failed">{`${replay.failure}\nRestart connector ${connector}, or request another replay.`}</Problem> : null}
    </Box>
  );
}

const jsonText = (value: Json) => (value === null ? "null" : typeof value === "string" ? value : formatJson(value));

/** The location in the queue of a dry run's record; empty for a record that a transformation created. */
function originOf({ source_offset: at }: PreviewedRecord): string {
  if (at === null || typeof at !== "object" || Array.isArray(at)) return "";
  const { partition, offset } = at as Record<string, Json>;
  return `${String(partition)}:${String(offset)}`;
}

type DryRun = { preview: Preview | null; failure: string };

function DryRunResult({ dryRun: { preview, failure }, records }: { dryRun: DryRun; records: DeadLetter[] }) {
  if (preview === null) return <Problem title="The dry run failed">{failure}</Problem>;
  const known = new Map(records.map((each) => [locationOf(each), each]));
  return (
    <Box my={2}>
      <Text fontSize="sm" mb={2}>
        {preview.read ? `Nothing was written. ${extentText(preview)}` : "Nothing to replay: no record meets the conditions that was not replayed yet."}
      </Text>
      {preview.failures.map((each) => (
        <Problem key={each} title="A record failed">
          {each}
        </Problem>
      ))}
      {preview.records.length ? (
        <TitledTable label="Records of the dry run" titles={["In the queue", "Target", "Before", "After"]}>
          {preview.records.map((record, index) => {
            const before = known.get(originOf(record));
            return (
              <Table.Row key={index} verticalAlign="top">
                <Table.Cell>{originOf(record) || "—"}</Table.Cell>
                <Table.Cell wordBreak="break-all">{record.partition === null ? record.topic : `${record.topic}, partition ${record.partition}`}</Table.Cell>
                <Table.Cell wordBreak="break-all">{before ? <KeyAndValue of={before} isCut={!before.is_whole} /> : "not among the records above"}</Table.Cell>
                <Table.Cell wordBreak="break-all">
                  <KeyAndValue of={record} isCut={record.is_cut} />
                </Table.Cell>
              </Table.Row>
            );
          })}
        </TitledTable>
      ) : null}
      {preview.steps?.length ? <Steps steps={preview.steps} /> : null}
    </Box>
  );
}

function KeyAndValue({ of: { key, value }, isCut }: { of: { key: Json; value: Json }; isCut: boolean }) {
  return (
    <>
      <Text fontSize="xs">Key: {jsonText(key)}</Text>
      <Text fontSize="xs">
        Value: {jsonText(value)}
        {isCut ? " …" : ""}
      </Text>
    </>
  );
}
