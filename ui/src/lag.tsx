// How far a connector is from the end of what it reads: over time, and of a sink now, partition by partition.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { connectorPath, type Lag, type LagHistory, type Row } from "./api";
import { Problem, TitledTable, Waiting } from "./parts";
import { Plot } from "./plot";
import { usePolled } from "./polled";
import { useQuery } from "./query";
import { duration, quantity } from "./words";

const whole = new Intl.NumberFormat("en");
const SPANS = new Map([
  ["hour", 1],
  ["day", 24],
  ["week", 168],
]);

/** Nothing for a source of which no distance is known. */
export function LagSection({ row }: { row: Row }) {
  const [parameters, setQuery] = useQuery();
  const wanted = parameters.get("span") ?? "";
  const span = SPANS.has(wanted) ? wanted : "day";
  const { value, error } = usePolled<LagHistory>(`ui/${connectorPath(row.name, `/lags?hours=${SPANS.get(span)}`)}`, 30);
  const isSink = row.type === "sink";
  if (!isSink && row.left === null && !value?.unit) return null;
  return (
    <Box as="section" mt={6}>
      <HStack justify="space-between" wrap="wrap" mb={2}>
        <Heading as="h2" size="md">
          {isSink ? "Lag" : "Distance from the end"}
        </Heading>
        <HStack role="group" aria-label="Time shown">
          {[...SPANS.keys()].map((each) => (
            <Button key={each} size="xs" variant={each === span ? "solid" : "outline"} aria-pressed={each === span} onClick={() => setQuery({ span: each })}>
              {`Last ${each}`}
            </Button>
          ))}
        </HStack>
      </HStack>
      {error ? <Problem title={value ? "The plot is not up to date" : "There is no plot"}>{error}</Problem> : null}
      {value ? <OverTime history={value} span={span} what={isSink ? "lag" : "distance from the end"} /> : error ? null : <Waiting what="Reading the history" />}
      {isSink ? <LagTable row={row} /> : null}
    </Box>
  );
}

function OverTime({ history: { from_ms, step_ms, unit, distances }, span, what }: { history: LagHistory; span: string; what: string }) {
  if (!distances.length) return <Text fontSize="sm">This server keeps no history of the {what}.</Text>;
  const known = distances.filter((each) => each !== null);
  const last = known.at(-1);
  if (last === undefined) return <Text fontSize="sm">Nothing was measured in the last {span}. The {what} is measured once a minute.</Text>;
  const words = (value: number) => (unit === "bytes" ? quantity(value, unit) : `${quantity(value, unit)} ${unit}`);
  const times = distances.map((_, at) => (from_ms + at * step_ms) / 1000);
  const title = `Plot of the ${what} over the last ${span}`;
  return (
    <>
      <Text fontSize="sm">{`The largest in each ${step_ms === 60_000 ? "minute" : duration(step_ms / 1000)}, in ${unit}.`}</Text>
      <Plot label={`${title}: ${words(Math.max(...known))} at most, ${words(last)} at last.`} name="Largest" unit={unit} dots={4} series={[times, distances]} />
    </>
  );
}

function LagTable({ row }: { row: Row }) {
  const { value, error } = usePolled<Lag>(`ui/${connectorPath(row.name, "/lag")}`, 15);
  return (
    <>
      {error ? <Problem title={value ? "The lag is not up to date" : "The lag is not known"}>{error}</Problem> : null}
      {value ? <Partitions lag={value} /> : error ? null : <Waiting what="Reading the lag" />}
    </>
  );
}

function Partitions({ lag }: { lag: Lag }) {
  if (!lag.partitions.length) return <Text p={4}>None of its topics exists yet.</Text>;
  return (
    <>
      <Text fontSize="sm" mb={2}>
        {lag.lag ? `${whole.format(lag.lag)} records wait to be read.` : "Everything that there is has been read."}
        {lag.left_out ? ` The partitions furthest behind are shown; ${whole.format(lag.left_out)} others are left out.` : ""}
      </Text>
      <TitledTable label="Lag by partition" titles={["Topic", "Partition", "Position", "End", "Lag"]}>
        {lag.partitions.map((each) => (
          <Table.Row key={`${each.topic} ${each.partition}`}>
            <Table.Cell wordBreak="break-all">{each.topic}</Table.Cell>
            <Table.Cell>{each.partition}</Table.Cell>
            <Table.Cell>{each.position === null ? "none yet" : whole.format(each.position)}</Table.Cell>
            <Table.Cell>{whole.format(each.end)}</Table.Cell>
            <Table.Cell>{whole.format(each.lag)}</Table.Cell>
          </Table.Row>
        ))}
      </TitledTable>
    </>
  );
}
