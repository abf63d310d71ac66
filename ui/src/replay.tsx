// Dead-letter records of a sink, written back to their topics: which ones, changed how, tried without effect, and followed to their end.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useEffect, useRef, useState } from "react";
import { Link } from "react-router-dom";
import { change, connectorPath, type DeadLetter, type Edit, isAlone, type Preview, type PreviewedRecord, type Replay, type ReplayRequest, type ReplayView, type Row, textOf } from "./api";
import { Choice, SettingLines, settingsOf, Typed } from "./fields";
import { type Json, written } from "./json";
import { Confirm, Notice, Problem, type Question, type Said, State, TitledTable } from "./parts";
import { usePolled } from "./polled";
import { Steps } from "./steps";
import { count, shortClass } from "./words";

const RECORDS = 20;
const TRANSFORMS = "transforms=d\ntransforms.d.type=org.apache.kafka.connect.transforms.ReplaceField$Value\ntransforms.d.exclude=note";

export const locationOf = (record: { partition: number; offset: number }) => `${record.partition}:${record.offset}`;

type Wanted = { offsets: string; exception: string; from: string; topic: string; transforms: string };
const ALL: Wanted = { offsets: "", exception: "", from: "", topic: "", transforms: "" };

/** What REST is asked for. Records that are selected come before offsets that are typed; only their edits count. */
function requestOf(choice: Wanted, selected: Set<string>, edits: Record<string, Edit>): ReplayRequest {
  return {
    offsets: selected.size ? [...selected] : choice.offsets.split(/[\s,]+/).filter(Boolean),
    from_topics: choice.from ? [choice.from] : [],
    exceptions: choice.exception ? [choice.exception] : [],
    topic: choice.topic.trim() || null,
    edits: Object.fromEntries(Object.entries(edits).filter(([at]) => selected.has(at))),
    transforms: settingsOf(choice.transforms).settings,
  };
}

type Parts = { row: Row; records: DeadLetter[]; selected: Set<string>; edits: Record<string, Edit>; ended: () => void };

