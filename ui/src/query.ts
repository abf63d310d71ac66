// The query of the URL, as state. Airflow's router takes an address over a while after it was set; what one types must not wait for that.
import { useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router-dom";

export function useQuery(): [URLSearchParams, (changes: Record<string, string>) => void] {
  const [parameters, setParameters] = useSearchParams();
  const [shown, setShown] = useState(parameters);
  const latest = useRef(parameters);
  const written = useRef(new Set<string>());
  useEffect(() => {
    if (written.current.has(parameters.toString())) return;
    written.current.clear(); // a link or the history has brought another address
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
