// Actions on a connector, and the states in which they apply. Each verb is one request of the REST API.
import { ApiError, change, connectorPath, type Detail, get, errorText } from "./api";

export type VerbName = "pause" | "resume" | "stop" | "restart";
export type Verb = { label: string; done: string; appliesTo: (state: string | null) => boolean; send: (name: string) => Promise<unknown> };

export const VERBS: Record<VerbName, Verb> = {
  pause: {
    label: "Pause",
    done: "paused",
    appliesTo: (state) => state !== "PAUSED" && state !== "STOPPED",
    send: (name) => change("PUT", connectorPath(name, "/pause")),
  },
  resume: {
    label: "Resume",
    done: "resumed",
    appliesTo: (state) => state === "PAUSED" || state === "STOPPED",
    send: (name) => change("PUT", connectorPath(name, "/resume")),
  },
  stop: {
    label: "Stop",
    done: "stopped",
    appliesTo: (state) => state !== "STOPPED",
    send: (name) => change("PUT", connectorPath(name, "/stop")),
  },
  restart: {
    label: "Restart",
    done: "restarted",
    appliesTo: (state) => state !== "PAUSED" && state !== "STOPPED",
    send: (name) => change("POST", connectorPath(name, "/restart?includeTasks=true")),
  },
};

/** Calls `act` for each name, at most four at once. Returns the names that succeeded, and the others with the reasons of their failures. */
export async function runForEach(names: string[], act: (name: string) => Promise<unknown>): Promise<{ done: string[]; failed: [string, string][] }> {
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

/** Stops the connector, calls `act`, and restores the connector's target state. Returns `done` followed by the resulting state.
 *
 * After a failure that may have changed something, the connector stays STOPPED. Errors name what was done and whether the connector stays STOPPED. */
export async function whileStopped(name: string, done: string, act: () => Promise<unknown>): Promise<string> {
  const { target } = await get<Detail>(`ui/connectors/${encodeURIComponent(name)}`);
  if (target === "STOPPED") {
    await act();
    return `${done} The connector stays stopped.`;
  }
  await change("PUT", connectorPath(name, "/stop"));
  const restoreTarget = async (before: string) => {
    try {
      await change("PUT", connectorPath(name, target === "PAUSED" ? "/pause" : "/resume"));
    } catch (error) {
      throw new ApiError(0, `${before} However, the connector may still be STOPPED, because it could not be ${target === "PAUSED" ? "paused again" : "resumed"}: ${errorText(error)}`);
    }
  };
  try {
    await act();
  } catch (error) {
    const isRefused = error instanceof ApiError && error.status >= 400 && error.status < 500;
    if (!isRefused) throw new ApiError(0, `The connector stays STOPPED: ${errorText(error)}`);
    await restoreTarget(errorText(error));
    throw error;
  }
  await restoreTarget(done);
  return `${done} ${target === "PAUSED" ? "The connector is paused again." : "The connector has resumed."}`;
}
