// Answers that are asked for again while the page is visible. They outlive remounts: Airflow mounts a page anew at each change of its path.
import { useCallback, useEffect, useState } from "react";
import { ApiError, get, textOf } from "./api";

type Answer<T> = { value: T | undefined; error: string | undefined; status: number; reload: () => void };

const known = new Map<string, unknown>();

export function usePolled<T>(path: string | null, seconds: number): Answer<T> {
  const [, setCount] = useState(0);
  const [failure, setFailure] = useState<{ path: string; error: string; status: number }>();
  const [wanted, setWanted] = useState(0);
  const reload = useCallback(() => setWanted((count) => count + 1), []);
  useEffect(() => {
    if (path === null) return undefined;
    const aborter = new AbortController();
    let timer: number | undefined;
    const ask = async () => {
      if (!document.hidden) {
        try {
          known.set(path, await get<T>(path, aborter.signal));
          setFailure(undefined);
          setCount((count) => count + 1);
        } catch (error) {
          if (aborter.signal.aborted) return;
          if (error instanceof ApiError && error.status === 404) known.delete(path); // it is gone, and not only out of reach
          setFailure({ path, error: textOf(error), status: error instanceof ApiError ? error.status : 0 });
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
  }, [path, seconds, wanted, reload]);
  const current = failure?.path === path ? failure : undefined;
  return { value: path === null ? undefined : (known.get(path) as T | undefined), error: current?.error, status: current?.status ?? 0, reload };
}
