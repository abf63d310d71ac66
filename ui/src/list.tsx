// The list of connectors: search, filter, sort, and actions on many at once. The URL holds search, filters and order.
import { Box, Button, Heading, HStack, Input, NativeSelect, Table, Text } from "@chakra-ui/react";
import { Fragment, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "react-router-dom";
import { isStandalone, type Overview, type Row } from "./api";
import { Confirm, Notice, Problem, type Question, type Message, LabelledCheckbox, useTitle, Loading } from "./components";
import { usePolling } from "./polling";
import { useQuery } from "./query";
import { Cells, COLUMNS, failed, ROW_HEIGHT, tagsText } from "./row";
import { runForEach, type VerbName, VERBS } from "./verbs";
import { HEALTHS, STATES } from "./format";

const OVERSCAN = 12;
const ORDERS = COLUMNS.flatMap(({ orders }) => orders);

/** The rows that match the URL's search, state, health and type, in the URL's order. */
function filterAndSort(rows: Row[], parameters: URLSearchParams): Row[] {
  const words = (parameters.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const state = parameters.get("state");
  const type = parameters.get("type");
  const health = parameters.get("health");
  const order = ORDERS.find(({ key }) => key === parameters.get("sort")) ?? ORDERS[0]!;
  const direction = parameters.get("dir") === "desc" ? -1 : 1;
  return rows
    .filter((row) => {
      const text = `${row.name} ${row.class_name} ${row.version ?? ""} ${row.type} ${row.plan?.owner ?? ""} ${tagsText(row)}`.toLowerCase();
      const fits = !state || row.state === state || (state === "FAILED" && failed(row) > 0);
      return fits && (!health || row.health?.word === health) && (!type || row.type === type) && words.every((word) => text.includes(word));
    })
    .sort((one, other) => {
      const [a, b] = [order.of(one), order.of(other)];
      return a < b ? -direction : a > b ? direction : one.name < other.name ? -1 : 1;
    });
}

let selection = new Set<string>(); // survives remounts

/** Whether to send the verb. Pause and Resume are always sent: a connector that is about to be paused is still RUNNING. */
const isApplicable = (verb: VerbName, row: Row) => verb === "pause" || verb === "resume" || VERBS[verb].appliesTo(row.state);

export function ConnectorList() {
  useTitle("Connect");
  const { value, error, reload } = usePolling<Overview>("ui/connectors", 5);
  const [parameters, setQuery] = useQuery();
  const [selected, setSelected] = useState(selection);
  const { deleted } = (useLocation().state ?? {}) as { deleted?: string };
  const [message, setMessage] = useState<Message>(deleted === undefined ? null : { kind: "success", text: `Connector ${deleted} deleted.` });
  const [question, setQuestion] = useState<Question | null>(null);
  const [busy, setBusy] = useState<VerbName | null>(null);
  const shown = useMemo(() => filterAndSort(value?.connectors ?? [], parameters), [value, parameters]);
  const select = (names: Set<string>) => setSelected((selection = names));
  const set = (key: string, text: string) => setQuery({ [key]: text });

  if (!value) return error ? <Problem title="Cannot load the connectors">{error}</Problem> : <Loading what="Loading connectors…" />;
  const changeable = shown.filter((row) => row.may_change);
  const targets = changeable.filter((row) => selected.has(row.name));
  const others = value.connectors.filter((row) => row.may_change && selected.has(row.name)).length - targets.length;
  const act = async (verb: VerbName) => {
    const names = targets.filter((row) => isApplicable(verb, row)).map((row) => row.name);
    setBusy(verb);
    const { done, failed: refused } = await runForEach(names, VERBS[verb].send);
    setBusy(null);
    const texts = [`${done.length} ${done.length === 1 ? "connector" : "connectors"} ${VERBS[verb].done}.`];
    texts.push(...refused.slice(0, 10).map(([name, reason]) => `${name}: ${reason}`));
    setMessage({ kind: refused.length ? "error" : "success", text: texts.join("\n") });
    const processed = new Set(targets.map((row) => row.name));
    select(new Set([...[...selection].filter((name) => !processed.has(name)), ...refused.map(([name]) => name)]));
    reload();
  };
  const ask = (verb: VerbName, some: number) => {
    if (verb !== "stop") return void act(verb);
    const text = "Their tasks are shut down and removed. Their offsets are kept. Resume starts them again.";
    return setQuestion({ title: `Stop ${some} ${some === 1 ? "connector" : "connectors"}?`, text, label: "Stop", act: () => act("stop") });
  };
  const allSelected = changeable.length > 0 && changeable.every((row) => selected.has(row.name));
  return (
    <Box>
      <HStack justify="space-between" wrap="wrap" mb={2}>
        <Heading as="h1" size="lg">
          Connectors
        </Heading>
        <HStack>
          {value.may_administer ? (
            <Button asChild size="sm" variant="outline">
              <Link to="?loggers=1">Log levels</Link>
            </Button>
          ) : null}
          {value.may_create ? (
            <Button asChild size="sm">
              <Link to="?new=1">New connector</Link>
            </Button>
          ) : null}
        </HStack>
      </HStack>
      <HStack wrap="wrap" mb={2} role="search">
        <Input
          aria-label="Search connectors"
          placeholder={isStandalone ? "Search name, class, type" : "Search name, class, owner, tag"}
          size="sm"
          maxW="320px"
          value={parameters.get("q") ?? ""}
          onChange={(event) => set("q", event.target.value)}
        />
        <SelectField label="State" value={parameters.get("state") ?? ""} options={STATES} set={(text) => set("state", text)} />
        <SelectField label="Health" value={parameters.get("health") ?? ""} options={HEALTHS} set={(text) => set("health", text)} />
        <SelectField label="Type" value={parameters.get("type") ?? ""} options={["source", "sink"]} set={(text) => set("type", text)} />
        <Text aria-live="polite" fontSize="sm">
          {shown.length === value.connectors.length ? `${shown.length} connectors` : `${shown.length} of ${value.connectors.length} connectors`}
        </Text>
      </HStack>
      {error ? <Problem title="The list is out of date">{error}</Problem> : null}
      {value.connectors.some((row) => row.may_change) ? (
        <HStack wrap="wrap" mb={2} role="group" aria-label="Actions on selected connectors">
          <Text fontSize="sm">{`${targets.length} selected${others ? `, ${others} more hidden by the filters and not affected` : ""}`}</Text>
          {(Object.keys(VERBS) as VerbName[]).map((verb) => {
            const some = targets.filter((row) => isApplicable(verb, row)).length;
            return (
              <Button key={verb} size="xs" variant="outline" disabled={!some || busy !== null} loading={busy === verb} onClick={() => ask(verb, some)}>
                {VERBS[verb].label}
              </Button>
            );
          })}
        </HStack>
      ) : null}
      <Notice message={message} clear={() => setMessage(null)} />
      <Rows
        rows={shown}
        emptyText={emptyText(value)}
        selected={selected}
        select={select}
        allSelected={allSelected}
        toggleAll={() => {
          const after = new Set(selected);
          for (const { name } of changeable) void (allSelected ? after.delete(name) : after.add(name));
          select(after);
        }}
        mayChange={changeable.length > 0}
        sort={parameters.get("sort") ?? "name"}
        descends={parameters.get("dir") === "desc"}
        order={(key, descends) => setQuery({ sort: key, dir: descends ? "desc" : "" })}
      />
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

function SelectField({ label, value, options, set }: { label: string; value: string; options: string[]; set: (text: string) => void }) {
  return (
    <NativeSelect.Root size="sm" width="auto">
      <NativeSelect.Field aria-label={label} value={value} onChange={(event) => set(event.currentTarget.value)}>
        <option value="">{label}: all</option>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </NativeSelect.Field>
      <NativeSelect.Indicator />
    </NativeSelect.Root>
  );
}

type RowsProps = {
  rows: Row[];
  emptyText: string;
  selected: Set<string>;
  select: (names: Set<string>) => void;
  allSelected: boolean;
  toggleAll: () => void;
  mayChange: boolean;
  sort: string;
  descends: boolean;
  order: (key: string, descends: boolean) => void;
};

function emptyText({ connectors, may_read_all }: Overview): string {
  if (connectors.length) return "No connectors match the search and filters.";
  return may_read_all ? "No connectors yet." : "No connectors that you may see.";
}

function Rows({ emptyText, ...shown }: RowsProps) {
  if (shown.rows.length) return <VirtualRows {...shown} />;
  return <Text p={4}>{emptyText}</Text>;
}

/** Renders only the visible rows and some around them. Scroll position and height reset when its box is unmounted. */
function VirtualRows({ rows, selected, select, allSelected, toggleAll, mayChange, sort, descends, order }: Omit<RowsProps, "emptyText">) {
  const area = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const element = area.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.min(Math.floor(top / ROW_HEIGHT) - OVERSCAN, rows.length - 1));
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW_HEIGHT) + OVERSCAN);
  const width = COLUMNS.length + (mayChange ? 1 : 0);
  const toggle = (name: string) => {
    const after = new Set(selected);
    if (!after.delete(name)) after.add(name);
    select(after);
  };
  return (
    <Box
      ref={area}
      tabIndex={0}
      role="region"
      aria-label="Table of connectors"
      overflow="auto"
      maxH="calc(100vh - 250px)"
      minH="200px"
      borderWidth="1px"
      borderRadius="md"
      onScroll={(event) => setTop(Math.floor(event.currentTarget.scrollTop / ROW_HEIGHT) * ROW_HEIGHT)}
    >
      <Table.Root size="sm" stickyHeader tableLayout="fixed" minW={isStandalone ? "600px" : "900px"} aria-rowcount={rows.length + 1} aria-label="Connectors">
        <Table.Header>
          <Table.Row aria-rowindex={1}>
            {mayChange ? (
              <Table.ColumnHeader width="36px">
                <LabelledCheckbox label="Select all listed" checked={allSelected} change={toggleAll} />
              </Table.ColumnHeader>
            ) : null}
            {COLUMNS.map(({ orders, width: wide }) => (
              <Table.ColumnHeader
                key={orders[0].key}
                width={wide}
                py={1}
                aria-sort={orders.some(({ key }) => key === sort) ? (descends ? "descending" : "ascending") : "none"}
              >
                {orders.map(({ key, label }, index) => (
                  <Fragment key={key}>
                    <Button size="2xs" variant="ghost" px={1} ms={-1} me={2} onClick={() => order(key, sort === key && !descends)}>
                      {label}
                      {sort === key ? <SortDirection descends={descends} /> : null}
                    </Button>
                    {index ? null : <br />}
                  </Fragment>
                ))}
              </Table.ColumnHeader>
            ))}
          </Table.Row>
        </Table.Header>
        <Table.Body>
          <Spacer rows={first} width={width} />
          {rows.slice(first, last).map((row, index) => (
            <Table.Row key={row.name} height={`${ROW_HEIGHT}px`} aria-rowindex={first + index + 2} data-connector={row.name}>
              {mayChange ? (
                <Table.Cell>
                  {row.may_change ? <LabelledCheckbox label={`Select ${row.name}`} checked={selected.has(row.name)} change={() => toggle(row.name)} /> : null}
                </Table.Cell>
              ) : null}
              <Cells row={row} />
            </Table.Row>
          ))}
          <Spacer rows={rows.length - last} width={width} />
        </Table.Body>
      </Table.Root>
    </Box>
  );
}

/** Marks the active sort order in a column header. */
function SortDirection({ descends }: { descends: boolean }) {
  return (
    <>
      <span aria-hidden="true">{descends ? " ▼" : " ▲"}</span>
      <span className="connect-hidden">{descends ? ", descending" : ", ascending"}</span>
    </>
  );
}

function Spacer({ rows, width }: { rows: number; width: number }) {
  return rows > 0 ? (
    <tr aria-hidden="true">
      <td colSpan={width} style={{ height: rows * ROW_HEIGHT, padding: 0 }} />
    </tr>
  ) : null;
}
