// Attempts of Airflow's tasks: their state as text, and a table of those of the latest run with links to Airflow's logs.
import { Box, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { Link } from "react-router-dom";
import type { Attempt, Row } from "./api";
import { TitledTable } from "./components";
import { timeUntil } from "./format";

const MAX_LOGS = 5;
const FINAL_STATES = ["success", "failed", "skipped", "upstream_failed", "removed"];
const ACTIVE_STATES = ["running", "restarting", "deferred"];

export const isUnfinished = ({ state }: Attempt) => !FINAL_STATES.includes(state ?? "");

/** The state of an unfinished attempt, and from the second try on its number (`try 2 of 3`). */
export function attemptText({ state, number, most, next_ms }: Attempt): [string, string] {
  if (state === "up_for_retry") return [next_ms === null ? "will retry" : `retry ${timeUntil(next_ms)}`, `try ${number + 1} of ${Math.max(most, number + 1)}`];
  return [state !== null && ACTIVE_STATES.includes(state) ? "running" : "waiting to start", number > 1 ? `try ${number} of ${most}` : ""];
}

export function LatestRun({ row, attempts }: { row: Row; attempts: Attempt[] }) {
  const run = attempts[0]?.run;
  if (run === undefined) return null;
  const path = `/dags/${encodeURIComponent(row.dag_id)}/runs/${encodeURIComponent(run)}`;
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        Latest run
      </Heading>
      <Text fontSize="sm" mb={2}>
        <Box asChild textDecoration="underline">
          <Link to={path}>{run}</Link>
        </Box>
      </Text>
      <TitledTable label="Latest run" titles={["Airflow task", "State", "Try", "Logs"]}>
        {attempts.map((attempt) => (
          <Table.Row key={`${attempt.task} ${attempt.map_index}`}>
            <Table.Cell wordBreak="break-all">{attempt.map_index < 0 ? attempt.task : `${attempt.task}, ${attempt.label ?? `index ${attempt.map_index}`}`}</Table.Cell>
            <Table.Cell>{isUnfinished(attempt) ? attemptText(attempt).filter(Boolean).join(", ") : attempt.state}</Table.Cell>
            <Table.Cell>{attempt.number ? `${attempt.number} of ${attempt.most}` : "—"}</Table.Cell>
            <Table.Cell>
              <Logs path={`${path}/tasks/${attempt.task}${attempt.map_index < 0 ? "" : `/mapped/${attempt.map_index}`}`} attempt={attempt} />
            </Table.Cell>
          </Table.Row>
        ))}
      </TitledTable>
    </Box>
  );
}

/** Links to the logs of the last tries, and for each failed try to its errors alone. */
function Logs({ path, attempt: { task, state, number } }: { path: string; attempt: Attempt }) {
  const numbers = Array.from({ length: Math.min(number, MAX_LOGS) }, (_, index) => number - index);
  if (!numbers.length) return <>—</>;
  const hasFailed = (each: number) => each < number || state === "failed" || state === "up_for_retry";
  return (
    <HStack wrap="wrap">
      {numbers.map((each) => (
        <HStack key={each}>
          <LogLink to={`${path}?try_number=${each}`} text={number > 1 ? `Log of try ${each}` : "Log"} subject={task} />
          {hasFailed(each) ? <LogLink to={`${path}?try_number=${each}&log_level=error&log_level=critical`} text="Errors" subject={`${task}, try ${each}`} /> : null}
        </HStack>
      ))}
    </HStack>
  );
}

function LogLink({ to, text, subject }: { to: string; text: string; subject: string }) {
  return (
    <Box asChild textDecoration="underline">
      <Link to={to}>
        {text} <span className="connect-hidden">of {subject}</span>
      </Link>
    </Box>
  );
}
