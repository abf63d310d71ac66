// Polls a path while the page is visible. Responses survive remounts: Airflow remounts a page at each change of its path.
import { useCallback, useEffect, useState } from "react";
import { ApiError, get, errorText } from "./api";

type Answer<T> = { value: T | undefined; error: string | undefined; status: number; reload: () => void };

const cache = new Map<string, unknown>();

export function usePolling<T>(path: string | null, seconds: number): Answer<T> {
  const [, setCount] = useState(0);
  const [failure, setFailure] = useState<{ path: string; error: string; status: number }>();
  const [reloads, setReloads] = useState(0);
  const reload = useCallback(() => setReloads((count) => count + 1), []);
  useEffect(() => {
    if (path === null) return undefined;
    const aborter = new AbortController();
    let timer: number | undefined;
    const ask = async () => {
      if (!document.hidden) {
        try {
          cache.set(path, await get<T>(path, aborter.signal));
          setFailure(undefined);
          setCount((count) => count + 1);
        } catch (error) {
          if (aborter.signal.aborted) return;
          if (error instanceof ApiError && error.status === 404) cache.delete(path); // deleted, not just unreachable
          setFailure({ path, error: errorText(error), status: error instanceof ApiError ? error.status : 0 });
        }
      }
      if (!aborter.signal.aborted) timer = window.setTimeout(() => void ask(), seconds * 1000);
    };
    const onVisible = () => {
      if (!document.hidden) reload();
    };
    document.addEventListener("visibilitychange", onVisible);
    void ask();
    return () => {
      aborter.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [path, seconds, reloads, reload]);
  const current = failure?.path === path ? failure : undefined;
  return { value: path === null ? undefined : (cache.get(path) as T | undefined), error: current?.error, status: current?.status ?? 0, reload };
}
