// A new connector: choose a class, fill the form, try it without effect, create it.
import { Box, Button, Card, Field, Heading, HStack, Input, SimpleGrid, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { Link, useSearchParams } from "react-router-dom";
import { change, type Config, connectorPath, type Json, type Plugin, type Preview, textOf } from "./api";
import { ConfigForm, useChecked, Verdict } from "./form";
import { Notice, Problem, type Said, TitledTable, useTitle, Waiting } from "./parts";
import { usePolled } from "./polled";
import { count, shortClass } from "./words";

export function NewConnector() {
  useTitle("New connector · Connect");
  const [parameters] = useSearchParams();
  const chosen = parameters.get("class");
  return (
    <Box>
      <Box asChild textDecoration="underline" fontSize="sm">
        <Link to={chosen ? "?new=1" : "?"}>{chosen ? "Other classes" : "All connectors"}</Link>
      </Box>
      <Heading as="h1" size="lg" mb={2} wordBreak="break-all">
        {chosen ? `New ${shortClass(chosen)}` : "New connector: choose a class"}
      </Heading>
      {chosen ? <Form key={chosen} className={chosen} /> : <Classes />}
    </Box>
  );
}

function Classes() {
  const { value, error } = usePolled<Plugin[]>("connector-plugins", 60);
  const [search, setSearch] = useState("");
  if (!value) return error ? <Problem title="The plugins cannot be listed">{error}</Problem> : <Waiting what="Reading the plugins" />;
  const newest = new Map<string, Plugin[]>();
  for (const plugin of value) newest.set(plugin.class, [...(newest.get(plugin.class) ?? []), plugin]);
  const shown = [...newest].filter(([name]) => name.toLowerCase().includes(search.toLowerCase())).sort(([one], [other]) => (shortClass(one) < shortClass(other) ? -1 : 1));
  return (
    <Box>
      <Input size="sm" maxW="320px" mb={2} aria-label="Search classes" placeholder="Search classes" value={search} onChange={(event) => setSearch(event.target.value)} />
      {["source", "sink"].map((type) => (
        <Box key={type} as="section" mb={4}>
          <Heading as="h2" size="md" mb={2}>
            {type === "source" ? "Sources: from elsewhere to topics" : "Sinks: from topics to elsewhere"}
          </Heading>
          <SimpleGrid minChildWidth="240px" gap={2}>
            {shown
              .filter(([, versions]) => versions[0]?.type === type)
              .map(([name, versions]) => (
                <Card.Root key={name} size="sm" asChild>
                  <Link to={`?new=1&class=${encodeURIComponent(name)}`}>
                    <Card.Body>
                      <Text fontWeight="bold">{shortClass(name)}</Text>
                      <Text fontSize="xs" wordBreak="break-all">
                        {name}
                      </Text>
                      <Text fontSize="xs">
                        {versions
                          .map((each) => each.version)
                          .filter(Boolean)
                          .join(", ")}
                      </Text>
                    </Card.Body>
                  </Link>
                </Card.Root>
              ))}
          </SimpleGrid>
        </Box>
      ))}
    </Box>
  );
}

function Form({ className }: { className: string }) {
  const [, setParameters] = useSearchParams();
  const [name, setName] = useState("");
  const [config, setConfig] = useState<Config>({ "connector.class": className });
  const { checked, error, isCurrent } = useChecked({ ...config, name: name || "unnamed" });
  const [preview, setPreview] = useState<Preview | null>(null);
  const [busy, setBusy] = useState<"preview" | "create" | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const isRight = name.trim() !== "" && isCurrent && checked?.validation.error_count === 0;
  const tryOut = async () => {
    setBusy("preview");
    setPreview(null);
    setSaid(null);
    try {
      setPreview((await change("POST", connectorPath(name, "/preview"), { config, records: 10 })) as Preview);
    } catch (failure) {
      setSaid({ kind: "error", text: textOf(failure) });
    }
    setBusy(null);
  };
  const create = async () => {
    setBusy("create");
    try {
      await change("POST", "connectors", { name, config });
      setParameters({ connector: name });
    } catch (failure) {
      setSaid({ kind: "error", text: textOf(failure) });
      setBusy(null);
    }
  };
  return (
    <Box>
      <Field.Root required maxW="720px" mb={2}>
        <Field.Label>
          Name
          <Field.RequiredIndicator />
        </Field.Label>
        <Input size="sm" value={name} onChange={(event) => setName(event.target.value)} />
        <Field.HelperText>Its DAG, its consumer group and its offsets are named after it.</Field.HelperText>
      </Field.Root>
      <ConfigForm config={config} set={setConfig} checked={checked} error={error} />
      <Notice said={said} clear={() => setSaid(null)} />
      {preview ? <Previewed preview={preview} /> : null}
      <HStack position="sticky" bottom={0} bg="bg" py={2} wrap="wrap">
        <Button size="sm" disabled={!isRight || busy !== null} loading={busy === "create"} onClick={() => void create()}>
          Create connector
        </Button>
        <Button size="sm" variant="outline" disabled={!isRight || busy !== null} loading={busy === "preview"} onClick={() => void tryOut()}>
          Dry run
        </Button>
        <Verdict checked={checked} isCurrent={isCurrent} />
      </HStack>
    </Box>
  );
}

const json = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));

function Previewed({ preview }: { preview: Preview }) {
  return (
    <Box as="section" my={4}>
      <Heading as="h2" size="md">
        Dry run
      </Heading>
      <Text>
        {`${count(preview.read)} ${preview.read === 1 ? "record" : "records"} read by ${preview.tasks.length} ${preview.tasks.length === 1 ? "task" : "tasks"} in ${preview.seconds.toFixed(1)} s; nothing was written.`}
        {preview.skipped ? ` ${count(preview.skipped)} failed.` : ""}
      </Text>
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
    </Box>
  );
}
