// The attempts of a connector's runs: what they do in words, and a table of the newest run's with links to Airflow's logs.
import { Box, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { Link } from "react-router-dom";
import type { Attempt, Row } from "./api";
import { TitledTable } from "./parts";
import { ahead } from "./words";

const MOST_LOGS = 5;
const ENDED = ["success", "failed", "skipped", "upstream_failed", "removed"];
const AT_WORK = ["running", "restarting", "deferred"];

export const isOpen = ({ state }: Attempt) => !ENDED.includes(state ?? "");

/** What an attempt that has not ended does; and, from the second one on, the how many-th of how many it is. */
export function attemptText({ state, number, most, next_ms }: Attempt): [string, string] {
  if (state === "up_for_retry") return [next_ms === null ? "will retry" : `retry ${ahead(next_ms)}`, `try ${number + 1} of ${Math.max(most, number + 1)}`];
  return [state !== null && AT_WORK.includes(state) ? "runs now" : "waits to start", number > 1 ? `try ${number} of ${most}` : ""];
}

export function NewestRun({ row, attempts }: { row: Row; attempts: Attempt[] }) {
  const run = attempts[0]?.run;
  if (run === undefined) return null;
  const path = `/dags/${encodeURIComponent(row.dag_id)}/runs/${encodeURIComponent(run)}`;
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        Newest run
      </Heading>
      <Text fontSize="sm" mb={2}>
        <Box asChild textDecoration="underline">
          <Link to={path}>{run}</Link>
        </Box>
      </Text>
      <TitledTable label="Newest run" titles={["Airflow task", "State", "Try", "Logs"]}>
        {attempts.map((attempt) => (
          <Table.Row key={`${attempt.task} ${attempt.map_index}`}>
            <Table.Cell wordBreak="break-all">{attempt.map_index < 0 ? attempt.task : `${attempt.task}, ${attempt.label ?? `number ${attempt.map_index}`}`}</Table.Cell>
            <Table.Cell>{isOpen(attempt) ? attemptText(attempt).filter(Boolean).join(", ") : attempt.state}</Table.Cell>
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

/** The logs of the last attempts, and of each that did not end well its errors alone. */
function Logs({ path, attempt: { task, state, number } }: { path: string; attempt: Attempt }) {
  const numbers = Array.from({ length: Math.min(number, MOST_LOGS) }, (_, index) => number - index);
  if (!numbers.length) return <>—</>;
  const hasFailed = (each: number) => each < number || state === "failed" || state === "up_for_retry";
  return (
    <HStack wrap="wrap">
      {numbers.map((each) => (
        <HStack key={each}>
          <LogLink to={`${path}?try_number=${each}`} text={number > 1 ? `Log of try ${each}` : "Log"} of={task} />
          {hasFailed(each) ? <LogLink to={`${path}?try_number=${each}&log_level=error&log_level=critical`} text="its errors" of={`${task}, try ${each}`} /> : null}
        </HStack>
      ))}
    </HStack>
  );
}

function LogLink({ to, text, of }: { to: string; text: string; of: string }) {
  return (
    <Box asChild textDecoration="underline">
      <Link to={to}>
        {text} <span className="connect-hidden">of {of}</span>
      </Link>
    </Box>
  );
}
