// The form of a new backfill: ranges of a sink's topics, or the settings that bound what a source reads. Tried first, then started.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { type AskedRange, type Backfill, type BackfillRange, change, type Config, connectorPath, type Row, textOf } from "./api";
import { Choice, SettingLines, settingsOf, Typed } from "./fields";
import { Confirm, Problem, type Question, TitledTable } from "./parts";
import { usePolled } from "./polled";
import { count, shortClass } from "./words";

/** The settings that bound what a source reads, by class. A source of another class may have others. */
const RANGE_SETTINGS: Record<string, string[]> = {
  JdbcSource: ["rows.from", "rows.to"],
  FileSystemSource: ["file.modified.from", "file.modified.to", "file.prefix", "file.glob", "file.pattern", "file.manifest"],
};
const TOPICS = "connect-backfill-topics";

type Range = { topic: string; partition: string; by: string; from: string; to: string };
const WHOLE: Range = { topic: "", partition: "", by: "offsets", from: "", to: "" };

export const rangeText = ({ partition, from, to }: BackfillRange) => `${partition.kafka_topic}-${partition.kafka_partition}: ${from.kafka_offset} to ${to.kafka_offset}`;

/** A bound as REST takes it; a text is what is wrong with it. */
function boundOf(by: string, text: string): { bound: number | string | undefined; wrong: string } {
  if (!text.trim()) return { bound: undefined, wrong: "" };
  if (by === "offsets") {
    const isWhole = /^\d{1,15}$/.test(text.trim());
    return { bound: isWhole ? Number(text) : undefined, wrong: isWhole ? "" : `${text} is no offset` };
  }
  const instant = new Date(text);
  const isTime = !Number.isNaN(instant.getTime());
  return { bound: isTime ? instant.toISOString() : undefined, wrong: isTime ? "" : `${text} is no time` };
}

function askedOf({ topic, partition, by, from, to }: Range): { asked: AskedRange; wrong: string } {
  const [first, end, number] = [boundOf(by, from), boundOf(by, to), boundOf("offsets", partition)];
  const asked: AskedRange = {};
  if (topic.trim()) asked.topic = topic.trim();
  if (typeof number.bound === "number") asked.partition = number.bound;
  if (first.bound !== undefined) asked.from = first.bound;
  if (end.bound !== undefined) asked.to = end.bound;
  return { asked, wrong: first.wrong || end.wrong || (number.wrong && `${partition} is no partition`) };
}

/** The id of a backfill that the user has given none: the time. */
const timeId = () => new Date().toISOString().replace(/[-:.Z]/g, "");

type Tried = { of: string; found: Backfill | null; failure: string };

