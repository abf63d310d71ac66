// Log levels: those of this server, and a form that sets one for all servers and runs.
import { Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { Link } from "react-router-dom";
import { change, type LoggerLevel, type Overview, errorText } from "./api";
import { SelectField, TextField } from "./fields";
import { Notice, Problem, type Message, TitledTable, useTitle, Loading } from "./components";
import { usePolling } from "./polling";
import { ago } from "./format";

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"];
const MAX_SHOWN = 50;

export function LogLevels() {
  useTitle("Log levels · Connect");
  const { value, error, reload } = usePolling<Record<string, LoggerLevel>>("admin/loggers", 10);
  const mayChange = usePolling<Overview>("ui/connectors?limit=0", 30).value?.may_administer ?? false;
  const [typed, setTyped] = useState("airflow_provider_connect");
  const [level, setLevel] = useState("DEBUG");
  const [message, setMessage] = useState<Message>(null);
  const [isBusy, setIsBusy] = useState(false);
  const logger = typed.trim();
  const set = async () => {
    setIsBusy(true);
    try {
      await change("PUT", `admin/loggers/${encodeURIComponent(logger)}?scope=cluster`, { level });
      setMessage({ kind: "success", text: `${logger} is set to ${level} on all servers. Runs apply it from their next batch.` });
    } catch (failure) {
      setMessage({ kind: "error", text: errorText(failure) });
    }
    setIsBusy(false);
    reload();
  };
  const found = Object.entries(value ?? {}).filter(([name]) => name.startsWith(logger) || logger === "root");
  const shown = found.sort(([, one], [, other]) => (other.last_modified ?? 0) - (one.last_modified ?? 0)).slice(0, MAX_SHOWN);
  return (
    <Box>
      <Box asChild textDecoration="underline" fontSize="sm">
        <Link to="?">All connectors</Link>
      </Box>
      <Heading as="h1" size="lg" mb={2}>
        Log levels
      </Heading>
      <HStack wrap="wrap" align="end" mb={2}>
        <TextField label="Logger" placeholder="root for all loggers" value={typed} list="connect-loggers" set={setTyped} />
        <datalist id="connect-loggers">
          {Object.keys(value ?? {}).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        {mayChange ? (
          <>
            <SelectField label="Level" value={level} options={LEVELS.map((each) => [each, each] as const)} set={setLevel} />
            <Button size="sm" disabled={!logger || isBusy} loading={isBusy} onClick={() => void set()}>
              Set level
            </Button>
          </>
        ) : null}
      </HStack>
      <Text fontSize="sm" mb={2}>
        {`Applies to this logger and its children (all names that start with it) until another level is set.${found.length > MAX_SHOWN ? ` Showing ${MAX_SHOWN} of ${found.length} loggers of this server.` : ""}`}
      </Text>
      <Notice message={message} clear={() => setMessage(null)} />
      {error ? <Problem title="Cannot load the log levels">{error}</Problem> : null}
      {value ? (
        <TitledTable label="Log levels" titles={["Logger", "Level", "Changed"]}>
          {shown.map(([name, { level: now, last_modified }]) => (
            <Table.Row key={name}>
              <Table.Cell wordBreak="break-all">{name}</Table.Cell>
              <Table.Cell>{now ?? "—"}</Table.Cell>
              <Table.Cell>{last_modified ? ago(last_modified) : "—"}</Table.Cell>
            </Table.Row>
          ))}
        </TitledTable>
      ) : error ? null : (
        <Loading what="Loading log levels…" />
      )}
    </Box>
  );
}
