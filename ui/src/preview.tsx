// A dry run of a config: its first records, and nothing written.
import { Box, Button, Heading, Table, Text } from "@chakra-ui/react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { change, type Config, connectorPath, type Preview, textOf } from "./api";
import { type Json, written } from "./json";
import { Problem, TitledTable } from "./parts";
import { Steps } from "./steps";
import { count } from "./words";

const RECORDS = 10;

/** The button that starts a dry run of `config`, and what it has found. `say` is given the reason of a failure; null: one begins. */
export function useDryRun(name: string, config: Config, say: (failure: string | null) => void): { button: (isDisabled: boolean) => ReactNode; found: ReactNode; isBusy: boolean } {
  const [preview, setPreview] = useState<Preview | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const start = async () => {
    setIsBusy(true);
    setPreview(null);
    say(null);
    try {
      setPreview((await change("POST", connectorPath(name, "/preview"), { config, records: RECORDS })) as Preview);
    } catch (failure) {
      say(textOf(failure));
    }
    setIsBusy(false);
  };
  const button = (isDisabled: boolean) => (
    <>
      <Button size="sm" variant="outline" disabled={isDisabled || isBusy} loading={isBusy} onClick={() => void start()}>
        Dry run
      </Button>
      <Text fontSize="sm" aria-live="polite">
        {preview ? `Dry run: ${readText(preview)}, shown above` : ""}
      </Text>
    </>
  );
  return { button, found: preview ? <Previewed preview={preview} /> : null, isBusy };
}

const json = (value: Json) => (typeof value === "string" ? value : written(value));

const readText = (preview: Preview) => `${count(preview.read)} ${preview.read === 1 ? "record" : "records"} read`;

/** Comes into view once it is there. */
function Previewed({ preview }: { preview: Preview }) {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    section.current?.scrollIntoView({ block: "start" }); // browsers return a promise, which is no cleanup
  }, [preview]);
  return (
    <Box as="section" my={4} ref={section}>
      <Heading as="h2" size="md">
        Dry run
      </Heading>
      <Text>
        {`${readText(preview)} by ${preview.tasks.length} ${preview.tasks.length === 1 ? "task" : "tasks"} in ${preview.seconds.toFixed(1)} s; nothing was written.`}
        {preview.skipped ? ` ${count(preview.skipped)} failed.` : ""}
      </Text>
      {preview.missing ? <Problem title="A run waits">{preview.missing}</Problem> : null}
      {preview.failures.map((failure) => (
        <Problem key={failure} title="A record failed">
          {failure}
        </Problem>
      ))}
      <TitledTable label="Records of the dry run" titles={["Topic", "Task", "Key", "Value"]}>
        {preview.records.map((record, index) => (
          <Table.Row key={index}>
            <Table.Cell>{record.topic}</Table.Cell>
            <Table.Cell>{record.task}</Table.Cell>
            <Table.Cell wordBreak="break-all">{json(record.key)}</Table.Cell>
            <Table.Cell wordBreak="break-all">
              {json(record.value)}
              {record.is_cut ? " …" : ""}
            </Table.Cell>
          </Table.Row>
        ))}
      </TitledTable>
      {preview.steps?.length ? <Steps steps={preview.steps} /> : null}
    </Box>
  );
}
