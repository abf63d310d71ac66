// Histories of a connector's config and offsets: changes with time and author, and ways to restore earlier values.
import { Box, Button, Heading, HStack, Input, Table, Text } from "@chakra-ui/react";
import { type ReactNode, useState } from "react";
import { Link } from "react-router-dom";
import { change, type ConfigRevision, connectorPath, get, type OffsetChange, type OffsetUndo, type Row, errorText } from "./api";
import { type Json, formatJson } from "./json";
import { Confirm, Problem, type Question, type Message, TitledTable, Loading } from "./components";
import { usePolling } from "./polling";
import { whileStopped } from "./verbs";
import { ago, count } from "./format";

const MAX_SHOWN = 20;

const valueText = (text: string | null | undefined) => (text === null || text === undefined ? "not set" : text);
const jsonText = (some: Json | undefined) => (some === null || some === undefined ? "none" : formatJson(some));
const timeAgo = (ms: number) => <span title={new Date(ms).toLocaleString()}>{ago(ms)}</span>;

const isCreation = ({ changes }: ConfigRevision) => changes.some(({ key, old }) => key === "connector.class" && old === null);

/** The first lines of a list, and the number of further ones. */
function truncateLines(lines: string[], leftOut = 0): string {
  const more = leftOut + Math.max(0, lines.length - MAX_SHOWN);
  return [...lines.slice(0, MAX_SHOWN), ...(more > 0 ? [`and ${count(more)} more`] : [])].join("\n");
}

