// What a connector's config and offsets were, who changed them and when, and the ways back.
import { Box, Button, Heading, HStack, Input, Table, Text } from "@chakra-ui/react";
import { type ReactNode, useState } from "react";
import { Link } from "react-router-dom";
import { change, type ConfigRevision, connectorPath, get, type OffsetChange, type OffsetUndo, type Row, textOf } from "./api";
import { type Json, written } from "./json";
import { Confirm, Problem, type Question, type Said, TitledTable, Waiting } from "./parts";
import { usePolled } from "./polled";
import { whileStopped } from "./verbs";
import { ago, count } from "./words";

const MOST_SHOWN = 20;

const value = (text: string | null | undefined) => (text === null || text === undefined ? "not set" : text);
const json = (some: Json | undefined) => (some === null || some === undefined ? "none" : written(some));
const time = (ms: number) => <span title={new Date(ms).toLocaleString()}>{ago(ms)}</span>;

const isCreation = ({ changes }: ConfigRevision) => changes.some(({ key, old }) => key === "connector.class" && old === null);

/** The first lines of a list, and how many there are besides. */
function shortened(lines: string[], leftOut = 0): string {
  const more = leftOut + Math.max(0, lines.length - MOST_SHOWN);
  return [...lines.slice(0, MOST_SHOWN), ...(more > 0 ? [`and ${count(more)} more`] : [])].join("\n");
}

/** A history by pages: the newest page is kept up to date, older ones are asked for. */
function usePages<Page extends { next_before: number | null }>(path: string): { pages: Page[]; error: string | undefined; older: (() => void) | null; reload: () => void } {
  const newest = usePolled<Page>(`${path}?limit=${MOST_SHOWN}`, 10);
  const [further, setFurther] = useState<{ after: Page | undefined; pages: Page[]; error?: string }>({ after: undefined, pages: [] });
  const isSame = further.after?.next_before === newest.value?.next_before; // else newer entries have moved the others
  const pages = newest.value ? [newest.value, ...(isSame ? further.pages : [])] : [];
  const next = pages[pages.length - 1]?.next_before ?? null;
  const older = async () => {
    try {
      const page = await get<Page>(`${path}?limit=${MOST_SHOWN}&before=${next}`);
      setFurther({ after: newest.value, pages: [...pages.slice(1), page] });
    } catch (failure) {
      setFurther({ after: newest.value, pages: pages.slice(1), error: textOf(failure) });
    }
  };
  return { pages, error: newest.error ?? further.error, older: next === null ? null : () => void older(), reload: newest.reload };
}

function History({ title, columns, error, isRead, older, children }: { title: string; columns: string[]; error: string | undefined; isRead: boolean; older: (() => void) | null; children: ReactNode }) {
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        {title}
      </Heading>
      {error ? <Problem title="The history cannot be shown">{error}</Problem> : isRead ? null : <Waiting what="Reading the history" />}
      {isRead ? (
        <TitledTable label={title} titles={columns}>{children}</TitledTable>
      ) : null}
      {older ? (
        <Button size="xs" variant="outline" mt={2} onClick={older}>
          Older
        </Button>
      ) : null}
    </Box>
  );
}

/** The cell with a line's way back; null: it has none. `of` is for screen readers. */
function Action({ label, of, act }: { label: string; of: string; act: (() => void) | null }) {
  return (
    <Table.Cell>
      {act ? (
        <Button size="xs" variant="outline" onClick={act}>
          {label} <span className="connect-hidden">{of}</span>
        </Button>
      ) : null}
    </Table.Cell>
  );
}

type Parts = { row: Row; say: (said: Said) => void };

export function ConfigHistory({ row, mayChange, say }: Parts & { mayChange: boolean }) {
  const { pages, error, older, reload } = usePages<{ revisions: ConfigRevision[]; next_before: number | null }>(connectorPath(row.name, "/config/history"));
  const [question, setQuestion] = useState<Question | null>(null);
  const revisions = pages.flatMap((page) => page.revisions);
  const current = revisions[0]?.config;
  const rollBack = async (revision: number) => {
    try {
      await change("POST", connectorPath(row.name, "/config/rollback"), { revision });
      say({ kind: "success", text: `The config is that of revision ${revision} again.` });
    } catch (failure) {
      say({ kind: "error", text: textOf(failure) });
    }
    reload();
  };
  const ask = ({ revision, config, at_ms }: ConfigRevision) => {
    const [now, then] = [current ?? {}, config ?? {}];
    const keys = [...new Set([...Object.keys(now), ...Object.keys(then)])].sort().filter((key) => now[key] !== then[key]);
    setQuestion({
      title: `Roll ${row.name} back to revision ${revision}?`,
      text: `The config of ${new Date(at_ms).toLocaleString()}. ${keys.length ? "These settings change:" : "No setting that is shown changes."}\n${shortened(keys.map((key) => `${key}: ${value(now[key])} → ${value(then[key])}`))}`,
      label: "Roll back",
      act: () => rollBack(revision),
    });
  };
  return (
    <>
      <History title="Config history" columns={["Revision", "When", "Who", "Changes", ...(mayChange ? ["Action"] : [])]} error={error} isRead={pages.length > 0} older={older}>
        {revisions.map((revision, index) => (
          <Table.Row key={revision.revision}>
            <Table.Cell>{revision.revision}</Table.Cell>
            <Table.Cell whiteSpace="nowrap">{time(revision.at_ms)}</Table.Cell>
            <Table.Cell wordBreak="break-all">{revision.who ?? "not known"}</Table.Cell>
            <Table.Cell wordBreak="break-all" whiteSpace="pre-wrap">
              {revision.config === null ? "deleted" : isCreation(revision) ? `created with ${count(revision.changes.length)} settings` : shortened(revision.changes.map((each) => `${each.key}: ${value(each.old)} → ${value(each.new)}`)) || (revision.note ?? "nothing")}
            </Table.Cell>
            {mayChange ? <Action label="Roll back" of={`to revision ${revision.revision}`} act={index && revision.config !== null ? () => ask(revision) : null} /> : null}
          </Table.Row>
        ))}
      </History>
      <Confirm question={question} close={() => setQuestion(null)} />
    </>
  );
}

