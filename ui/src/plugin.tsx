// What Airflow mounts: the page in the navigation, the tab on a connector's DAG, the card on the dashboard.
import { Box, Text } from "@chakra-ui/react";
import * as Chakra from "@chakra-ui/react";
import { type ReactNode, useEffect, useState } from "react";
import { useLocation, useNavigate, useSearchParams } from "react-router-dom";
import { ConnectCard } from "./card";
import { ConnectorView } from "./connector";
import { NewConnector } from "./create";
import type { Overview } from "./api";
import { ConnectorList } from "./list";
import { LogLevels } from "./loggers";
import { Boundary, Problem, Waiting } from "./parts";
import { usePolled } from "./polled";

const NEEDED = ["Alert", "Badge", "Card", "Checkbox", "Dialog", "Field", "NativeSelect", "SimpleGrid", "Table", "Tabs", "Textarea", "VisuallyHidden"];
const HIDDEN_STYLE = ".connect-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}";

/** What the host's Chakra lacks; another version of Airflow may export other names. */
const lacking = NEEDED.filter((name) => !(name in Chakra));
const settled = new Set<string>();

/** Airflow mounts an app twice after a cold load, and its state would be lost. A navigation to the same address brings the second mount. */
function Settled({ app, children }: { app: string; children: ReactNode }) {
  const navigate = useNavigate();
  const { pathname, search, hash } = useLocation();
  const [isReady, setIsReady] = useState(settled.has(app));
  useEffect(() => {
    if (!document.getElementById("connect-style")) {
      const style = document.createElement("style");
      style.id = "connect-style";
      style.textContent = HIDDEN_STYLE;
      document.head.append(style);
    }
    if (settled.has(app)) return;
    settled.add(app);
    void navigate({ pathname, search, hash }, { replace: true });
    setIsReady(true);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return isReady ? children : null;
}

function Frame({ app, what, children }: { app: string; what: string; children: ReactNode }) {
  if (lacking.length) return <div role="alert">{`This version of Airflow's UI lacks ${lacking.join(", ")}: ${what} cannot be shown.`}</div>;
  return (
    <Boundary what={what}>
      <Settled app={app}>
        <Box as="section" aria-label={what} p={4}>
          {children}
        </Box>
      </Settled>
    </Boundary>
  );
}

function Page() {
  const [parameters] = useSearchParams();
  const connector = parameters.get("connector");
  if (connector) return <ConnectorView key={connector} name={connector} back="?" />;
  if (parameters.get("loggers")) return <LogLevels />;
  return parameters.get("new") ? <NewConnector /> : <ConnectorList />;
}

function OfDag({ dagId }: { dagId: string }) {
  const { value, error } = usePolled<Overview>(`ui/connectors?dag=${encodeURIComponent(dagId)}`, 30);
  if (!value) return error ? <Problem title="The connector cannot be shown">{error}</Problem> : <Waiting what="Reading the connector" />;
  const row = value.connectors[0];
  return row ? <ConnectorView key={row.name} name={row.name} /> : <Text>This DAG is no connector, or one that you may not read.</Text>;
}

function Connect() {
  return (
    <Frame app="Connect" what="Kafka Connect">
      <Page />
    </Frame>
  );
}

function Connector({ dagId }: { dagId?: string }) {
  return (
    <Frame app="Connector" what="The connector">
      {dagId ? <OfDag dagId={dagId} /> : <Page />}
    </Frame>
  );
}

function ConnectOverview() {
  if (lacking.length) return null;
  return (
    <Box order={4}>
      <Boundary what="The connectors">
        <ConnectCard />
      </Boundary>
    </Box>
  );
}

Object.assign(globalThis, { Connect, Connector, ConnectOverview });