/** A paged history: polls the newest page and loads older ones on request. */
function usePages<Page extends { next_before: number | null }>(path: string): { pages: Page[]; error: string | undefined; older: (() => void) | null; reload: () => void } {
  const newest = usePolling<Page>(`${path}?limit=${MAX_SHOWN}`, 10);
  const [further, setFurther] = useState<{ after: Page | undefined; pages: Page[]; error?: string }>({ after: undefined, pages: [] });
  const isSame = further.after?.next_before === newest.value?.next_before; // otherwise newer entries have shifted the older pages
  const pages = newest.value ? [newest.value, ...(isSame ? further.pages : [])] : [];
  const next = pages[pages.length - 1]?.next_before ?? null;
  const older = async () => {
    try {
      const page = await get<Page>(`${path}?limit=${MAX_SHOWN}&before=${next}`);
      setFurther({ after: newest.value, pages: [...pages.slice(1), page] });
    } catch (failure) {
      setFurther({ after: newest.value, pages: pages.slice(1), error: errorText(failure) });
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
      {error ? <Problem title="Cannot load the history">{error}</Problem> : isRead ? null : <Loading what="Loading history…" />}
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

/** The cell with a row's action; null: the row has none. `target` is for screen readers. */
function Action({ label, target, act }: { label: string; target: string; act: (() => void) | null }) {
  return (
    <Table.Cell>
      {act ? (
        <Button size="xs" variant="outline" onClick={act}>
          {label} <span className="connect-hidden">{target}</span>
        </Button>
      ) : null}
    </Table.Cell>
  );
}

type HistoryProps = { row: Row; notify: (message: Message) => void };

export function ConfigHistory({ row, mayChange, notify }: HistoryProps & { mayChange: boolean }) {
  const { pages, error, older, reload } = usePages<{ revisions: ConfigRevision[]; next_before: number | null }>(connectorPath(row.name, "/config/history"));
  const [question, setQuestion] = useState<Question | null>(null);
  const revisions = pages.flatMap((page) => page.revisions);
  const current = revisions[0]?.config;
  const rollBack = async (revision: number) => {
    try {
      await change("POST", connectorPath(row.name, "/config/rollback"), { revision });
      notify({ kind: "success", text: `Rolled back to the config of revision ${revision}.` });
    } catch (failure) {
      notify({ kind: "error", text: errorText(failure) });
    }
    reload();
  };
  const ask = ({ revision, config, at_ms }: ConfigRevision) => {
    const [now, then] = [current ?? {}, config ?? {}];
    const keys = [...new Set([...Object.keys(now), ...Object.keys(then)])].sort().filter((key) => now[key] !== then[key]);
    setQuestion({
      title: `Roll ${row.name} back to revision ${revision}?`,
      text: `Restores the config of ${new Date(at_ms).toLocaleString()}. ${keys.length ? "These settings change:" : "No visible setting changes."}\n${truncateLines(keys.map((key) => `${key}: ${valueText(now[key])} → ${valueText(then[key])}`))}`,
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
            <Table.Cell whiteSpace="nowrap">{timeAgo(revision.at_ms)}</Table.Cell>
            <Table.Cell wordBreak="break-all">{revision.who ?? "unknown"}</Table.Cell>
            <Table.Cell wordBreak="break-all" whiteSpace="pre-wrap">
              {revision.config === null ? "deleted" : isCreation(revision) ? `created with ${count(revision.changes.length)} settings` : truncateLines(revision.changes.map((each) => `${each.key}: ${valueText(each.old)} → ${valueText(each.new)}`)) || (revision.note ?? "nothing")}
            </Table.Cell>
            {mayChange ? <Action label="Roll back" target={`to revision ${revision.revision}`} act={index && revision.config !== null ? () => ask(revision) : null} /> : null}
          </Table.Row>
        ))}
      </History>
      <Confirm question={question} close={() => setQuestion(null)} />
    </>
  );
}

export function OffsetsHistory({ row, notify, changed }: HistoryProps & { changed: () => void }) {
  type Page = { changes: OffsetChange[]; begins_ms: number | null; next_before: number | null };
  const path = connectorPath(row.name, "/offsets");
  const { pages, error, older, reload } = usePages<Page>(`${path}/history`);
  const [question, setQuestion] = useState<Question | null>(null);
  const [instant, setInstant] = useState("");
  const restore = async (to: { entry: number } | { to: number }) => {
    try {
      const tried = (await change("POST", `${path}/undo`, { ...to, dry_run: true })) as OffsetUndo;
      if (!tried.returns.length) return notify({ kind: "success", text: "The offsets already match that time." });
      const lines = tried.returns.map((each) => `${jsonText(each.partition)}: ${jsonText(each.now)} → ${jsonText(each.then)}, ${each.effect}${each.records === null ? "" : ` (${count(each.records)} records)`}`);
      const stops = row.state === "STOPPED" ? "The connector is stopped and stays stopped." : "The connector is stopped for this change, then returns to its previous state.";
      setQuestion({
        title: `Restore the offsets of ${new Date(tried.to_ms).toLocaleString()}?`,
        text: `${truncateLines(lines, tried.left_out)}\n\n${stops}`,
        label: "Restore",
        act: async () => {
          try {
            notify({ kind: "success", text: await whileStopped(row.name, "Offsets restored.", () => change("POST", `${path}/undo`, to)) });
          } catch (failure) {
            notify({ kind: "error", text: errorText(failure) });
          }
          changed();
          reload();
        },
      });
    } catch (failure) {
      notify({ kind: "error", text: errorText(failure) });
    }
  };
  const begins = pages[0]?.begins_ms ?? null;
  return (
    <>
      <History title="Offset history" columns={["When", "Who", "Changes", ...(row.may_change ? ["Action"] : [])]} error={error} isRead={pages.length > 0} older={older}>
        {pages.flatMap((page) => page.changes).map((each) => (
          <Table.Row key={each.entry}>
            <Table.Cell whiteSpace="nowrap">{timeAgo(each.to_ms)}</Table.Cell>
            <Table.Cell wordBreak="break-all">
              {each.run ? (
                <Box asChild textDecoration="underline">
                  <Link to={`/dags/${encodeURIComponent(row.dag_id)}/runs/${encodeURIComponent(each.run)}`}>{each.run}</Link>
                </Box>
              ) : (
                (each.who ?? "unknown")
              )}
            </Table.Cell>
            <Table.Cell wordBreak="break-all" whiteSpace="pre-wrap">
              {truncateLines(each.moves.map((move) => `${jsonText(move.partition)}: ${jsonText(move.old)} → ${jsonText(move.new)}`))}
            </Table.Cell>
            {row.may_change ? (
              <Action
                label="Undo this and later"
                target={`changes, from change ${each.entry}`}
                act={begins !== null && each.from_ms > begins ? () => void restore({ entry: each.entry }) : null}
              />
            ) : null}
          </Table.Row>
        ))}
      </History>
      {row.may_change && begins !== null ? (
        <HStack mt={2} wrap="wrap">
          <Text fontSize="sm">Restore the offsets of</Text>
          <Input
            size="xs"
            width="auto"
            type="datetime-local"
            step={1}
            aria-label="Time of the offsets to restore"
            value={instant}
            onChange={(event) => setInstant(event.target.value)}
          />
          <Button size="xs" variant="outline" disabled={!instant} onClick={() => void restore({ to: new Date(instant).getTime() })}>
            Restore
          </Button>
        </HStack>
      ) : null}
      <Confirm question={question} close={() => setQuestion(null)} />
    </>
  );
}
