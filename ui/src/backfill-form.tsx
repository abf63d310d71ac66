// The form for a new backfill: ranges of a sink's topics, or settings that limit what a source reads. A dry run comes before the start.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { type RequestedRange, type Backfill, type BackfillRange, change, type Config, connectorPath, type Row, errorText } from "./api";
import { SelectField, SettingsField, parseSettings, TextField } from "./fields";
import { Confirm, Problem, type Question, TitledTable } from "./components";
import { usePolling } from "./polling";
import { count, shortClass } from "./format";

/** The settings that limit what a source reads, by class. Sources of other classes may have others. */
const RANGE_SETTINGS: Record<string, string[]> = {
  JdbcSource: ["rows.from", "rows.to"],
  FileSystemSource: ["file.modified.from", "file.modified.to", "file.prefix", "file.glob", "file.pattern", "file.manifest"],
};
const TOPICS = "connect-backfill-topics";

type Range = { topic: string; partition: string; by: string; from: string; to: string };
const EMPTY_RANGE: Range = { topic: "", partition: "", by: "offsets", from: "", to: "" };

export const rangeText = ({ partition, from, to }: BackfillRange) => `${partition.kafka_topic}-${partition.kafka_partition}: ${from.kafka_offset} to ${to.kafka_offset}`;

/** One end of a range as the REST API accepts it. `error` is empty for valid input. */
function parseBound(by: string, text: string): { bound: number | string | undefined; error: string } {
  if (!text.trim()) return { bound: undefined, error: "" };
  if (by === "offsets") {
    const isWhole = /^\d{1,15}$/.test(text.trim());
    return { bound: isWhole ? Number(text) : undefined, error: isWhole ? "" : `${text} is not an offset` };
  }
  const instant = new Date(text);
  const isTime = !Number.isNaN(instant.getTime());
  return { bound: isTime ? instant.toISOString() : undefined, error: isTime ? "" : `${text} is not a time` };
}

function parseRange({ topic, partition, by, from, to }: Range): { range: RequestedRange; error: string } {
  const [first, end, number] = [parseBound(by, from), parseBound(by, to), parseBound("offsets", partition)];
  const range: RequestedRange = {};
  if (topic.trim()) range.topic = topic.trim();
  if (typeof number.bound === "number") range.partition = number.bound;
  if (first.bound !== undefined) range.from = first.bound;
  if (end.bound !== undefined) range.to = end.bound;
  return { range, error: first.error || end.error || (number.error && `${partition} is not a partition`) };
}

/** The ID of a backfill for which the user has entered none: the current time. */
const timestampId = () => new Date().toISOString().replace(/[-:.Z]/g, "");

/** The result of a dry run; `request` is the request that it was for, as JSON. */
type DryRun = { request: string; backfill: Backfill | null; failure: string };

