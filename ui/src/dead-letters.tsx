// The dead letter queue of a sink: its newest records, each with why it was refused. Text alone: all of it comes from others.
import { Box, Button, HStack, Table, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { connectorPath, type DeadLetter, type DeadLetters, get, type Row, textOf, type Texts } from "./api";
import { Problem, TitledTable, Waiting } from "./parts";
import { ago, shortClass } from "./words";

const SOME = 20;
const MOST = 100;

/** Read when the tab is opened and on request: each time, the queue is read from its end. */
export function DeadLettersTab({ row }: { row: Row }) {
  const [wanted, setWanted] = useState({ limit: SOME, turn: 0 });
  const [found, setFound] = useState<DeadLetters>();
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
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
  }, [row.name, wanted]);
  const again = (limit: number) => setWanted(({ turn }) => ({ limit, turn: turn + 1 }));
  return (
    <Box>
      {error ? <Problem title="The dead letters cannot be shown">{error}</Problem> : null}
      {found ? <Found found={found} /> : error ? null : <Waiting what="Reading the dead letter queue" />}
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
    </Box>
  );
}

function Found({ found }: { found: DeadLetters }) {
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
      {found.records.length ? (
        <TitledTable label="Dead letters" titles={["When", "From", "Stage", "Exception", "Reason and record"]}>
          {found.records.map((record) => (
            <Refused key={`${record.partition}:${record.offset}`} record={record} />
          ))}
        </TitledTable>
      ) : null}
    </>
  );
}

const NAMED = ["topic", "partition", "offset", "stage", "exception.class.name", "exception.message", "exception.stacktrace", "connector.name"];

function Refused({ record }: { record: DeadLetter }) {
  const { errors } = record;
  const exception = errors["exception.class.name"];
  const message = errors["exception.message"]?.trim().split("\n")[0];
  const others = Object.fromEntries(Object.entries(errors).filter(([name]) => !NAMED.includes(name)));
  return (
    <Table.Row>
      <Table.Cell whiteSpace="nowrap" title={record.timestamp < 0 ? undefined : new Date(record.timestamp).toLocaleString()}>
        {record.timestamp < 0 ? "—" : ago(record.timestamp)}
      </Table.Cell>
      <Table.Cell wordBreak="break-all">{errors["topic"] ? `${errors["topic"]}, partition ${errors["partition"] ?? "?"}, offset ${errors["offset"] ?? "?"}` : "—"}</Table.Cell>
      <Table.Cell>{errors["stage"] ?? "—"}</Table.Cell>
      <Table.Cell title={exception ?? undefined}>{exception ? shortClass(exception) : "—"}</Table.Cell>
      <Table.Cell wordBreak="break-word">
        {message ?? "—"}
        <details>
          <summary>
            Record <span className="connect-hidden">{`at offset ${record.offset} of partition ${record.partition} of the queue`}</span>
          </summary>
          <Whole title="Key" text={record.key} />
          <Whole title="Value" text={record.value} />
          {errors["exception.stacktrace"] ? <Whole title="Trace" text={errors["exception.stacktrace"]} /> : null}
          <Named title="Headers" texts={record.headers} />
          <Named title="Also about the failure" texts={others} />
        </details>
      </Table.Cell>
    </Table.Row>
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
