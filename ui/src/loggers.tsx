// Log levels: those in force on this server, and a change for all servers and runs.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { Link } from "react-router-dom";
import { change, type LoggerLevel, type Overview, textOf } from "./api";
import { Choice, Typed } from "./fields";
import { Notice, Problem, type Said, TitledTable, useTitle, Waiting } from "./parts";
import { usePolled } from "./polled";
import { ago } from "./words";

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"];
const MOST_SHOWN = 50;

export function LogLevels() {
  useTitle("Log levels · Connect");
  const { value, error, reload } = usePolled<Record<string, LoggerLevel>>("admin/loggers", 10);
  const mayChange = usePolled<Overview>("ui/connectors", 30).value?.may_administer ?? false;
  const [typed, setTyped] = useState("airflow_provider_connect");
  const [level, setLevel] = useState("DEBUG");
  const [said, setSaid] = useState<Said>(null);
  const [isBusy, setIsBusy] = useState(false);
  const logger = typed.trim();
  const set = async () => {
    setIsBusy(true);
    try {
      await change("PUT", `admin/loggers/${encodeURIComponent(logger)}?scope=cluster`, { level });
      setSaid({ kind: "success", text: `${logger} has level ${level} on all servers, and in runs from their next batch on.` });
    } catch (failure) {
      setSaid({ kind: "error", text: textOf(failure) });
    }
    setIsBusy(false);
    reload();
  };
  const found = Object.entries(value ?? {}).filter(([name]) => name.startsWith(logger) || logger === "root");
  const shown = found.sort(([, one], [, other]) => (other.last_modified ?? 0) - (one.last_modified ?? 0)).slice(0, MOST_SHOWN);
  return (
    <Box>
      <Box asChild textDecoration="underline" fontSize="sm">
        <Link to="?">All connectors</Link>
      </Box>
      <Heading as="h1" size="lg" mb={2}>
        Log levels
      </Heading>
      <HStack wrap="wrap" align="end" mb={2}>
        <Typed label="Logger" hint="root: all of them" value={typed} list="connect-loggers" set={setTyped} />
        <datalist id="connect-loggers">
          {Object.keys(value ?? {}).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        {mayChange ? (
          <>
            <Choice label="Level" value={level} options={LEVELS.map((each) => [each, each] as const)} set={setLevel} />
            <Button size="sm" disabled={!logger || isBusy} loading={isBusy} onClick={() => void set()}>
              Set level
            </Button>
          </>
        ) : null}
      </HStack>
      <Text fontSize="sm" mb={2}>
        {`A level is for the logger and for all whose names begin like it. It stays in force until another one is set. ${found.length > MOST_SHOWN ? `The first ${MOST_SHOWN} of ${found.length} loggers of this server are shown.` : ""}`}
      </Text>
      <Notice said={said} clear={() => setSaid(null)} />
      {error ? <Problem title="The levels cannot be read">{error}</Problem> : null}
      {value ? (
        <TitledTable label="Log levels" titles={["Logger", "Level", "Set"]}>
          {shown.map(([name, { level: now, last_modified }]) => (
            <Table.Row key={name}>
              <Table.Cell wordBreak="break-all">{name}</Table.Cell>
              <Table.Cell>{now ?? "—"}</Table.Cell>
              <Table.Cell>{last_modified ? ago(last_modified) : "—"}</Table.Cell>
            </Table.Row>
          ))}
        </TitledTable>
      ) : error ? null : (
        <Waiting what="Reading the levels" />
      )}
    </Box>
  );
}
