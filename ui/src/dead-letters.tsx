// The dead letter queue of a sink: its newest records, each with why it was refused, to be selected and edited for a replay. Text alone: all of it comes from others.
import { Badge, Box, Button, Field, HStack, Table, Text, Textarea } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { connectorPath, type DeadLetter, type DeadLetters, type Edit, get, type Row, textOf, type Texts } from "./api";
import { isOpen } from "./attempts";
import { Problem, Tick, TitledTable, Waiting } from "./parts";
import { locationOf, ReplayForm } from "./replay";
import { ago, shortClass } from "./words";

const SOME = 20;
const MOST = 100;

/** Read when the tab is opened, after each run that has delivered or failed something, and on request: each time, the queue is read from its end. */
export function DeadLettersTab({ row }: { row: Row }) {
  const [wanted, setWanted] = useState({ limit: SOME, turn: 0 });
  const [found, setFound] = useState<DeadLetters>();
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [selected, setSelected] = useState(new Set<string>());
  const [edits, setEdits] = useState<Record<string, Edit>>({});
  const [delivered, setDelivered] = useState(row.last_run?.last_ms);
  const isRunning = row.plan?.attempt !== null && row.plan?.attempt !== undefined && isOpen(row.plan.attempt);
  useEffect(() => {
    if (!isRunning) setDelivered(row.last_run?.last_ms);
  }, [isRunning, row.last_run?.last_ms]);
  useEffect(() => {
    const aborter = new AbortController();
    const ask = async () => {
      setBusy(true);
      try {
        setFound(await get<DeadLetters>(`ui/${connectorPath(row.name, `/dead-letters?limit=${wanted.limit}`)}`, aborter.signal));
        setError(undefined);
      } catch (failure) {
        if (!aborter.signal.aborted) setError(textOf(failure));
      }
      if (!aborter.signal.aborted) setBusy(false);
    };
    void ask();
    return () => aborter.abort();
  }, [row.name, delivered, wanted]);
  const again = (limit: number) => setWanted(({ turn }) => ({ limit, turn: turn + 1 }));
  const mayReplay = row.may_change && found?.topic !== null && found?.has_headers === true;
  const select = (locations: string[], isSelected: boolean) =>
    setSelected((before) => {
      const after = new Set(before);
      for (const at of locations) isSelected ? after.add(at) : after.delete(at);
      return after;
    });
  const edit = (at: string, changed: Edit) => {
    setEdits((before) => {
      const { [at]: _, ...others } = before;
      return Object.keys(changed).length ? { ...others, [at]: changed } : others;
    });
    if (Object.keys(changed).length) select([at], true);
  };
  const replayed = new Set(found?.records.filter((record) => record.is_replayed).map(locationOf));
  const left = new Set([...selected].filter((at) => !replayed.has(at)));
  const choosing: Choosing | null = mayReplay ? { selected: left, select, edits, edit } : null;
  return (
    <Box>
      {error ? <Problem title="The dead letters cannot be shown">{error}</Problem> : null}
      {found ? <Found found={found} choosing={choosing} /> : error ? null : <Waiting what="Reading the dead letter queue" />}
      {found?.topic === null ? null : (
        <HStack mt={2}>
          <Button size="xs" variant="outline" loading={busy} onClick={() => again(wanted.limit)}>
            Read again
          </Button>
          {found && found.records.length >= SOME && wanted.limit < MOST ? (
            <Button size="xs" variant="outline" disabled={busy} onClick={() => again(MOST)}>
              Show up to {MOST}
            </Button>
          ) : null}
        </HStack>
      )}
      {mayReplay && found ? <ReplayForm row={row} records={found.records} selected={left} edits={edits} ended={() => again(wanted.limit)} /> : null}
    </Box>
  );
}

/** What is chosen for a replay: records by their location in the queue. */
type Choosing = { selected: Set<string>; select: (locations: string[], isSelected: boolean) => void; edits: Record<string, Edit>; edit: (at: string, changed: Edit) => void };

function Found({ found, choosing }: { found: DeadLetters; choosing: Choosing | null }) {
  if (found.topic === null) {
    return (
      <Text p={4}>
        This connector has no dead letter queue. To keep the records that it refuses, set errors.tolerance to all, errors.deadletterqueue.topic.name to a topic, and
        errors.deadletterqueue.context.headers.enable to true.
      </Text>
    );
  }
  const notes = [
    found.has_headers ? "" : "Only records that name this connector are shown. New ones do not name it, for errors.deadletterqueue.context.headers.enable is not true.",
    found.is_whole ? "" : "The time was over before all was read: older records may be missing.",
    found.left_out ? `${found.left_out} older records had no room in the answer.` : "",
  ].filter(Boolean);
  const left = found.records.filter((record) => !record.is_replayed).map(locationOf);
  const isAll = left.every((at) => choosing?.selected.has(at));
  return (
    <>
      <Text fontSize="sm" mb={2} wordBreak="break-word">
        {found.records.length ? `The newest records of topic ${found.topic} that this connector has refused:` : `Among the newest records of topic ${found.topic} none was refused by this connector.`}
      </Text>
      {notes.map((note) => (
        <Text key={note} fontSize="sm" mb={2}>
          {note}
        </Text>
      ))}
      {choosing && left.length ? (
        <HStack mb={2} wrap="wrap">
          <Button size="xs" variant="outline" onClick={() => choosing.select(left, !isAll)}>
            {isAll ? "Select none" : "Select all shown"}
          </Button>
          <Text fontSize="sm" aria-live="polite">
            {choosing.selected.size} selected
          </Text>
        </HStack>
      ) : null}
      {found.records.length ? (
        <TitledTable label="Dead letters" titles={[...(choosing ? ["Replay"] : []), "When", "From", "Stage", "Exception", "Reason and record"]}>
          {found.records.map((record) => (
            <Refused key={locationOf(record)} record={record} choosing={choosing} />
          ))}
        </TitledTable>
      ) : null}
    </>
  );
}

