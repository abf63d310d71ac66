// A dry run of a config: shows the first records and writes nothing.
import { Box, Button, Heading, Table, Text } from "@chakra-ui/react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { change, type Config, connectorPath, type Preview, errorText } from "./api";
import { type Json, formatJson } from "./json";
import { Problem, TitledTable } from "./components";
import { Steps } from "./steps";
import { count } from "./format";

const RECORDS = 10;

/** The button that starts a dry run of `config`, and its result. `notify` gets the reason of a failure, or null when a dry run starts. */
export function useDryRun(name: string, config: Config, notify: (failure: string | null) => void): { button: (isDisabled: boolean) => ReactNode; result: ReactNode; isBusy: boolean } {
  const [preview, setPreview] = useState<Preview | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const start = async () => {
    setIsBusy(true);
    setPreview(null);
    notify(null);
    try {
      setPreview((await change("POST", connectorPath(name, "/preview"), { config, records: RECORDS })) as Preview);
    } catch (failure) {
      notify(errorText(failure));
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
  return { button, result: preview ? <PreviewResult preview={preview} /> : null, isBusy };
}

const jsonText = (value: Json) => (typeof value === "string" ? value : formatJson(value));

const readText = (preview: Preview) => `${count(preview.read)} ${preview.read === 1 ? "record" : "records"} read`;

/** Scrolls itself into view. */
function PreviewResult({ preview }: { preview: Preview }) {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    section.current?.scrollIntoView({ block: "start" }); // a block: the promise that some browsers return is not a cleanup function
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
      {preview.missing ? <Problem title="A run would wait">{preview.missing}</Problem> : null}
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
            <Table.Cell wordBreak="break-all">{jsonText(record.key)}</Table.Cell>
            <Table.Cell wordBreak="break-all">
              {jsonText(record.value)}
              {record.is_cut ? " …" : ""}
            </Table.Cell>
          </Table.Row>
        ))}
      </TitledTable>
      {preview.steps?.length ? <Steps steps={preview.steps} /> : null}
    </Box>
  );
}
