// The list of connectors: search, filter, sort, and actions on many at once. The URL holds search, filters and order.
import { Box, Button, Heading, HStack, Input, NativeSelect, Table, Text } from "@chakra-ui/react";
import { Fragment, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Link, useLocation } from "react-router-dom";
import { errorText, get, isStandalone, type Names, type Overview } from "./api";
import { Confirm, Notice, Problem, type Question, type Message, LabelledCheckbox, useTitle, Loading } from "./components";
import { usePolling } from "./polling";
import { useQuery } from "./query";
import { Cells, COLUMNS, ROW_HEIGHT } from "./row";
import { runForEach, type VerbName, VERBS } from "./verbs";
import { HEALTHS, STATES } from "./format";

const OVERSCAN = 12;
const STEP = 25;
const LIMIT = 100; // rows of a request: those in view on a screen of 2,400 px, and more around them
const FILTERS = ["q", "state", "type", "health"];
const ORDER = ["sort", "dir"];

/** The address's filters, and the order if it is asked for, as the server has them. */
function queryOf(parameters: URLSearchParams, names: string[]): URLSearchParams {
  return new URLSearchParams(names.flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name)!]] : [])));
}

let selection = new Set<string>(); // survives remounts

/** Whether to send the verb. Pause and Resume are always sent: a connector that is about to be paused is still RUNNING. */
const isApplicable = (verb: VerbName, state: string | null) => verb === "pause" || verb === "resume" || VERBS[verb].appliesTo(state);

export function ConnectorList() {
  useTitle("Connect");
  const [parameters, setQuery] = useQuery();
  const filters = queryOf(parameters, FILTERS).toString();
  const [offset, setOffset] = useState(0);
  const answer = usePolling<Overview>(`ui/connectors?${queryOf(parameters, [...FILTERS, ...ORDER])}&offset=${offset}&limit=${LIMIT}`, 5);
  const [value, setValue] = useState(answer.value);
  useEffect(() => {
    if (answer.value) setValue(answer.value); // the rows of before are shown until those of another request are there
  }, [answer.value]);
  const { error } = answer;
  const [selected, setSelected] = useState(selection);
  const namesPath = `ui/connector-names?${filters}`;
  const names = usePolling<Names>(selected.size ? namesPath : null, 5);
  const { deleted } = (useLocation().state ?? {}) as { deleted?: string };
  const [message, setMessage] = useState<Message>(deleted === undefined ? null : { kind: "success", text: `Connector ${deleted} deleted.` });
  const [question, setQuestion] = useState<Question | null>(null);
  const [busy, setBusy] = useState<VerbName | null>(null);
  const select = (names: Set<string>) => setSelected((selection = names));
  const set = (key: string, text: string) => setQuery({ [key]: text });

  if (!value) return error ? <Problem title="Cannot load the connectors">{error}</Problem> : <Loading what="Loading connectors…" />;
  const known = names.value?.connectors ?? [];
  const targets = known.filter(({ name, matches }) => matches && selected.has(name));
  const others = known.filter(({ name, matches }) => !matches && selected.has(name)).length;
  const act = async (verb: VerbName) => {
    const applicable = targets.filter(({ state }) => isApplicable(verb, state)).map(({ name }) => name);
    setBusy(verb);
    const { done, failed: refused } = await runForEach(applicable, VERBS[verb].send);
    setBusy(null);
    const texts = [`${done.length} ${done.length === 1 ? "connector" : "connectors"} ${VERBS[verb].done}.`];
    texts.push(...refused.slice(0, 10).map(([name, reason]) => `${name}: ${reason}`));
    setMessage({ kind: refused.length ? "error" : "success", text: texts.join("\n") });
    const processed = new Set(targets.map(({ name }) => name));
    select(new Set([...[...selection].filter((name) => !processed.has(name)), ...refused.map(([name]) => name)]));
    answer.reload();
  };
  const ask = (verb: VerbName, some: number) => {
    if (verb !== "stop") return void act(verb);
    const text = "Their tasks are shut down and removed. Their offsets are kept. Resume starts them again.";
    return setQuestion({ title: `Stop ${some} ${some === 1 ? "connector" : "connectors"}?`, text, label: "Stop", act: () => act("stop") });
  };
  const allSelected = known.some(({ matches }) => matches) && known.every(({ name, matches }) => !matches || selected.has(name));
  const toggleAll = async () => {
    const matching = (await get<Names>(namesPath)).connectors.filter(({ matches }) => matches);
    const after = new Set(selection);
    for (const { name } of matching) void (allSelected ? after.delete(name) : after.add(name));
    select(after);
  };
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
        <SelectField label="Health" value={parameters.get("health") ?? ""} options={["attention", ...HEALTHS]} set={(text) => set("health", text)} />
        <SelectField label="Type" value={parameters.get("type") ?? ""} options={["source", "sink"]} set={(text) => set("type", text)} />
        <Text aria-live="polite" fontSize="sm">
          {value.matching === value.total ? `${value.total} connectors` : `${value.matching} of ${value.total} connectors`}
        </Text>
      </HStack>
      {error ? <Problem title="The list is out of date">{error}</Problem> : null}
      {value.changeable ? (
        <HStack wrap="wrap" mb={2} role="group" aria-label="Actions on selected connectors">
          <Text fontSize="sm">{`${targets.length} selected${others ? `, ${others} more hidden by the filters and not affected` : ""}`}</Text>
          {(Object.keys(VERBS) as VerbName[]).map((verb) => {
            const some = targets.filter(({ state }) => isApplicable(verb, state)).length;
            return (
              <Button key={verb} size="xs" variant="outline" disabled={!some || busy !== null} loading={busy === verb} onClick={() => ask(verb, some)}>
                {VERBS[verb].label}
              </Button>
            );
          })}
        </HStack>
      ) : null}
      <Notice message={message} clear={() => setMessage(null)} />
      {value.matching ? (
        <VirtualRows
          value={value}
          view={`${filters} ${queryOf(parameters, ORDER)}`}
          need={(first) => setOffset(Math.floor(Math.max(0, first - OVERSCAN) / STEP) * STEP)}
          selected={selected}
          select={select}
          allSelected={allSelected}
          toggleAll={() => void toggleAll().catch((failure: unknown) => setMessage({ kind: "error", text: errorText(failure) }))}
          sort={parameters.get("sort") ?? "name"}
          descends={parameters.get("dir") === "desc"}
          order={(key, descends) => setQuery({ sort: key, dir: descends ? "desc" : "" })}
        />
      ) : (
        <Text p={4}>{emptyText(value)}</Text>
      )}
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
  value: Overview;
  view: string; // the filters and the order: rows of another view begin at the top
  need: (first: number) => void; // the first row in view
  selected: Set<string>;
  select: (names: Set<string>) => void;
  allSelected: boolean;
  toggleAll: () => void;
  sort: string;
  descends: boolean;
  order: (key: string, descends: boolean) => void;
};

