// The dead letter queue of a sink: its newest records with the reasons of their failures, to select and edit for a replay. Everything is shown as plain
// text, because others wrote it.
import { Badge, Box, Button, Field, HStack, Table, Text, Textarea } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { connectorPath, type DeadLetter, type DeadLetters, type Edit, get, type Row, errorText, type Texts } from "./api";
import { isUnfinished } from "./attempts";
import { Problem, LabelledCheckbox, TitledTable, Loading } from "./components";
import { locationOf, ReplayForm } from "./replay";
import { ago, firstLine, shortClass } from "./format";

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;

/** Reads the end of the queue when the tab is opened, after each run that delivered or failed records, and on request. */
export function DeadLettersTab({ row }: { row: Row }) {
  const [wanted, setWanted] = useState({ limit: DEFAULT_LIMIT, turn: 0 });
  const [found, setFound] = useState<DeadLetters>();
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [selected, setSelected] = useState(new Set<string>());
  const [edits, setEdits] = useState<Record<string, Edit>>({});
  const [delivered, setDelivered] = useState(row.last_run?.last_ms);
  const isRunning = row.plan?.attempt !== null && row.plan?.attempt !== undefined && isUnfinished(row.plan.attempt);
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
        if (!aborter.signal.aborted) setError(errorText(failure));
      }
      if (!aborter.signal.aborted) setBusy(false);
    };
    void ask();
    return () => aborter.abort();
  }, [row.name, delivered, wanted]);
  const reload = (limit: number) => setWanted(({ turn }) => ({ limit, turn: turn + 1 }));
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
  const selection: Selection | null = mayReplay ? { selected: left, select, edits, edit } : null;
  return (
    <Box>
      {error ? <Problem title="Cannot load the dead-letter records">{error}</Problem> : null}
      {found ? <DeadLetterTable found={found} selection={selection} /> : error ? null : <Loading what="Loading the dead letter queue…" />}
      {found?.topic === null ? null : (
        <HStack mt={2}>
          <Button size="xs" variant="outline" loading={busy} onClick={() => reload(wanted.limit)}>
            Refresh
          </Button>
          {found && found.records.length >= DEFAULT_LIMIT && wanted.limit < MAX_LIMIT ? (
            <Button size="xs" variant="outline" disabled={busy} onClick={() => reload(MAX_LIMIT)}>
              Show up to {MAX_LIMIT}
            </Button>
          ) : null}
        </HStack>
      )}
      {mayReplay && found ? <ReplayForm row={row} records={found.records} selected={left} edits={edits} onDone={() => reload(wanted.limit)} /> : null}
    </Box>
  );
}

/** The records selected for a replay, by their location in the queue, and their edits. */
type Selection = { selected: Set<string>; select: (locations: string[], isSelected: boolean) => void; edits: Record<string, Edit>; edit: (at: string, changed: Edit) => void };

function DeadLetterTable({ found, selection }: { found: DeadLetters; selection: Selection | null }) {
  if (found.topic === null) {
    return (
      <Text p={4}>
        This connector has no dead letter queue. To keep failed records, set errors.tolerance to all, errors.deadletterqueue.topic.name to a topic, and
        errors.deadletterqueue.context.headers.enable to true.
      </Text>
    );
  }
  const notes = [
    found.has_headers ? "" : "Only records whose headers name this connector are shown. New records lack these headers because errors.deadletterqueue.context.headers.enable is not true.",
    found.is_whole ? "" : "The search timed out: older records may be missing.",
    found.left_out ? `${found.left_out} older records did not fit in the response.` : "",
  ].filter(Boolean);
  const left = found.records.filter((record) => !record.is_replayed).map(locationOf);
  const isAll = left.every((at) => selection?.selected.has(at));
  return (
    <>
      <Text fontSize="sm" mb={2} wordBreak="break-word">
        {found.records.length ? `The newest dead-letter records of this connector in topic ${found.topic}:` : `No dead-letter records of this connector among the newest records of topic ${found.topic}.`}
      </Text>
      {notes.map((note) => (
        <Text key={note} fontSize="sm" mb={2}>
          {note}
        </Text>
      ))}
      {selection && left.length ? (
        <HStack mb={2} wrap="wrap">
          <Button size="xs" variant="outline" onClick={() => selection.select(left, !isAll)}>
            {isAll ? "Clear selection" : "Select all shown"}
          </Button>
          <Text fontSize="sm" aria-live="polite">
            {selection.selected.size} selected
          </Text>
        </HStack>
      ) : null}
      {found.records.length ? (
        <TitledTable label="Dead letters" titles={[...(selection ? ["Replay"] : []), "When", "From", "Stage", "Exception", "Reason and record"]}>
          {found.records.map((record) => (
            <DeadLetterRow key={locationOf(record)} record={record} selection={selection} />
          ))}
        </TitledTable>
      ) : null}
    </>
  );
}