/** `started` gets the name of the backfill. */
export function BackfillForm({ row, started }: { row: Row; started: (name: string) => void }) {
  const [ranges, setRanges] = useState([WHOLE]);
  const [bounds, setBounds] = useState<Config>({});
  const [lines, setLines] = useState("");
  const [id, setId] = useState("");
  const [tried, setTried] = useState<Tried | null>(null);
  const [busy, setBusy] = useState("");
  const [failure, setFailure] = useState("");
  const [question, setQuestion] = useState<Question | null>(null);
  const isSink = row.type === "sink";
  const path = connectorPath(row.name, "/backfills");
  const asked = isSink ? ranges.map(askedOf) : [];
  const { settings, wrong } = settingsOf(lines);
  const mistake = asked.map((each) => each.wrong).find(Boolean) ?? wrong;
  const given = Object.fromEntries(Object.entries(bounds).filter(([, text]) => text.trim()));
  const request = { ranges: asked.map((each) => each.asked), config: { ...settings, ...given }, ...(id.trim() ? { id: id.trim() } : {}) };
  const current = JSON.stringify(request);
  const isTried = tried?.of === current;
  const dryRun = async () => {
    setBusy("dry run");
    setFailure("");
    try {
      setTried({ of: current, found: (await change("POST", path, { ...request, dry_run: true })) as Backfill, failure: "" });
    } catch (error) {
      setTried({ of: current, found: null, failure: textOf(error) });
    }
    setBusy("");
  };
  const start = async () => {
    setBusy("start");
    try {
      const found = (await change("POST", path, { id: timeId(), ...request })) as Backfill;
      setTried(null);
      started(found.name);
    } catch (error) {
      setFailure(textOf(error));
    }
    setBusy("");
  };
  const ask = () =>
    setQuestion({
      title: `Start a backfill of ${row.name}?`,
      text: `A connector of its own delivers this again, beside ${row.name}, whose offsets stay. The destination has these records twice then, unless records are written by key.`,
      label: "Start backfill",
      act: start,
    });
  return (
    <Box as="section" mt={6} aria-label="New backfill">
      <Heading as="h2" size="md" mb={2}>
        New backfill
      </Heading>
      {isSink ? <Ranges row={row} ranges={ranges} set={setRanges} /> : <Bounds row={row} bounds={bounds} set={setBounds} />}
      <SettingLines label="Settings that differ, a line each" hint={isSink ? "table.name.format=orders_again" : "topic.prefix=again."} text={lines} set={setLines}>
        All others are those of {row.name}, but its schedule and what bounds its runs.
      </SettingLines>
      <Typed label="Id" hint="the time" value={id} set={setId} />
      {mistake ? (
        <Text role="alert" fontSize="sm" color="fg.error" mt={2}>
          {mistake}
        </Text>
      ) : null}
      <Box role="status">{isTried && tried ? <Found tried={tried} /> : null}</Box>
      {failure ? <Problem title="The backfill is not started">{failure}</Problem> : null}
      <HStack mt={2} wrap="wrap">
        <Button size="sm" variant="outline" loading={busy === "dry run"} disabled={busy !== "" || mistake !== ""} onClick={() => void dryRun()}>
          Dry run
        </Button>
        <Button size="sm" loading={busy === "start"} disabled={busy !== "" || !isTried || tried?.found === null} onClick={ask}>
          Start backfill
        </Button>
        <Text fontSize="sm">{isTried ? "" : "Make a dry run first."}</Text>
      </HStack>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

function Ranges({ row, ranges, set }: { row: Row; ranges: Range[]; set: (ranges: Range[]) => void }) {
  const { value } = usePolled<Record<string, { topics: string[] }>>(connectorPath(row.name, "/topics"), 60);
  const put = (index: number, changed: Partial<Range>) => set(ranges.map((each, at) => (at === index ? { ...each, ...changed } : each)));
  return (
    <Box>
      <datalist id={TOPICS}>
        {(value?.[row.name]?.topics ?? []).map((topic) => (
          <option key={topic} value={topic} />
        ))}
      </datalist>
      {ranges.map((range, index) => {
        const type = range.by === "times" ? "datetime-local" : "number";
        return (
          <HStack key={index} role="group" aria-label={`Range ${index + 1}`} wrap="wrap" align="end" mb={2}>
            <Typed label="Topic" hint="the only one of the sink" list={TOPICS} value={range.topic} set={(topic) => put(index, { topic })} />
            <Typed label="Partition" hint="all" type="number" value={range.partition} set={(partition) => put(index, { partition })} />
            <Choice
              label="Range by"
              value={range.by}
              options={[
                ["offsets", "offsets"],
                ["times", "times, in your time zone"],
              ]}
              set={(by) => put(index, { by, from: "", to: "" })}
            />
            <Typed label="From" hint="the beginning" type={type} value={range.from} set={(from) => put(index, { from })} />
            <Typed label="To, not itself" hint="the end as it is now" type={type} value={range.to} set={(to) => put(index, { to })} />
            {ranges.length > 1 ? (
              <Button size="xs" variant="outline" onClick={() => set(ranges.filter((_, at) => at !== index))}>
                Remove <span className="connect-hidden">range {index + 1}</span>
              </Button>
            ) : null}
          </HStack>
        );
      })}
      <Button size="xs" variant="outline" onClick={() => set([...ranges, WHOLE])}>
        Add a range
      </Button>
    </Box>
  );
}

function Bounds({ row, bounds, set }: { row: Row; bounds: Config; set: (bounds: Config) => void }) {
  const known = RANGE_SETTINGS[shortClass(row.class_name).replace(/Connector$/, "")];
  if (!known) return <Text fontSize="sm">Set below what bounds the source. The dry run names the settings that do, if there are any.</Text>;
  return (
    <HStack wrap="wrap">
      {known.map((key) => (
        <Typed key={key} label={key} value={bounds[key] ?? ""} set={(text) => set({ ...bounds, [key]: text })} />
      ))}
    </HStack>
  );
}

function Found({ tried: { found, failure } }: { tried: Tried }) {
  if (found === null) return <Problem title="There cannot be such a backfill">{failure}</Problem>;
  if (!found.ranges.length) return <Text fontSize="sm">Nothing was created. The config is accepted, and its settings bound what is read.</Text>;
  return (
    <Box my={2}>
      <Text fontSize="sm" mb={2}>{`Nothing was created. ${count(found.left ?? 0)} offsets would be delivered:`}</Text>
      <TitledTable label="Ranges of the dry run" titles={["Topic", "Partition", "From", "To, not itself", "Offsets"]}>
        {found.ranges.map(({ partition, from, to }) => (
          <Table.Row key={`${partition.kafka_topic}-${partition.kafka_partition}`}>
            <Table.Cell wordBreak="break-all">{partition.kafka_topic}</Table.Cell>
            <Table.Cell>{partition.kafka_partition}</Table.Cell>
            <Table.Cell>{from.kafka_offset}</Table.Cell>
            <Table.Cell>{to.kafka_offset}</Table.Cell>
            <Table.Cell>{count(to.kafka_offset - from.kafka_offset)}</Table.Cell>
          </Table.Row>
        ))}
      </TitledTable>
    </Box>
  );
}
