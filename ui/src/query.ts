// The URL's query as state. Airflow's router applies a new address with a delay, which must not hold up typing.
import { useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router-dom";

export function useQuery(): [URLSearchParams, (changes: Record<string, string>) => void] {
  const [parameters, setParameters] = useSearchParams();
  const [shown, setShown] = useState(parameters);
  const latest = useRef(parameters);
  const written = useRef(new Set<string>());
  useEffect(() => {
    if (written.current.has(parameters.toString())) return;
    written.current.clear(); // a link or the browser's history set another address
    latest.current = parameters;
    setShown(parameters);
  }, [parameters]);
  const set = (changes: Record<string, string>) => {
    const after = new URLSearchParams(latest.current);
    for (const [key, text] of Object.entries(changes)) {
      if (text) after.set(key, text);
      else after.delete(key);
    }
    latest.current = after;
    written.current.add(after.toString());
    setShown(after);
    setParameters(after, { replace: true });
  };
  return [shown, set];
}
