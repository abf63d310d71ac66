// Resources used by a connector's runs and their cost, by day. Costs are shown if the worker's settings define prices.
import { Box, Heading, Table, Text } from "@chakra-ui/react";
import { connectorPath, type Cost, type Costs, type Prices } from "./api";
import { Problem, TitledTable } from "./components";
import { usePolling } from "./polling";
import { bytes, count, money } from "./format";

const DAYS = 31;

export const useCosts = (name: string) => usePolling<Costs>(connectorPath(name, `/costs?days=${DAYS}`), 60);

/** The title of the cost column; empty without prices. */
export const costTitles = ({ cpu_hour, task_hour, gigabyte, currency }: Prices) =>
  cpu_hour || task_hour || gigabyte ? [currency ? `Cost (${currency})` : "Cost"] : [];

export function CostByDay({ costs: { value, error } }: { costs: ReturnType<typeof useCosts> }) {
  if (!value) return error ? <Problem title="Cannot load the costs">{error}</Problem> : null;
  const titles = costTitles(value.prices);
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        By day
      </Heading>
      {value.days.length ? (
        <TitledTable label="Used by day" titles={["Day (UTC)", "Runs", "Records", "Bytes", "Task seconds", "CPU seconds", ...titles]}>
          {value.days.map((each) => (
            <CostRow key={each.day} title={each.day} cost={each.cost} />
          ))}
          <CostRow title="Total" cost={value.total} />
        </TitledTable>
      ) : (
        <Text>No run delivered records in the last {DAYS} days.</Text>
      )}
      {costTitles(value.prices).length ? null : (
        <Text fontSize="xs" color="fg.muted" mt={1}>
          To show costs, set prices in the worker&apos;s settings, such as cost.cpu.hour.
        </Text>
      )}
    </Box>
  );
}

function CostRow({ title, cost }: { title: string; cost: Cost }) {
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