const SHOWN_HEADERS = ["topic", "partition", "offset", "stage", "exception.class.name", "exception.message", "exception.stacktrace", "connector.name"];

function DeadLetterRow({ record, selection }: { record: DeadLetter; selection: Selection | null }) {
  const at = locationOf(record);
  const inQueue = `at offset ${record.offset} of partition ${record.partition} of the queue`;
  const { errors } = record;
  const exception = errors["exception.class.name"];
  const message = firstLine(errors["exception.message"] ?? "");
  const others = Object.fromEntries(Object.entries(errors).filter(([name]) => !SHOWN_HEADERS.includes(name)));
  return (
    <Table.Row>
      {selection ? (
        <Table.Cell>
          {record.is_replayed ? null : <LabelledCheckbox label={`Select the record ${inQueue}`} checked={selection.selected.has(at)} change={() => selection.select([at], !selection.selected.has(at))} />}
        </Table.Cell>
      ) : null}
      <Table.Cell whiteSpace="nowrap" title={record.timestamp < 0 ? undefined : new Date(record.timestamp).toLocaleString()}>
        {record.timestamp < 0 ? "—" : ago(record.timestamp)}
      </Table.Cell>
      <Table.Cell wordBreak="break-all">{errors["topic"] ? `${errors["topic"]}, partition ${errors["partition"] ?? "?"}, offset ${errors["offset"] ?? "?"}` : "—"}</Table.Cell>
      <Table.Cell>{errors["stage"] ?? "—"}</Table.Cell>
      <Table.Cell title={exception ?? undefined}>{exception ? shortClass(exception) : "—"}</Table.Cell>
      <Table.Cell wordBreak="break-word">
        {message ?? "—"} {record.is_replayed ? <Badge>replayed</Badge> : selection?.edits[at] ? <Badge colorPalette="blue">edited</Badge> : null}
        <details>
          <summary>
            Record <span className="connect-hidden">{inQueue}</span>
          </summary>
          <TextBlock title="Key" text={record.key} />
          <TextBlock title="Value" text={record.value} />
          {errors["exception.stacktrace"] ? <TextBlock title="Trace" text={errors["exception.stacktrace"]} /> : null}
          <NamedTexts title="Headers" texts={record.headers} />
          <NamedTexts title="Other failure details" texts={others} />
          {selection && !record.is_replayed ? <Editor record={record} edit={selection.edits[at] ?? {}} set={(changed) => selection.edit(at, changed)} /> : null}
        </details>
      </Table.Cell>
    </Table.Row>
  );
}

/** Fields for a new key and value. Records that are hidden or truncated in part cannot be edited. */
function Editor({ record, edit, set }: { record: DeadLetter; edit: Edit; set: (changed: Edit) => void }) {
  const [isOpen, setIsOpen] = useState(Object.keys(edit).length > 0);
  if (!record.is_whole) return <Text fontSize="xs">This record cannot be edited here: it is not text, is too long, or contains a secret.</Text>;
  const put = (part: keyof Edit, text: string | null) => {
    const { [part]: _, ...others } = edit;
    set(text === record[part] ? others : { ...others, [part]: text });
  };
  if (!isOpen) {
    return (
      <Button size="xs" variant="outline" mt={2} onClick={() => setIsOpen(true)}>
        Edit for replay
      </Button>
    );
  }
  return (
    <Box mt={2}>
      {(["key", "value"] as const).map((part) => {
        const changed = edit[part];
        const shown = changed === undefined ? record[part] : changed;
        const label = part === "key" ? "Key for replay" : "Value for replay";
        return (
          <Box key={part} mb={2}>
            <Field.Root disabled={shown === null}>
              <Field.Label>{label}</Field.Label>
              <Textarea size="xs" fontFamily="mono" rows={part === "key" ? 1 : 4} spellCheck={false} value={shown ?? ""} onChange={(event) => put(part, event.target.value)} />
            </Field.Root>
            <LabelledCheckbox label={`${label} is null`} isLabelVisible checked={shown === null} change={() => put(part, shown === null ? (record[part] ?? "") : null)} />
          </Box>
        );
      })}
    </Box>
  );
}

function TextBlock({ title, text }: { title: string; text: string | null | undefined }) {
  return (
    <>
      <Text fontSize="xs">{title}</Text>
      <Box as="pre" tabIndex={0} fontSize="xs" overflow="auto" maxH="200px" whiteSpace="pre-wrap" wordBreak="break-word">
        {text === null || text === undefined ? "null" : text}
      </Box>
    </>
  );
}

function NamedTexts({ title, texts }: { title: string; texts: Texts }) {
  const lines = Object.entries(texts).map(([name, text]) => `${name}: ${text ?? "null"}`);
  return lines.length ? <TextBlock title={title} text={lines.join("\n")} /> : null;
}
