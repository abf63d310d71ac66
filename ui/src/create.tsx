// A new connector: choose a class, fill the form, try it without effect, create it.
import { Box, Button, Card, Field, Heading, HStack, Input, SimpleGrid, Text } from "@chakra-ui/react";
import { useState } from "react";
import { Link, useSearchParams } from "react-router-dom";
import { change, type Config, type ConnectorClass, textOf } from "./api";
import { ConfigForm, useChecked, Verdict } from "./form";
import { Notice, Problem, type Said, useTitle, Waiting } from "./parts";
import { usePolled } from "./polled";
import { useDryRun } from "./preview";
import { shortClass } from "./words";

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
  const { value, error } = usePolled<ConnectorClass[]>("ui/connector-plugins", 60);
  const [search, setSearch] = useState("");
  if (!value) return error ? <Problem title="The plugins cannot be listed">{error}</Problem> : <Waiting what="Reading the plugins" />;
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
            {type === "source" ? "Sources: from elsewhere to topics" : "Sinks: from topics to elsewhere"}
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

function Form({ className }: { className: string }) {
  const [, setParameters] = useSearchParams();
  const [typed, setTyped] = useState("");
  const name = typed.trim();
  const [config, setConfig] = useState<Config>({ "connector.class": className });
  const { checked, error, isForbidden, isCurrent } = useChecked(name ? { ...config, name } : config);
  const [isCreating, setIsCreating] = useState(false);
  const [said, setSaid] = useState<Said>(null);
  const dryRun = useDryRun(name, config, (failure) => setSaid(failure === null ? null : { kind: "error", text: failure }));
  const isRight = name !== "" && isCurrent && checked?.validation.error_count === 0;
  const create = async () => {
    setIsCreating(true);
    try {
      await change("POST", "connectors", { name, config });
      setParameters({ connector: name });
    } catch (failure) {
      setSaid({ kind: "error", text: textOf(failure) });
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
        <Field.HelperText>Its DAG, its consumer group and its offsets are named after it.</Field.HelperText>
        <Field.ErrorText>{error}</Field.ErrorText>
      </Field.Root>
      <ConfigForm config={config} set={setConfig} checked={checked} error={isForbidden ? undefined : error} />
      <Notice said={said} clear={() => setSaid(null)} />
      {dryRun.found}
      <HStack position="sticky" bottom={0} bg="bg" py={2} wrap="wrap">
        <Button size="sm" disabled={!isRight || dryRun.isBusy} loading={isCreating} onClick={() => void create()}>
          Create connector
        </Button>
        {dryRun.button(!isRight || isCreating)}
        <Verdict checked={checked} isCurrent={isCurrent} />
      </HStack>
    </Box>
  );
}
