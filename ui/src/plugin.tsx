// The components that Airflow mounts: the page in the navigation, the tab on a connector's DAG, the card on the dashboard.
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
import { Boundary, Problem, Loading } from "./components";
import { usePolling } from "./polling";

const REQUIRED_COMPONENTS = ["Alert", "Badge", "Card", "Checkbox", "Dialog", "Field", "NativeSelect", "SimpleGrid", "Table", "Tabs", "Textarea", "VisuallyHidden"];
const HIDDEN_STYLE = ".connect-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}";

/** Components that the host's Chakra lacks: another version of Airflow may export other names. */
const missingComponents = REQUIRED_COMPONENTS.filter((name) => !(name in Chakra));
const mountedApps = new Set<string>();

/** Renders its children after the last mount. After a cold load Airflow mounts an app twice, which would lose state; navigating to the same address triggers the second mount. */
function MountedOnce({ app, children }: { app: string; children: ReactNode }) {
  const navigate = useNavigate();
  const { pathname, search, hash } = useLocation();
  const [isReady, setIsReady] = useState(mountedApps.has(app));
  useEffect(() => {
    if (!document.getElementById("connect-style")) {
      const style = document.createElement("style");
      style.id = "connect-style";
      style.textContent = HIDDEN_STYLE;
      document.head.append(style);
    }
    if (mountedApps.has(app)) return;
    mountedApps.add(app);
    void navigate({ pathname, search, hash }, { replace: true });
    setIsReady(true);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return isReady ? children : null;
}

function Frame({ app, what, children }: { app: string; what: string; children: ReactNode }) {
  if (missingComponents.length) return <div role="alert">{`This version of Airflow's UI lacks ${missingComponents.join(", ")}: ${what} cannot be shown.`}</div>;
  return (
    <Boundary what={what}>
      <MountedOnce app={app}>
        <Box as="section" aria-label={what} p={4}>
          {children}
        </Box>
      </MountedOnce>
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

function ConnectorOfDag({ dagId }: { dagId: string }) {
  const { value, error } = usePolling<Overview>(`ui/connectors?dag=${encodeURIComponent(dagId)}`, 30);
  if (!value) return error ? <Problem title="Cannot load the connector">{error}</Problem> : <Loading what="Loading connector…" />;
  const row = value.connectors[0];
  return row ? <ConnectorView key={row.name} name={row.name} /> : <Text>{value.may_read_all ? "This DAG is not a connector." : "This DAG is not a connector that you may see."}</Text>;
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
      {dagId ? <ConnectorOfDag dagId={dagId} /> : <Page />}
    </Frame>
  );
}

function ConnectOverview() {
  if (missingComponents.length) return null;
  return (
    <Box order={4}>
      <Boundary what="The connectors">
        <ConnectCard />
      </Boundary>
    </Box>
  );
}

Object.assign(globalThis, { Connect, Connector, ConnectOverview });
