// What a connector's runs have used and cost, by day. Money is shown where the worker's settings have prices.
import { Box, Heading, Table, Text } from "@chakra-ui/react";
import { connectorPath, type Cost, type Costs, type Prices } from "./api";
import { Problem, TitledTable } from "./parts";
import { usePolled } from "./polled";
import { bytes, count, money } from "./words";

const DAYS = 31;

export const useCosts = (name: string) => usePolled<Costs>(connectorPath(name, `/costs?days=${DAYS}`), 60);

/** The title of a column of money; none where there are no prices. */
export const costTitles = ({ cpu_hour, task_hour, gigabyte, currency }: Prices) =>
  cpu_hour || task_hour || gigabyte ? [currency ? `Cost (${currency})` : "Cost"] : [];

export function CostByDay({ costs: { value, error } }: { costs: ReturnType<typeof useCosts> }) {
  if (!value) return error ? <Problem title="The costs cannot be shown">{error}</Problem> : null;
  const titles = costTitles(value.prices);
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        By day
      </Heading>
      {value.days.length ? (
        <TitledTable label="Used by day" titles={["Day (UTC)", "Runs", "Records", "Bytes", "Task seconds", "CPU seconds", ...titles]}>
          {value.days.map((each) => (
            <Numbers key={each.day} title={each.day} cost={each.cost} />
          ))}
          <Numbers title="Total" cost={value.total} />
        </TitledTable>
      ) : (
        <Text>No run has delivered anything in the last {DAYS} days.</Text>
      )}
      {costTitles(value.prices).length ? null : (
        <Text fontSize="xs" color="fg.muted" mt={1}>
          Prices in the worker&apos;s settings, such as cost.cpu.hour, add what this has cost.
        </Text>
      )}
    </Box>
  );
}

function Numbers({ title, cost }: { title: string; cost: Cost }) {
  return (
    <Table.Row fontWeight={title === "Total" ? "bold" : undefined}>
      <Table.Cell>{title}</Table.Cell>
      <Table.Cell>{count(cost.runs)}</Table.Cell>
      <Table.Cell>{count(cost.records)}</Table.Cell>
      <Table.Cell>{bytes(cost.bytes)}</Table.Cell>
      <Table.Cell>{cost.seconds.toFixed(1)}</Table.Cell>
      <Table.Cell>{cost.cpu_seconds.toFixed(1)}</Table.Cell>
      {cost.money === null ? null : <Table.Cell>{money(cost.money)}</Table.Cell>}
    </Table.Row>
  );
}
