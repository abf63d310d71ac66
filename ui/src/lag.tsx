// How far a sink is behind the ends of its topics, partition by partition.
import { Box, Heading, Table, Text } from "@chakra-ui/react";
import { connectorPath, type Lag, type Row } from "./api";
import { Problem, TitledTable, Waiting } from "./parts";
import { usePolled } from "./polled";

const whole = new Intl.NumberFormat("en");

export function LagTable({ row }: { row: Row }) {
  const { value, error } = usePolled<Lag>(`ui/${connectorPath(row.name, "/lag")}`, 15);
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        Lag
      </Heading>
      {error ? <Problem title={value ? "The lag is not up to date" : "The lag is not known"}>{error}</Problem> : null}
      {value ? <Partitions lag={value} /> : error ? null : <Waiting what="Reading the lag" />}
    </Box>
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
