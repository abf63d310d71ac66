// A new connector: choose a class, fill in the form, start a dry run, create it.
import { Box, Button, Card, Field, Heading, HStack, Input, SimpleGrid, Text } from "@chakra-ui/react";
import { useState } from "react";
import { Link, useSearchParams } from "react-router-dom";
import { change, type Config, type ConnectorClass, errorText } from "./api";
import { ConfigForm, useValidation, ValidationSummary } from "./form";
import { FieldError, Notice, Problem, type Message, useTitle, Loading } from "./components";
import { usePolling } from "./polling";
import { useDryRun } from "./preview";
import { shortClass } from "./format";

export function NewConnector() {
  useTitle("New connector · Connect");
  const [parameters] = useSearchParams();
  const chosen = parameters.get("class");
  return (
    <Box>
      <Box asChild textDecoration="underline" fontSize="sm">
        <Link to={chosen ? "?new=1" : "?"}>{chosen ? "All classes" : "All connectors"}</Link>
      </Box>
      <Heading as="h1" size="lg" mb={2} wordBreak="break-all">
        {chosen ? `New ${shortClass(chosen)}` : "New connector: choose a class"}
      </Heading>
      {chosen ? <NewConnectorForm key={chosen} className={chosen} /> : <ClassPicker />}
    </Box>
  );
}

function ClassPicker() {
  const { value, error } = usePolling<ConnectorClass[]>("ui/connector-plugins", 60);
  const [search, setSearch] = useState("");
  if (!value) return error ? <Problem title="Cannot load the plugins">{error}</Problem> : <Loading what="Loading plugins…" />;
  const found = new Map<string, ConnectorClass[]>();
  for (const each of value) found.set(each.class, [...(found.get(each.class) ?? []), each]);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const summaryOf = (versions: ConnectorClass[]) => versions[versions.length - 1]?.summary ?? "";
  const fits = ([name, versions]: [string, ConnectorClass[]]) => words.every((word) => `${name} ${summaryOf(versions)}`.toLowerCase().includes(word));
  const shown = [...found].filter(fits).sort(([one], [other]) => (shortClass(one) < shortClass(other) ? -1 : 1));
  return (
    <Box>
      <Input size="sm" maxW="320px" mb={2} aria-label="Search classes" placeholder="Search classes" value={search} onChange={(event) => setSearch(event.target.value)} />
      {["source", "sink"].map((type) => (
        <Box key={type} as="section" mb={4}>
          <Heading as="h2" size="md" mb={2}>
            {type === "source" ? "Sources: from external systems to topics" : "Sinks: from topics to external systems"}
          </Heading>
          <SimpleGrid minChildWidth="240px" gap={2}>
            {shown
              .filter(([, versions]) => versions[0]?.type === type)
              .map(([name, versions]) => (
                <Card.Root key={name} size="sm" asChild>
                  <Link to={`?new=1&class=${encodeURIComponent(name)}`}>
                    <Card.Body>
                      <Text fontWeight="bold">{shortClass(name).replace(/Connector$/, "")}</Text>
                      <Text fontSize="sm">{summaryOf(versions)}</Text>
                      <Text fontSize="xs" color="fg.muted" wordBreak="break-all">
                        {name} {versions.map((each) => each.version).join(", ")}
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

function NewConnectorForm({ className }: { className: string }) {
  const [, setParameters] = useSearchParams();
  const [typed, setTyped] = useState("");
  const name = typed.trim();
  const [config, setConfig] = useState<Config>({ "connector.class": className });
  const { checked, error, isForbidden, isCurrent } = useValidation(name ? { ...config, name } : config);
  const [isCreating, setIsCreating] = useState(false);
  const [message, setMessage] = useState<Message>(null);
  const dryRun = useDryRun(name, config, (failure) => setMessage(failure === null ? null : { kind: "error", text: failure }));
  const isValid = name !== "" && isCurrent && checked?.validation.error_count === 0;
  const create = async () => {
    setIsCreating(true);
    try {
      await change("POST", "connectors", { name, config });
      setParameters({ connector: name });
    } catch (failure) {
      setMessage({ kind: "error", text: errorText(failure) });
      setIsCreating(false);
    }
  };
  return (
    <Box>
      <Field.Root required invalid={isForbidden} maxW="720px" mb={2}>
        <Field.Label>
          Name
          <Field.RequiredIndicator />
        </Field.Label>
        <Input size="sm" value={typed} onChange={(event) => setTyped(event.target.value)} />
        <Field.HelperText>Its DAG, consumer group and offsets are named after it.</Field.HelperText>
        <FieldError>{error}</FieldError>
      </Field.Root>
      <ConfigForm config={config} set={setConfig} checked={checked} error={isForbidden ? undefined : error} />
      <Notice message={message} clear={() => setMessage(null)} />
      {dryRun.result}
      <HStack position="sticky" bottom={0} bg="bg" py={2} wrap="wrap">
        <Button size="sm" disabled={!isValid || dryRun.isBusy} loading={isCreating} onClick={() => void create()}>
          Create connector
        </Button>
        {dryRun.button(!isValid || isCreating)}
        <ValidationSummary checked={checked} isCurrent={isCurrent} />
      </HStack>
    </Box>
  );
}
