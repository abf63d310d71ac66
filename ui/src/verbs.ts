// What a user can do with a connector, and in which states. Each verb is one request of the REST API.
import { change, connectorPath, get, type Status } from "./api";

export type VerbName = "pause" | "resume" | "stop" | "restart";
export type Verb = { label: string; done: string; sense: (state: string | null) => boolean; send: (name: string) => Promise<unknown> };

export const VERBS: Record<VerbName, Verb> = {
  pause: {
    label: "Pause",
    done: "paused",
    sense: (state) => state !== "PAUSED" && state !== "STOPPED",
    send: (name) => change("PUT", connectorPath(name, "/pause")),
  },
  resume: {
    label: "Resume",
    done: "resumed",
    sense: (state) => state === "PAUSED" || state === "STOPPED",
    send: (name) => change("PUT", connectorPath(name, "/resume")),
  },
  stop: {
    label: "Stop",
    done: "stopped",
    sense: (state) => state !== "STOPPED",
    send: (name) => change("PUT", connectorPath(name, "/stop")),
  },
  restart: {
    label: "Restart",
    done: "restarted",
    sense: (state) => state !== "PAUSED" && state !== "STOPPED",
    send: (name) => change("POST", connectorPath(name, "/restart?includeTasks=true")),
  },
};

/** Calls `act` for each name, at most four at once. Returns the names that succeeded, and the reasons of the others. */
export async function forEach(names: string[], act: (name: string) => Promise<unknown>): Promise<{ done: string[]; failed: [string, string][] }> {
  const waiting = [...names];
  const done: string[] = [];
  const failed: [string, string][] = [];
  const worker = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      try {
        await act(name);
        done.push(name);
      } catch (error) {
        failed.push([name, error instanceof Error ? error.message : String(error)]);
      }
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return { done, failed };
}

/** Carries out `act` with the connector stopped, and brings it back into the state that it had. Returns what became of it. */
export async function whileStopped(name: string, act: () => Promise<unknown>): Promise<string> {
  const before = (await get<Status>(connectorPath(name, "/status"))).connector.state;
  if (before !== "STOPPED") await change("PUT", connectorPath(name, "/stop"));
  let failure: unknown;
  try {
    await act();
  } catch (error) {
    failure = error;
  }
  if (before === "PAUSED") await change("PUT", connectorPath(name, "/pause"));
  else if (before !== "STOPPED") await change("PUT", connectorPath(name, "/resume"));
  if (failure !== undefined) throw failure;
  return before === "STOPPED" ? "The connector stays stopped." : before === "PAUSED" ? "The connector is paused again." : "The connector goes on.";
}
