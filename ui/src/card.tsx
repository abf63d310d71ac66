// The card on Airflow's dashboard: number of connectors by state, and the failed ones.
import { Box, Card, HStack, Heading, Text } from "@chakra-ui/react";
import { Link } from "react-router-dom";
import type { Overview, Row } from "./api";
import { Problem, State } from "./components";
import { usePolling } from "./polling";
import { STATES } from "./format";

const MAX_FAILED = 5;
const hasFailed = (row: Row) => row.state === "FAILED" || (row.tasks["FAILED"] ?? 0) > 0;

export function ConnectCard() {
  const { value, error } = usePolling<Overview>("ui/connectors", 15);
  if (!value) return error ? <Problem title="Cannot load the connectors">{error}</Problem> : null;
  const failed = value.connectors.filter(hasFailed);
  const counts = STATES.map((state) => [state, value.connectors.filter((row) => row.state === state).length] as const);
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
            {value.connectors.length === 0 ? <Text fontSize="sm">none</Text> : null}
            {counts
              .filter(([, some]) => some > 0)
              .map(([state, some]) => (
                <Link key={state} to={`/plugin/connect?state=${state}`} aria-label={`${some} ${state.toLowerCase()}`}>
                  <State state={state} note={String(some)} />
                </Link>
              ))}
          </HStack>
        </HStack>
        {failed.slice(0, MAX_FAILED).map((row) => (
          <Text key={row.name} fontSize="sm" truncate title={row.failure ?? undefined}>
            <Box asChild textDecoration="underline">
              <Link to={`/plugin/connect?connector=${encodeURIComponent(row.name)}`}>{row.name}</Link>
            </Box>
            {row.failure ? `: ${row.failure}` : " failed"}
          </Text>
        ))}
        {failed.length > MAX_FAILED ? (
          <Box asChild textDecoration="underline" fontSize="sm">
            <Link to="/plugin/connect?state=FAILED">{`${failed.length - MAX_FAILED} more failed`}</Link>
          </Box>
        ) : null}
      </Card.Body>
    </Card.Root>
  );
}