/** `ended` is called when a replay that was followed has written all. */
export function ReplayForm({ row, records, selected, edits, ended }: Parts) {
  const [choice, setChoice] = useState(ALL);
  const [tried, setTried] = useState<{ of: string; preview: Preview | null; failure: string } | null>(null);
  const [busy, setBusy] = useState("");
  const [said, setSaid] = useState<Said>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const last = useLastReplay(row.name, ended);
  const set = (key: keyof Wanted) => (text: string) => setChoice((before) => ({ ...before, [key]: text }));
  const path = connectorPath(row.name, "/dead-letters/replay");
  const request = requestOf(choice, selected, edits);
  const { wrong } = settingsOf(choice.transforms);
  const current = JSON.stringify(request);
  const isTried = tried?.of === current;
  const dryRun = async () => {
    setBusy("dry run");
    setSaid(null);
    try {
      const { preview } = (await change("POST", path, { ...request, dry_run: true, records: RECORDS })) as Replay;
      setTried({ of: current, preview: preview ?? null, failure: "" });
    } catch (failure) {
      setTried({ of: current, preview: null, failure: textOf(failure) });
    }
    setBusy("");
  };
  const replay = async () => {
    setBusy("replay");
    try {
      await change("POST", path, { ...request, replay: `page-${Date.now()}` });
      setSaid({ kind: "success", text: "The replay is requested." });
      setTried(null);
    } catch (failure) {
      setSaid({ kind: "error", text: textOf(failure) });
    }
    setBusy("");
    last.reload();
  };
  const ask = () =>
    setQuestion({
      title: `Replay dead-letter records of ${row.name}?`,
      text: `${extentOf(tried?.preview ?? null)} ${request.topic ? `Topic ${request.topic} gets them, and all its consumers read them.` : "The topics on which they failed get them again, and all their consumers read them."} Each record is replayed once, and this cannot be undone.${tried?.failure ? `\n\nThe dry run has failed: ${tried.failure}` : ""}`,
      label: "Replay",
      act: replay,
    });
  const exceptions = several(records.map((each) => each.errors["exception.class.name"]));
  const topics = several(records.map((each) => each.errors["topic"]));
  if (last.value && !last.value.may_replay) {
    return (
      <Box as="section" mt={6} aria-label="Replay">
        <LastReplay last={last.value} error={last.error} />
        <Text fontSize="sm">A replay would be connector {last.value.connector}, which you may not change.</Text>
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
        {selected.size ? `The selected records (${selected.size}) are written back, as far as they meet the conditions.` : "No record is selected: all records that were not replayed yet and meet the conditions are written back."}
      </Text>
      <HStack wrap="wrap" align="start" mb={2}>
        <Choice label="Exception" value={choice.exception} options={[["", "all"], ...exceptions.map((each) => [each, shortClass(each)] as const)]} set={set("exception")} />
        <Choice label="Failed on topic" value={choice.from} options={[["", "all"], ...topics.map((each) => [each, each] as const)]} set={set("from")} />
        <Typed label="Offsets of the queue" hint="such as 0:5-20 1:7" value={selected.size ? "" : choice.offsets} isDisabled={selected.size > 0} set={set("offsets")} />
        <Typed label="To another topic" hint="to the topic of each" value={choice.topic} set={set("topic")} />
      </HStack>
      <details>
        <summary>Transformations</summary>
        <SettingLines label="Settings of transformations, a line each" hint={TRANSFORMS} text={choice.transforms} set={set("transforms")}>
          They get what the sink&apos;s converters make of a record.
        </SettingLines>
      </details>
      <Box role="status">{isTried && tried ? <Tried tried={tried} records={records} /> : null}</Box>
      <Notice said={said} clear={() => setSaid(null)} />
      <HStack mt={2} wrap="wrap">
        <Button size="sm" variant="outline" loading={busy === "dry run"} disabled={busy !== "" || wrong !== ""} onClick={() => void dryRun()}>
          Dry run
        </Button>
        <Button size="sm" loading={busy === "replay"} disabled={busy !== "" || !isTried || last.isUnderWay} onClick={ask}>
          Replay
        </Button>
        <Text fontSize="sm">{wrong ? "Correct the transformations first." : last.isUnderWay ? "A replay is under way." : isTried ? "" : "Make a dry run first."}</Text>
      </HStack>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

const several = (texts: (string | null | undefined)[]) => [...new Set(texts.filter((text): text is string => Boolean(text)))].sort();

function extentOf(preview: Preview | null): string {
  if (preview === null) return "How many records there are is not known.";
  if (preview.read >= RECORDS) return `A replay writes ${RECORDS} records or more.`;
  return `A replay writes ${preview.read} ${preview.read === 1 ? "record" : "records"}.`;
}

/** The last replay of the sink, polled often until it is done. `ended` is called when one has become done while the page shows it. */
function useLastReplay(name: string, ended: () => void) {
  const [isPolledOften, setIsPolledOften] = useState(false);
  const found = usePolled<ReplayView>(`ui/${connectorPath(name, "/replay")}`, isPolledOften ? 2 : 15);
  const replay = found.value?.replay ?? null;
  const [id, isDone] = [replay?.replay, replay?.is_done ?? true];
  const seen = useRef<string | null | undefined>(null);
  useEffect(() => {
    if (!found.value) return;
    if (isDone && id !== undefined && seen.current !== null && seen.current !== id) ended();
    seen.current = isDone ? id : undefined; // of one that is done when the page is opened, the end was not seen
    setIsPolledOften(!isDone);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [found.value === undefined, id, isDone]);
  const isUnderWay = !isDone && replay?.state !== "FAILED" && replay?.state !== "PAUSED" && replay?.state !== "STOPPED";
  return { ...found, isUnderWay };
}

function LastReplay({ last, error }: { last: ReplayView | undefined; error: string | undefined }) {
  if (error) return <Problem title="The last replay cannot be shown">{error}</Problem>;
  if (!last?.replay) return null;
  const { replay, connector, dag_id, run } = last;
  const written = `${count(replay.records)} ${replay.records === 1 ? "record" : "records"} ${replay.records === 1 ? "was" : "were"} written`;
  const view = `?connector=${encodeURIComponent(connector)}`;
  return (
    <Box mb={3} role="status">
      <HStack wrap="wrap" fontSize="sm">
        {replay.is_done ? null : <State state={replay.state} />}
        <Text>{replay.is_done ? `The last replay is done: ${written}.` : replay.state === "FAILED" ? `The last replay has failed: ${written}.` : `A replay is under way: ${written} so far.`}</Text>
        <Box asChild textDecoration="underline">
          <Link to={isAlone ? view : `/plugin/connect${view}`}>Connector {connector}</Link>
        </Box>
        {run && !isAlone ? (
          <Box asChild textDecoration="underline">
            <Link to={`/dags/${encodeURIComponent(dag_id)}/runs/${encodeURIComponent(run)}`}>DAG run {run}</Link>
          </Box>
        ) : null}
      </HStack>
      {replay.failure ? <Problem title="Why the replay failed">{`${replay.failure}\nRestart connector ${connector}, or request another replay.`}</Problem> : null}
    </Box>
  );
}

const json = (value: Json) => (value === null ? "null" : typeof value === "string" ? value : written(value));

/** Which record of the queue a record of the dry run was; empty: a transformation has created another record. */
function originOf({ source_offset: at }: PreviewedRecord): string {
  if (at === null || typeof at !== "object" || Array.isArray(at)) return "";
  const { partition, offset } = at as Record<string, Json>;
  return `${String(partition)}:${String(offset)}`;
}

function Tried({ tried: { preview, failure }, records }: { tried: { preview: Preview | null; failure: string }; records: DeadLetter[] }) {
  if (preview === null) return <Problem title="The dry run has failed">{failure}</Problem>;
  const known = new Map(records.map((each) => [locationOf(each), each]));
  return (
    <Box my={2}>
      <Text fontSize="sm" mb={2}>
        {preview.read ? `Nothing was written. ${extentOf(preview)}` : "Nothing would be written: no record that was not replayed yet meets the conditions."}
      </Text>
      {preview.failures.map((each) => (
        <Problem key={each} title="A record failed">
          {each}
        </Problem>
      ))}
      {preview.records.length ? (
        <TitledTable label="Records of the dry run" titles={["In the queue", "Goes to", "Before", "After"]}>
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
      <Text fontSize="xs">Key: {json(key)}</Text>
      <Text fontSize="xs">
        Value: {json(value)}
        {isCut ? " …" : ""}
      </Text>
    </>
  );
}
