// The card on Airflow's dashboard: how many connectors are in which state, and which ones fail.
import { Box, Card, HStack, Heading, Text } from "@chakra-ui/react";
import { Link } from "react-router-dom";
import type { Overview, Row } from "./api";
import { Problem, State } from "./parts";
import { usePolled } from "./polled";
import { STATES } from "./words";

const MOST = 5;
const fails = (row: Row) => row.state === "FAILED" || (row.tasks["FAILED"] ?? 0) > 0;

export function ConnectCard() {
  const { value, error } = usePolled<Overview>("ui/connectors", 15);
  if (!value) return error ? <Problem title="The connectors cannot be shown">{error}</Problem> : null;
  const failing = value.connectors.filter(fails);
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
            {value.connectors.length === 0 ? <Text fontSize="sm">none yet</Text> : null}
            {counts
              .filter(([, some]) => some > 0)
              .map(([state, some]) => (
                <Link key={state} to={`/plugin/connect?state=${state}`} aria-label={`${some} ${state.toLowerCase()}`}>
                  <State state={state} note={String(some)} />
                </Link>
              ))}
          </HStack>
        </HStack>
        {failing.slice(0, MOST).map((row) => (
          <Text key={row.name} fontSize="sm" truncate title={row.failure ?? undefined}>
            <Box asChild textDecoration="underline">
              <Link to={`/plugin/connect?connector=${encodeURIComponent(row.name)}`}>{row.name}</Link>
            </Box>
            {row.failure ? `: ${row.failure}` : " has failed"}
          </Text>
        ))}
        {failing.length > MOST ? (
          <Box asChild textDecoration="underline" fontSize="sm">
            <Link to="/plugin/connect?state=FAILED">{`${failing.length - MOST} more fail`}</Link>
          </Box>
        ) : null}
      </Card.Body>
    </Card.Root>
  );
}
