// The card on Airflow's dashboard: number of connectors by state, and those that need attention, the worst first.
import { Box, Card, HStack, Heading, Text } from "@chakra-ui/react";
import { Link } from "react-router-dom";
import type { Overview } from "./api";
import { Problem, State } from "./components";
import { usePolling } from "./polling";
import { STATES } from "./format";

const MAX_LISTED = 5;

export function ConnectCard() {
  const { value, error } = usePolling<Overview>(`ui/connectors?health=attention&sort=health&limit=${MAX_LISTED}`, 15);
  if (!value) return error ? <Problem title="Cannot load the connectors">{error}</Problem> : null;
  const counts = STATES.map((state) => [state, value.states[state] ?? 0] as const);
  const more = value.matching - value.connectors.length;
  return (
    <Card.Root size="sm">
      <Card.Body>
        <HStack justify="space-between" wrap="wrap">
          <Heading as="h2" size="sm">
            <Box asChild textDecoration="underline">
              <Link to="/plugin/connect">Connectors</Link>
            </Box>
          </Heading>
          <HStack wrap="wrap">
            {value.total === 0 ? <Text fontSize="sm">none</Text> : null}
            {counts
              .filter(([, some]) => some > 0)
              .map(([state, some]) => (
                <Link key={state} to={`/plugin/connect?state=${state}`} aria-label={`${some} ${state.toLowerCase()}`}>
                  <State state={state} note={String(some)} />
                </Link>
              ))}
          </HStack>
        </HStack>
        {value.connectors.map((row) => (
          <Text key={row.name} fontSize="sm" truncate title={row.health?.reason ?? undefined}>
            <Box asChild textDecoration="underline">
              <Link to={`/plugin/connect?connector=${encodeURIComponent(row.name)}`}>{row.name}</Link>
            </Box>
            {` is ${row.health?.word ?? ""}${row.health?.reason ? `: ${row.health.reason}` : ""}`}
          </Text>
        ))}
        {more > 0 ? (
          <Box asChild textDecoration="underline" fontSize="sm">
            <Link to="/plugin/connect?health=attention&sort=health">{`${more} more need attention`}</Link>
          </Box>
        ) : null}
      </Card.Body>
    </Card.Root>
  );
}
