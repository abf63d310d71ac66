// A connector at a glance: its last and next run, what waits, its runs as bars, and what it reads and writes.
import { Box, Button, Heading, HStack, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { connectorPath, type Detail, isStandalone } from "./api";
import { usePolling } from "./polling";
import { Throughput } from "./plot";
import { nextRunText } from "./row";
import { RunBars } from "./runs";
import { ago, bytes, count, quantity } from "./format";

type Open = (tab: string) => void;

export function OverviewTab({ detail, open }: { detail: Detail; open: Open }) {
  const { row, runs } = detail;
  const [when, run] = isStandalone ? ["since its start", detail.progress] : ["last run", row.last_run];
  const at = row.last_run ? ago(row.last_run.last_ms) : "";
  const size = typeof run?.bytes === "number" ? bytes(run.bytes) : "";
  const next = nextRunText(row);
  const hasRuns = !isStandalone && (runs.length > 0 || detail.failed_runs.length > 0);
  return (
    <Box>
      <Box as="dl" display="grid" gridTemplateColumns="repeat(auto-fit, minmax(min(130px, 100%), 1fr))" gap={3} mb={6}>
        <Fact title={`Delivered, ${when}`} value={run?.records ? `${count(run.records)} ${run.records === 1 ? "record" : "records"}` : "no records"} note={[size, at].filter(Boolean).join(", ")} />
        <Fact title={`Refused, ${when}`} value={count(run?.failed ?? 0)} color={run?.failed ? "orange.fg" : undefined}>
          {run?.failed && row.type === "sink" ? <Shortcut tab="dead-letters" label="Dead letters" open={open} /> : null}
        </Fact>
        <Fact title={row.type === "sink" ? "Lag" : "Left after the last run"} value={row.left === null ? "not known" : quantity(row.left, row.left_unit)}>
          {row.type === "sink" ? <Shortcut tab="offsets" label="Offsets" open={open} /> : null}
        </Fact>
        {isStandalone ? null : <Fact title="Delivered, last 24 hours" value={count(row.hours.reduce((sum, some) => sum + some, 0))} note="records" />}
        {isStandalone ? null : <Fact title="Next run" value={next.first} note={next.second} hint={next.title} />}
        {row.plan?.owner ? <Fact title="Owner" value={row.plan.owner} note={row.plan.tags.join(", ")} /> : null}
      </Box>
      {hasRuns ? (
        <Section title="Last runs" open={open} tab="runs" label="All runs">
          <RunBars detail={detail} />
          {runs.length > 1 ? <Throughput runs={runs} /> : null}
        </Section>
      ) : null}
      <ReadsAndWrites detail={detail} open={open} />
    </Box>
  );
}

type FactProps = { title: string; value: string; note?: string; hint?: string; color?: string | undefined; children?: ReactNode };

function Fact({ title, value, note = "", hint, color, children }: FactProps) {
  return (
    <Box borderWidth="1px" borderRadius="md" p={3} title={hint}>
      <Box as="dt" fontSize="xs" color="fg.muted">
        {title}
      </Box>
      <Box as="dd" m={0}>
        <Text fontSize="lg" color={color} wordBreak="break-word">
          {value}
        </Text>
        {note ? (
          <Text fontSize="xs" color="fg.muted" wordBreak="break-word">
            {note}
          </Text>
        ) : null}
        {children}
      </Box>
    </Box>
  );
}

function Section({ title, tab, label, open, children }: { title: string; tab: string; label: string; open: Open; children: ReactNode }) {
  return (
    <Box as="section" mb={6}>
      <HStack mb={2}>
        <Heading as="h2" size="md">
          {title}
        </Heading>
        <Shortcut tab={tab} label={label} open={open} />
      </HStack>
      {children}
    </Box>
  );
}

function Shortcut({ tab, label, open }: { tab: string; label: string; open: Open }) {
  return (
    <Button size="2xs" variant="outline" onClick={() => open(tab)}>
      {label}
    </Button>
  );
}

function ReadsAndWrites({ detail: { row, datasets }, open }: { detail: Detail; open: Open }) {
  const { value } = usePolling<Record<string, { topics: string[] }>>(connectorPath(row.name, "/topics"), 10);
  const topics = (value?.[row.name]?.topics ?? []).map((topic) => `topic ${topic}`);
  const outside = datasets.map(({ namespace, name }) => (namespace === "file" ? name : `${namespace} ${name}`));
  const [reads, writes] = row.type === "sink" ? [topics, outside] : [outside, topics];
  return (
    <Section title="What it reads and writes" tab="topics" label="Topics" open={open}>
      <Box as="dl" display="grid" gridTemplateColumns="repeat(auto-fit, minmax(min(280px, 100%), 1fr))" gap={3}>
        <Names title="Reads" names={reads} />
        <Names title="Writes" names={writes} />
      </Box>
    </Section>
  );
}

function Names({ title, names }: { title: string; names: string[] }) {
  return (
    <div>
      <Box as="dt" fontSize="xs" color="fg.muted">
        {title}
      </Box>
      <Box as="dd" m={0} wordBreak="break-all">
        {names.length ? names.map((name) => <Text key={name}>{name}</Text>) : <Text color="fg.muted">Not known: nothing was delivered yet, or the connector does not name it.</Text>}
      </Box>
    </div>
  );
}