/** `onStarted` gets the name of the new backfill. */
export function BackfillForm({ row, onStarted }: { row: Row; onStarted: (name: string) => void }) {
  const [ranges, setRanges] = useState([EMPTY_RANGE]);
  const [limits, setLimits] = useState<Config>({});
  const [lines, setLines] = useState("");
  const [id, setId] = useState("");
  const [dryRun, setDryRun] = useState<DryRun | null>(null);
  const [busy, setBusy] = useState("");
  const [failure, setFailure] = useState("");
  const [question, setQuestion] = useState<Question | null>(null);
  const isSink = row.type === "sink";
  const path = connectorPath(row.name, "/backfills");
  const parsed = isSink ? ranges.map(parseRange) : [];
  const { settings, error: settingsError } = parseSettings(lines);
  const inputError = parsed.map((each) => each.error).find(Boolean) ?? settingsError;
  const given = Object.fromEntries(Object.entries(limits).filter(([, text]) => text.trim()));
  const request = { ranges: parsed.map((each) => each.range), config: { ...settings, ...given }, ...(id.trim() ? { id: id.trim() } : {}) };
  const current = JSON.stringify(request);
  const isDryRunCurrent = dryRun?.request === current;
  const runDryRun = async () => {
    setBusy("dry run");
    setFailure("");
    try {
      setDryRun({ request: current, backfill: (await change("POST", path, { ...request, dry_run: true })) as Backfill, failure: "" });
    } catch (error) {
      setDryRun({ request: current, backfill: null, failure: errorText(error) });
    }
    setBusy("");
  };
  const start = async () => {
    setBusy("start");
    try {
      const backfill = (await change("POST", path, { id: timestampId(), ...request })) as Backfill;
      setDryRun(null);
      onStarted(backfill.name);
    } catch (error) {
      setFailure(errorText(error));
    }
    setBusy("");
  };
  const ask = () =>
    setQuestion({
      title: `Start a backfill of ${row.name}?`,
      text: `A separate connector delivers these records again. The offsets of ${row.name} do not change. Unless records are written by key, the destination will contain them twice.`,
      label: "Start backfill",
      act: start,
    });
  return (
    <Box as="section" mt={6} aria-label="New backfill">
      <Heading as="h2" size="md" mb={2}>
        New backfill
      </Heading>
      {isSink ? <Ranges row={row} ranges={ranges} set={setRanges} /> : <RangeSettings row={row} limits={limits} set={setLimits} />}
      <SettingsField label="Settings to override, one per line" placeholder={isSink ? "table.name.format=orders_again" : "topic.prefix=again."} text={lines} set={setLines}>
        All other settings are copied from {row.name}, except its schedule and run limits.
      </SettingsField>
      <TextField label="ID" placeholder="current time" value={id} set={setId} />
      {inputError ? (
        <Text role="alert" fontSize="sm" color="red.fg" mt={2}>
          {inputError}
        </Text>
      ) : null}
      <Box role="status">{isDryRunCurrent && dryRun ? <DryRunResult dryRun={dryRun} /> : null}</Box>
      {failure ? <Problem title="Backfill not started">{failure}</Problem> : null}
      <HStack mt={2} wrap="wrap">
        <Button size="sm" variant="outline" loading={busy === "dry run"} disabled={busy !== "" || inputError !== ""} onClick={() => void runDryRun()}>
          Dry run
        </Button>
        <Button size="sm" loading={busy === "start"} disabled={busy !== "" || !isDryRunCurrent || dryRun?.backfill === null} onClick={ask}>
          Start backfill
        </Button>
        <Text fontSize="sm">{isDryRunCurrent ? "" : "Start a dry run first."}</Text>
      </HStack>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

function Ranges({ row, ranges, set }: { row: Row; ranges: Range[]; set: (ranges: Range[]) => void }) {
  const { value } = usePolling<Record<string, { topics: string[] }>>(connectorPath(row.name, "/topics"), 60);
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
            <TextField label="Topic" placeholder="the sink's only topic" list={TOPICS} value={range.topic} set={(topic) => put(index, { topic })} />
            <TextField label="Partition" placeholder="all" type="number" value={range.partition} set={(partition) => put(index, { partition })} />
            <SelectField
              label="Range in"
              value={range.by}
              options={[
                ["offsets", "offsets"],
                ["times", "times (your time zone)"],
              ]}
              set={(by) => put(index, { by, from: "", to: "" })}
            />
            <TextField label="From" placeholder="beginning" type={type} value={range.from} set={(from) => put(index, { from })} />
            <TextField label="To (exclusive)" placeholder="current end" type={type} value={range.to} set={(to) => put(index, { to })} />
            {ranges.length > 1 ? (
              <Button size="xs" variant="outline" onClick={() => set(ranges.filter((_, at) => at !== index))}>
                Remove <span className="connect-hidden">range {index + 1}</span>
              </Button>
            ) : null}
          </HStack>
        );
      })}
      <Button size="xs" variant="outline" onClick={() => set([...ranges, EMPTY_RANGE])}>
        Add range
      </Button>
    </Box>
  );
}

function RangeSettings({ row, limits, set }: { row: Row; limits: Config; set: (limits: Config) => void }) {
  const known = RANGE_SETTINGS[shortClass(row.class_name).replace(/Connector$/, "")];
  if (!known) return <Text fontSize="sm">Limit the source with its own settings below. The dry run names the settings that can limit it, if any.</Text>;
  return (
    <HStack wrap="wrap">
      {known.map((key) => (
        <TextField key={key} label={key} value={limits[key] ?? ""} set={(text) => set({ ...limits, [key]: text })} />
      ))}
    </HStack>
  );
}

function DryRunResult({ dryRun: { backfill, failure } }: { dryRun: DryRun }) {
  if (backfill === null) return <Problem title="Backfill refused">{failure}</Problem>;
  if (!backfill.ranges.length) return <Text fontSize="sm">Nothing was created. The config is valid, and its settings limit what is read.</Text>;
  return (
    <Box my={2}>
      <Text fontSize="sm" mb={2}>{`Nothing was created. ${count(backfill.left ?? 0)} offsets would be delivered:`}</Text>
      <TitledTable label="Ranges of the dry run" titles={["Topic", "Partition", "From", "To (exclusive)", "Offsets"]}>
        {backfill.ranges.map(({ partition, from, to }) => (
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