const NAMED = ["topic", "partition", "offset", "stage", "exception.class.name", "exception.message", "exception.stacktrace", "connector.name"];

function Refused({ record, choosing }: { record: DeadLetter; choosing: Choosing | null }) {
  const at = locationOf(record);
  const inQueue = `at offset ${record.offset} of partition ${record.partition} of the queue`;
  const { errors } = record;
  const exception = errors["exception.class.name"];
  const message = errors["exception.message"]?.trim().split("\n")[0];
  const others = Object.fromEntries(Object.entries(errors).filter(([name]) => !NAMED.includes(name)));
  return (
    <Table.Row>
      {choosing ? (
        <Table.Cell>
          {record.is_replayed ? null : <Tick label={`Select the record ${inQueue}`} checked={choosing.selected.has(at)} change={() => choosing.select([at], !choosing.selected.has(at))} />}
        </Table.Cell>
      ) : null}
      <Table.Cell whiteSpace="nowrap" title={record.timestamp < 0 ? undefined : new Date(record.timestamp).toLocaleString()}>
        {record.timestamp < 0 ? "—" : ago(record.timestamp)}
      </Table.Cell>
      <Table.Cell wordBreak="break-all">{errors["topic"] ? `${errors["topic"]}, partition ${errors["partition"] ?? "?"}, offset ${errors["offset"] ?? "?"}` : "—"}</Table.Cell>
      <Table.Cell>{errors["stage"] ?? "—"}</Table.Cell>
      <Table.Cell title={exception ?? undefined}>{exception ? shortClass(exception) : "—"}</Table.Cell>
      <Table.Cell wordBreak="break-word">
        {message ?? "—"} {record.is_replayed ? <Badge>replayed</Badge> : choosing?.edits[at] ? <Badge colorPalette="blue">edited</Badge> : null}
        <details>
          <summary>
            Record <span className="connect-hidden">{inQueue}</span>
          </summary>
          <Whole title="Key" text={record.key} />
          <Whole title="Value" text={record.value} />
          {errors["exception.stacktrace"] ? <Whole title="Trace" text={errors["exception.stacktrace"]} /> : null}
          <Named title="Headers" texts={record.headers} />
          <Named title="Also about the failure" texts={others} />
          {choosing && !record.is_replayed ? <Editor record={record} edit={choosing.edits[at] ?? {}} set={(changed) => choosing.edit(at, changed)} /> : null}
        </details>
      </Table.Cell>
    </Table.Row>
  );
}

/** New text for key and value. Of a record that is not shown as it is, no one can edit what is hidden or cut. */
function Editor({ record, edit, set }: { record: DeadLetter; edit: Edit; set: (changed: Edit) => void }) {
  const [isOpen, setIsOpen] = useState(Object.keys(edit).length > 0);
  if (!record.is_whole) return <Text fontSize="xs">This record cannot be edited here: it is no text, too long, or has a secret in it.</Text>;
  const put = (part: keyof Edit, text: string | null) => {
    const { [part]: _, ...others } = edit;
    set(text === record[part] ? others : { ...others, [part]: text });
  };
  if (!isOpen) {
    return (
      <Button size="xs" variant="outline" mt={2} onClick={() => setIsOpen(true)}>
        Edit for the replay
      </Button>
    );
  }
  return (
    <Box mt={2}>
      {(["key", "value"] as const).map((part) => {
        const changed = edit[part];
        const shown = changed === undefined ? record[part] : changed;
        const label = part === "key" ? "Key for the replay" : "Value for the replay";
        return (
          <Box key={part} mb={2}>
            <Field.Root disabled={shown === null}>
              <Field.Label>{label}</Field.Label>
              <Textarea size="xs" fontFamily="mono" rows={part === "key" ? 1 : 4} spellCheck={false} value={shown ?? ""} onChange={(event) => put(part, event.target.value)} />
            </Field.Root>
            <Tick label={`${label} is null`} isShown checked={shown === null} change={() => put(part, shown === null ? (record[part] ?? "") : null)} />
          </Box>
        );
      })}
    </Box>
  );
}

function Whole({ title, text }: { title: string; text: string | null | undefined }) {
  return (
    <>
      <Text fontSize="xs">{title}</Text>
      <Box as="pre" tabIndex={0} fontSize="xs" overflow="auto" maxH="200px" whiteSpace="pre-wrap" wordBreak="break-word">
        {text === null || text === undefined ? "null" : text}
      </Box>
    </>
  );
}

function Named({ title, texts }: { title: string; texts: Texts }) {
  const lines = Object.entries(texts).map(([name, text]) => `${name}: ${text ?? "null"}`);
  return lines.length ? <Whole title={title} text={lines.join("\n")} /> : null;
}
