// Another version of a connector's plugin: compared with the present one, asked for, and what has become of it.
import { Box, Button, Heading, HStack, Input, Text } from "@chakra-ui/react";
import { useState } from "react";
import { change, type Comparison, connectorPath, isAlone, type Plugin, type Row, textOf, type Upgrade } from "./api";
import { Confirm, Problem, type Question, type Said } from "./parts";
import { usePolled } from "./polled";
import { ago, count } from "./words";

const RECORDS = 100;
const LIST = "connect-versions";
const STATES: Record<string, string> = {
  REQUESTED: "is requested: the next run compares the versions first",
  HELD: "is held back: runs use the old version",
  TRIAL: "is on trial in the next run, or in the one under way",
  DONE: "is done",
  ROLLED_BACK: "was rolled back: runs use the old version",
};

export function Versions({ row, mayChange, say }: { row: Row; mayChange: boolean; say: (said: Said) => void }) {
  const path = connectorPath(row.name, "/upgrade");
  const { value, error, status, reload } = usePolled<Upgrade>(isAlone ? null : path, 30);
  const plugins = usePolled<Plugin[]>("connector-plugins", 60);
  const [to, setTo] = useState("");
  const [compared, setCompared] = useState<Comparison | null>(null);
  const [busy, setBusy] = useState(false);
  const [question, setQuestion] = useState<Question | null>(null);
  const upgrade = error ? undefined : value;
  const versions = (plugins.value ?? []).filter((each) => each.class === row.class_name && each.version).map((each) => each.version!);
  const act = async (send: () => Promise<string | null>) => {
    setBusy(true);
    try {
      const done = await send();
      say(done === null ? null : { kind: "success", text: done });
    } catch (failure) {
      say({ kind: "error", text: textOf(failure) });
    }
    setBusy(false);
    reload();
  };
  const compare = () =>
    act(async () => {
      setCompared(null);
      setCompared((await change("POST", `${path}/comparison`, { to, records: RECORDS })) as Comparison);
      return null;
    });
  const ask = () =>
    setQuestion({
      title: `Upgrade ${row.name} to version ${to}?`,
      text: `The next run reads ${RECORDS} records with both versions and goes on with the new one if they are alike. If that run fails, the old version holds again.`,
      label: "Upgrade",
      act: () => act(async () => (await change("PUT", path, { to, canary: RECORDS }), "The upgrade is requested.")),
    });
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        Versions
      </Heading>
      <Text fontSize="sm" mb={2} wordBreak="break-word">
        {row.version ? `The last run used version ${row.version}.` : "No version has run yet."}
        {versions.length ? ` Installed: ${versions.join(", ")}.` : ""}
      </Text>
      {error && status !== 404 ? <Problem title="The upgrade cannot be shown">{error}</Problem> : null}
      {upgrade ? (
        <Text fontSize="sm" mb={2} wordBreak="break-word">
          {`The upgrade from ${upgrade.old} to ${upgrade.new} ${STATES[upgrade.state] ?? upgrade.state} (${ago(upgrade.changed_ms)}).`}
          {upgrade.reason ? ` ${upgrade.reason}` : ""}
        </Text>
      ) : null}
      {mayChange && !isAlone ? (
        <HStack wrap="wrap">
          <Input size="xs" width="160px" aria-label="Another version, or a range" placeholder="such as [2.0,3.0)" list={LIST} value={to} onChange={(event) => setTo(event.target.value)} />
          <datalist id={LIST}>
            {versions.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
          <Button size="xs" variant="outline" disabled={!to.trim() || busy} onClick={() => void compare()}>
            Compare versions
          </Button>
          <Button size="xs" variant="outline" disabled={!to.trim() || busy} onClick={ask}>
            Upgrade
          </Button>
          {upgrade ? (
            <Button size="xs" variant="outline" disabled={busy} onClick={() => void act(async () => (await change("DELETE", path), "The upgrade is forgotten."))}>
              Forget the upgrade
            </Button>
          ) : null}
        </HStack>
      ) : null}
      <Box role="status">{compared ? <Compared comparison={compared} /> : null}</Box>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

function Compared({ comparison }: { comparison: Comparison }) {
  const { old_version, new_version, records, equal_records, differences, has_seen_enough } = comparison;
  if (!has_seen_enough) return <Text fontSize="sm">There is no record to compare the versions by.</Text>;
  return (
    <Box mt={2} fontSize="sm" wordBreak="break-word">
      <Text>{`Versions ${old_version} and ${new_version} have read ${count(records)} records, of which ${count(equal_records)} are the same. ${differences.length ? "These differences would hold an upgrade back:" : "Nothing would hold an upgrade back."}`}</Text>
      {differences.length ? (
        <Box as="ul" ps={5}>
          {differences.map(({ subject, change: kind, topic, path, old, new: now }) => (
            <li key={`${topic} ${subject} ${path} ${kind}`}>{`${topic || "source"}: ${subject} ${path} ${kind}: ${old ?? "none"} → ${now ?? "none"}`}</li>
          ))}
        </Box>
      ) : null}
    </Box>
  );
}
