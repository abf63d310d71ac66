// What a user can do with a connector, and in which states. Each verb is one request of the REST API.
import { ApiError, change, connectorPath, type Detail, get, textOf } from "./api";

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

/** Carries out `act` with the connector stopped, and has it do again what users have asked of it. Returns `done`, and what became of the connector.
 *
 * After a failure that may have changed something the connector stays STOPPED. An error tells what was done, and whether the connector stays STOPPED. */
export async function whileStopped(name: string, done: string, act: () => Promise<unknown>): Promise<string> {
  const { target } = await get<Detail>(`ui/connectors/${encodeURIComponent(name)}`);
  if (target === "STOPPED") {
    await act();
    return `${done} The connector stays stopped.`;
  }
  await change("PUT", connectorPath(name, "/stop"));
  const goOn = async (before: string) => {
    try {
      await change("PUT", connectorPath(name, target === "PAUSED" ? "/pause" : "/resume"));
    } catch (error) {
      throw new ApiError(0, `${before} But the connector may still be STOPPED, since it could not be ${target === "PAUSED" ? "paused again" : "resumed"}: ${textOf(error)}`);
    }
  };
  try {
    await act();
  } catch (error) {
    const isRefused = error instanceof ApiError && error.status >= 400 && error.status < 500;
    if (!isRefused) throw new ApiError(0, `The connector stays STOPPED: ${textOf(error)}`);
    await goOn(textOf(error));
    throw error;
  }
  await goOn(done);
  return `${done} ${target === "PAUSED" ? "The connector is paused again." : "The connector goes on."}`;
}
