// Versions of a connector's plugin: comparison with another version, upgrade request, and its state.
import { Box, Button, Heading, HStack, Input, Text } from "@chakra-ui/react";
import { useState } from "react";
import { change, type Comparison, connectorPath, isStandalone, type Plugin, type Row, errorText, type Upgrade } from "./api";
import { Confirm, Problem, type Question, type Message } from "./components";
import { usePolling } from "./polling";
import { ago, count } from "./format";

const RECORDS = 100;
const LIST = "connect-versions";
const STATES: Record<string, string> = {
  REQUESTED: "is requested: the next run compares the versions first",
  HELD: "is held back: runs use the old version",
  TRIAL: "is on trial in the current or next run",
  DONE: "is complete",
  ROLLED_BACK: "was rolled back: runs use the old version",
};

export function Versions({ row, mayChange, notify }: { row: Row; mayChange: boolean; notify: (message: Message) => void }) {
  const path = connectorPath(row.name, "/upgrade");
  const { value, error, status, reload } = usePolling<Upgrade>(isStandalone ? null : path, 30);
  const plugins = usePolling<Plugin[]>("connector-plugins", 60);
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
      notify(done === null ? null : { kind: "success", text: done });
    } catch (failure) {
      notify({ kind: "error", text: errorText(failure) });
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
      text: `The next run reads ${RECORDS} records with both versions and continues with the new one if the results match. If that run fails, the old version is used again.`,
      label: "Upgrade",
      act: () => act(async () => (await change("PUT", path, { to, canary: RECORDS }), "Upgrade requested.")),
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
      {error && status !== 404 ? <Problem title="Cannot load the upgrade">{error}</Problem> : null}
      {upgrade ? (
        <Text fontSize="sm" mb={2} wordBreak="break-word">
          {`The upgrade from ${upgrade.old} to ${upgrade.new} ${STATES[upgrade.state] ?? upgrade.state} (${ago(upgrade.changed_ms)}).`}
          {upgrade.reason ? ` ${upgrade.reason}` : ""}
        </Text>
      ) : null}
      {mayChange && !isStandalone ? (
        <HStack wrap="wrap">
          <Input size="xs" width="160px" aria-label="Target version or range" placeholder="such as [2.0,3.0)" list={LIST} value={to} onChange={(event) => setTo(event.target.value)} />
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
            <Button size="xs" variant="outline" disabled={busy} onClick={() => void act(async () => (await change("DELETE", path), "Upgrade request removed."))}>
              Remove upgrade request
            </Button>
          ) : null}
        </HStack>
      ) : null}
      <Box role="status">{compared ? <ComparisonResult comparison={compared} /> : null}</Box>
      <Confirm question={question} close={() => setQuestion(null)} />
    </Box>
  );
}

function ComparisonResult({ comparison }: { comparison: Comparison }) {
  const { old_version, new_version, records, equal_records, differences, has_seen_enough } = comparison;
  if (!has_seen_enough) return <Text fontSize="sm">There are no records to compare the versions with.</Text>;
  return (
    <Box mt={2} fontSize="sm" wordBreak="break-word">
      <Text>{`Versions ${old_version} and ${new_version} read ${count(records)} records, of which ${count(equal_records)} are identical. ${differences.length ? "These differences would hold back an upgrade:" : "Nothing would hold back an upgrade."}`}</Text>
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
