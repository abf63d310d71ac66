// A small line plot of the records of the last 24 hours, for a row of the list.
import { count } from "./format";

const WIDTH = 96;
const HEIGHT = 20;

export function Sparkline({ hours }: { hours: number[] }) {
  const most = Math.max(1, ...hours);
  const step = WIDTH / Math.max(1, hours.length - 1);
  const points = hours.map((records, hour) => `${(hour * step).toFixed(1)},${(HEIGHT - 1 - (records / most) * (HEIGHT - 3)).toFixed(1)}`).join(" ");
  const sum = hours.reduce((all, some) => all + some, 0);
  const label = `${count(sum)} records in the last 24 hours, ${count(most)} in the busiest hour`;
  return (
    <svg width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <title>{label}</title>
      <polyline points={points} fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinejoin="round" />
    </svg>
  );
}
