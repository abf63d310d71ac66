// A connector's distance from the end of its input: over time, and for a sink also the current lag by partition.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { connectorPath, type Lag, type LagHistory, type Row } from "./api";
import { Problem, TitledTable, Loading } from "./components";
import { Plot } from "./plot";
import { usePolling } from "./polling";
import { useQuery } from "./query";
import { duration, quantity } from "./format";

const exact = new Intl.NumberFormat("en");
const SPANS = new Map([
  ["hour", 1],
  ["day", 24],
  ["week", 168],
]);

/** Empty for a source whose distance is unknown. */
export function LagSection({ row }: { row: Row }) {
  const [parameters, setQuery] = useQuery();
  const wanted = parameters.get("span") ?? "";
  const span = SPANS.has(wanted) ? wanted : "day";
  const { value, error } = usePolling<LagHistory>(`ui/${connectorPath(row.name, `/lags?hours=${SPANS.get(span)}`)}`, 30);
  const isSink = row.type === "sink";
  if (!isSink && row.left === null && !value?.unit) return null;
  return (
    <Box as="section" mt={6}>
      <HStack justify="space-between" wrap="wrap" mb={2}>
        <Heading as="h2" size="md">
          {isSink ? "Lag" : "Distance from the end"}
        </Heading>
        <HStack role="group" aria-label="Time range">
          {[...SPANS.keys()].map((each) => (
            <Button key={each} size="xs" variant={each === span ? "solid" : "outline"} aria-pressed={each === span} onClick={() => setQuery({ span: each })}>
              {`Last ${each}`}
            </Button>
          ))}
        </HStack>
      </HStack>
      {error ? <Problem title={value ? "The plot is out of date" : "Cannot load the plot"}>{error}</Problem> : null}
      {value ? <LagPlot history={value} span={span} what={isSink ? "lag" : "distance from the end"} /> : error ? null : <Loading what="Loading history…" />}
      {isSink ? <LagTable row={row} /> : null}
    </Box>
  );
}

function LagPlot({ history: { from_ms, step_ms, unit, distances }, span, what }: { history: LagHistory; span: string; what: string }) {
  if (!distances.length) return <Text fontSize="sm">This server keeps no history of the {what}.</Text>;
  const known = distances.filter((each) => each !== null);
  const last = known.at(-1);
  if (last === undefined) return <Text fontSize="sm">No measurements in the last {span}. The {what} is measured once a minute.</Text>;
  const format = (value: number) => (unit === "bytes" ? quantity(value, unit) : `${quantity(value, unit)} ${unit}`);
  const times = distances.map((_, at) => (from_ms + at * step_ms) / 1000);
  const title = `Plot of the ${what} over the last ${span}`;
  return (
    <>
      <Text fontSize="sm">{`Maximum per ${step_ms === 60_000 ? "minute" : duration(step_ms / 1000)}, in ${unit}.`}</Text>
      <Plot label={`${title}: ${format(Math.max(...known))} maximum, ${format(last)} latest.`} names={["Maximum"]} unit={unit} dots={4} series={[times, distances]} />
    </>
  );
}

function LagTable({ row }: { row: Row }) {
  const { value, error } = usePolling<Lag>(`ui/${connectorPath(row.name, "/lag")}`, 15);
  return (
    <>
      {error ? <Problem title={value ? "The lag is out of date" : "Cannot load the lag"}>{error}</Problem> : null}
      {value ? <LagByPartition lag={value} /> : error ? null : <Loading what="Loading lag…" />}
    </>
  );
}

function LagByPartition({ lag }: { lag: Lag }) {
  if (!lag.partitions.length) return <Text p={4}>None of its topics exist yet.</Text>;
  const beyond = lag.partitions.filter((each) => each.lag === null).length;
  return (
    <>
      <Text fontSize="sm" mb={2}>
        {lag.lag === null ? "" : lag.lag ? `${exact.format(lag.lag)} records left to read.` : "Caught up."}
        {beyond ? ` The position of ${beyond === 1 ? "one partition is" : `${beyond} partitions are`} beyond the end, so the lag there is unknown.` : ""}
        {lag.left_out ? ` Only the partitions with the largest lag are shown; ${exact.format(lag.left_out)} others are not.` : ""}
      </Text>
      <TitledTable label="Lag by partition" titles={["Topic", "Partition", "Position", "End", "Lag"]}>
        {lag.partitions.map((each) => (
          <Table.Row key={`${each.topic} ${each.partition}`}>
            <Table.Cell wordBreak="break-all">{each.topic}</Table.Cell>
            <Table.Cell>{each.partition}</Table.Cell>
            <Table.Cell>{each.position === null ? "none" : exact.format(each.position)}</Table.Cell>
            <Table.Cell>{exact.format(each.end)}</Table.Cell>
            <Table.Cell>{each.lag === null ? "unknown" : exact.format(each.lag)}</Table.Cell>
          </Table.Row>
        ))}
      </TitledTable>
    </>
  );
}