function emptyText({ total, may_read_all }: Overview): string {
  if (total) return "No connectors match the search and filters.";
  return may_read_all ? "No connectors yet." : "No connectors that you may see.";
}

/** Renders only the visible rows and some around them, as far as the server has sent them. */
function VirtualRows({ value, view, need, selected, select, allSelected, toggleAll, sort, descends, order }: RowsProps) {
  const { connectors, offset, matching } = value;
  const mayChange = value.changeable > 0;
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
  useLayoutEffect(() => {
    area.current?.scrollTo(0, 0);
    setTop(0);
  }, [view]);
  useEffect(() => need(Math.floor(top / ROW_HEIGHT)), [top, view]); // `need` is another function in each rendering
  const end = offset + connectors.length;
  const first = Math.min(end, Math.max(offset, Math.floor(top / ROW_HEIGHT) - OVERSCAN));
  const last = Math.max(first, Math.min(end, Math.ceil((top + height) / ROW_HEIGHT) + OVERSCAN));
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
      <Table.Root size="sm" stickyHeader tableLayout="fixed" minW={isStandalone ? "600px" : "900px"} aria-rowcount={matching + 1} aria-label="Connectors">
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
          {connectors.slice(first - offset, last - offset).map((row, index) => (
            <Table.Row key={row.name} height={`${ROW_HEIGHT}px`} aria-rowindex={first + index + 2} data-connector={row.name}>
              {mayChange ? (
                <Table.Cell>
                  {row.may_change ? <LabelledCheckbox label={`Select ${row.name}`} checked={selected.has(row.name)} change={() => toggle(row.name)} /> : null}
                </Table.Cell>
              ) : null}
              <Cells row={row} />
            </Table.Row>
          ))}
          <Spacer rows={matching - last} width={width} />
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