export function OffsetsHistory({ row, say, changed }: Parts & { changed: () => void }) {
  type Page = { changes: OffsetChange[]; begins_ms: number | null; next_before: number | null };
  const path = connectorPath(row.name, "/offsets");
  const { pages, error, older, reload } = usePages<Page>(`${path}/history`);
  const [question, setQuestion] = useState<Question | null>(null);
  const [instant, setInstant] = useState("");
  const goBack = async (to: { entry: number } | { to: number }) => {
    try {
      const tried = (await change("POST", `${path}/undo`, { ...to, dry_run: true })) as OffsetUndo;
      if (!tried.returns.length) return say({ kind: "success", text: "The offsets are those of that time already." });
      const lines = tried.returns.map((each) => `${json(each.partition)}: ${json(each.now)} → ${json(each.then)}, ${each.effect}${each.records === null ? "" : ` (${count(each.records)} records)`}`);
      const stops = row.state === "STOPPED" ? "The connector is stopped and stays so." : "The connector is stopped for this, and goes on afterwards.";
      setQuestion({
        title: `Set the offsets of ${new Date(tried.to_ms).toLocaleString()}?`,
        text: `${shortened(lines, tried.left_out)}\n\n${stops}`,
        label: "Go back",
        act: async () => {
          try {
            say({ kind: "success", text: await whileStopped(row.name, "The offsets are set back.", () => change("POST", `${path}/undo`, to)) });
          } catch (failure) {
            say({ kind: "error", text: textOf(failure) });
          }
          changed();
          reload();
        },
      });
    } catch (failure) {
      say({ kind: "error", text: textOf(failure) });
    }
  };
  const begins = pages[0]?.begins_ms ?? null;
  return (
    <>
      <History title="Offsets history" columns={["When", "Who", "Changes", ...(row.may_change ? ["Action"] : [])]} error={error} isRead={pages.length > 0} older={older}>
        {pages.flatMap((page) => page.changes).map((each) => (
          <Table.Row key={each.entry}>
            <Table.Cell whiteSpace="nowrap">{time(each.to_ms)}</Table.Cell>
            <Table.Cell wordBreak="break-all">
              {each.run ? (
                <Box asChild textDecoration="underline">
                  <Link to={`/dags/${encodeURIComponent(row.dag_id)}/runs/${encodeURIComponent(each.run)}`}>{each.run}</Link>
                </Box>
              ) : (
                (each.who ?? "not known")
              )}
            </Table.Cell>
            <Table.Cell wordBreak="break-all" whiteSpace="pre-wrap">
              {shortened(each.moves.map((move) => `${json(move.partition)}: ${json(move.old)} → ${json(move.new)}`))}
            </Table.Cell>
            {row.may_change ? (
              <Action
                label="Undo this and later"
                of={`changes, from change ${each.entry}`}
                act={begins !== null && each.from_ms > begins ? () => void goBack({ entry: each.entry }) : null}
              />
            ) : null}
          </Table.Row>
        ))}
      </History>
      {row.may_change && begins !== null ? (
        <HStack mt={2} wrap="wrap">
          <Text fontSize="sm">Offsets of</Text>
          <Input
            size="xs"
            width="auto"
            type="datetime-local"
            step={1}
            aria-label="An instant to go back to"
            value={instant}
            onChange={(event) => setInstant(event.target.value)}
          />
          <Button size="xs" variant="outline" disabled={!instant} onClick={() => void goBack({ to: new Date(instant).getTime() })}>
            Go back
          </Button>
        </HStack>
      ) : null}
      <Confirm question={question} close={() => setQuestion(null)} />
    </>
  );
}
