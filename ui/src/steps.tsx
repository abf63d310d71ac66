// The first records of a dry run, as read and after each transformation, with the changes of each. Everything is shown as plain text, because others wrote it.
import { Badge, Box, Heading, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import type { PreviewedRecord, PreviewedStep, PreviewedSteps } from "./api";
import { ExactInteger, type Json, formatJson } from "./json";
import { TitledTable } from "./components";
import { shortClass } from "./format";

const MAX_FIELDS = 200;

export function Steps({ steps }: { steps: PreviewedSteps[] }) {
  return (
    <Box my={4}>
      <Heading as="h3" size="sm">
        Step by step
      </Heading>
      <Text fontSize="sm" mb={2}>
        {steps.length === 1 ? "The first record" : `The first ${steps.length} records`} before and after each transformation.
      </Text>
      {steps.map((each, index) => (
        <RecordSteps key={index} number={index + 1} steps={each} />
      ))}
    </Box>
  );
}

function RecordSteps({ number, steps }: { number: number; steps: PreviewedSteps }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>
        Record {number}: {outcomeText(steps)}
      </summary>
      {isOpen ? <RecordDetails number={number} steps={steps} /> : null}
    </details>
  );
}

function outcomeText({ read, transforms, is_cut }: PreviewedSteps): string {
  const last = transforms[transforms.length - 1];
  if (last?.outcome === "dropped") return `dropped by ${last.alias}`;
  if (last?.outcome === "failed") return `failed in ${last.alias}`;
  if (is_cut) return "too long to show in full";
  const left = transforms.filter((step) => step.outcome !== "skipped").pop()?.records ?? [read];
  return left.length === 1 ? `would go to topic ${left[0]?.topic}` : `would become ${left.length} records`;
}

function RecordDetails({ number, steps: { read, transforms, is_cut } }: { number: number; steps: PreviewedSteps }) {
  let before = [read];
  return (
    <Box ml={4} mb={4}>
      <Heading as="h4" size="xs" mt={2}>
        Read
      </Heading>
      <Fields label={`Record ${number} as read`} record={read} before={null} />
      {transforms.map((step) => {
        const compared = before;
        if (step.outcome !== "skipped") before = step.records;
        return <Step key={step.alias} number={number} step={step} before={compared} />;
      })}
      {is_cut ? <Text fontSize="sm">The remaining steps are too long to show.</Text> : null}
    </Box>
  );
}

const OUTCOMES: Record<PreviewedStep["outcome"], { mark: string; palette: string }> = {
  applied: { mark: "✓", palette: "green" },
  skipped: { mark: "»", palette: "gray" },
  dropped: { mark: "■", palette: "yellow" },
  failed: { mark: "✖", palette: "red" },
};

function Step({ number, step, before }: { number: number; step: PreviewedStep; before: PreviewedRecord[] }) {
  const { mark, palette } = OUTCOMES[step.outcome];
  return (
    <>
      <Heading as="h4" size="xs" mt={4} wordBreak="break-all">
        {step.alias} ({shortClass(step.class_name)}){" "}
        <Badge colorPalette={palette}>
          <span aria-hidden="true">{mark}</span> {step.outcome}
        </Badge>
      </Heading>
      {step.predicate === null ? null : (
        <Text fontSize="sm">
          Predicate: {step.predicate}
          {step.outcome === "skipped" ? ", which did not select the record" : ""}
        </Text>
      )}
      {step.error === null ? null : (
        <Text fontSize="sm" whiteSpace="pre-wrap" wordBreak="break-word">
          {step.error}
        </Text>
      )}
      {step.records.map((record, index) => (
        <Fields
          key={index}
          label={`Record ${number} after ${step.alias}${step.records.length > 1 ? `, ${index + 1} of ${step.records.length}` : ""}`}
          record={record}
          before={(before.length === step.records.length ? before[index] : before[0]) ?? null}
        />
      ))}
    </>
  );
}

type Change = "added" | "changed" | "removed";
const CHANGES: Record<Change, { mark: string; palette: string }> = {
  added: { mark: "+", palette: "green" },
  changed: { mark: "~", palette: "blue" },
  removed: { mark: "−", palette: "red" },
};

/** The fields of a record, compared with `before`; null: without comparison. */
function Fields({ label, record, before }: { label: string; record: PreviewedRecord; before: PreviewedRecord | null }) {
  const now = fieldsOf(record);
  const earlier = before === null ? now : fieldsOf(before);
  const changeOf = (field: string): Change | null => {
    if (!earlier.has(field)) return "added";
    if (!now.has(field)) return "removed";
    return earlier.get(field) === now.get(field) ? null : "changed";
  };
  const fields = [...now.keys(), ...[...earlier.keys()].filter((field) => !now.has(field))];
  const isSame = before !== null && fields.every((field) => changeOf(field) === null);
  return (
    <>
      {isSame ? <Text fontSize="sm">No change</Text> : null}
      <TitledTable label={label} titles={before === null ? ["Field", "Value"] : ["Change", "Field", "Value"]}>
        {fields.slice(0, MAX_FIELDS).map((field) => {
          const change = changeOf(field);
          const value = change === "changed" ? `${earlier.get(field)} → ${now.get(field)}` : (now.get(field) ?? earlier.get(field));
          return (
            <Table.Row key={field}>
              {before === null ? null : <Table.Cell whiteSpace="nowrap">{change === null ? null : <Mark change={change} />}</Table.Cell>}
              <Table.Cell wordBreak="break-all">{field}</Table.Cell>
              <Table.Cell wordBreak="break-all">{change === "removed" ? <del>{value}</del> : value}</Table.Cell>
            </Table.Row>
          );
        })}
      </TitledTable>
      {fields.length > MAX_FIELDS ? <Text fontSize="sm">{fields.length - MAX_FIELDS} more fields</Text> : null}
      {record.is_cut ? <Text fontSize="sm">The record is too long to show in full.</Text> : null}
    </>
  );
}

function Mark({ change }: { change: Change }) {
  const { mark, palette } = CHANGES[change];
  return (
    <Badge colorPalette={palette}>
      <span aria-hidden="true">{mark}</span> {change}
    </Badge>
  );
}

/** A name as an unambiguous segment of a path: a.b is the field b within a, "a.b" is one field. */
const quotePathSegment = (name: string) => (/[."]| \(\d+\)$/.test(name) ? JSON.stringify(name) : name);

/** The parts of a record that transformations may change, as text by path. */
function fieldsOf({ topic, partition, timestamp, key, value, headers }: PreviewedRecord): Map<string, string> {
  const found = new Map([["topic", topic]]);
  const put = (path: string, of: Json) => {
    const inner = of === null || typeof of !== "object" || Array.isArray(of) || of instanceof ExactInteger ? [] : Object.entries(of);
    if (!inner.length) found.set(path, formatJson(of));
    for (const [name, each] of inner) put(`${path}.${quotePathSegment(name)}`, each);
  };
  if (partition !== null) put("partition", partition);
  if (timestamp !== null) put("timestamp", timestamp);
  put("key", key);
  put("value", value);
  headers.forEach((header, index) => {
    const earlier = headers.slice(0, index).filter((each) => each.key === header.key).length;
    put(`header ${quotePathSegment(header.key)}${earlier ? ` (${earlier + 1})` : ""}`, header.value);
  });
  return found;
}
