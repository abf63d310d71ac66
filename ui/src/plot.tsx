// Plots of numbers over time, in the colours of the host's current theme.
import { Box } from "@chakra-ui/react";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import css from "uplot/dist/uPlot.min.css";
import type { RunView } from "./api";
import { count, quantity } from "./format";

const exact = new Intl.NumberFormat("en");
const STYLE = "connect-plot-style";

function addStyle() {
  if (document.getElementById(STYLE)) return;
  const style = document.createElement("style");
  style.id = STYLE;
  style.textContent = css;
  document.head.append(style);
}

/** Times in seconds, and for each series a number for each time; null: unknown. */
export type Series = [number[], ...(number | null)[][]];

/** `label`: the plot's name for screen readers. `names`: the series in the legend. `unit`: that of the numbers. `dots`: the size of a point. */
type PlotProps = { label: string; names: string[]; series: Series; unit?: string | null; dots?: number };

const COLOURS = ["blue-solid", "orange-solid"];

export function Plot({ label, names, series, unit = null, dots = 6 }: PlotProps) {
  const named = names.join("\n");
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const data = useRef<uPlot.AlignedData>([[]]);
  const current = JSON.stringify(series); // polls return equal numbers, and a redraw would clear the values under the cursor
  useEffect(() => {
    data.current = JSON.parse(current) as uPlot.AlignedData;
    plot.current?.setData(data.current);
  }, [current]);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    addStyle();
    const draw = () => {
      plot.current?.destroy();
      plot.current = createPlot(element, data.current, named.split("\n"), unit, dots);
    };
    draw();
    const themes = new MutationObserver(draw);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    const sizes = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 180 }));
    sizes.observe(element);
    return () => {
      themes.disconnect();
      sizes.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [named, unit, dots]);
  return <Box ref={box} role="img" aria-label={label} my={2} />;
}

export function Throughput({ runs }: { runs: RunView[] }) {
  const ordered = [...runs].sort((one, other) => one.last_ms - other.last_ms);
  const most = Math.max(...runs.map((run) => run.records));
  const refused = runs.reduce((sum, run) => sum + run.failed, 0);
  const label = `Plot of records of the last ${runs.length} runs: maximum ${count(most)}${refused ? `, ${count(refused)} refused` : ""}. The tab Runs lists the numbers.`;
  const times = ordered.map((run) => run.last_ms / 1000);
  const records = ordered.map((run) => run.records);
  if (!refused) return <Plot label={label} names={["Records"]} series={[times, records]} />;
  return <Plot label={label} names={["Records", "Refused"]} series={[times, records, ordered.map((run) => run.failed)]} />;
}

function createPlot(element: HTMLElement, data: uPlot.AlignedData, names: string[], unit: string | null, dots: number): uPlot {
  const colours = getComputedStyle(document.documentElement);
  const colour = (of: string) => colours.getPropertyValue(`--chakra-colors-${of}`).trim();
  const axis = { stroke: colour("fg"), grid: { stroke: colour("border"), width: 1 }, ticks: { stroke: colour("border"), width: 1 } };
  const options: uPlot.Options = {
    width: element.clientWidth || 600,
    height: 180,
    cursor: { y: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [axis, { ...axis, size: 70, values: (_, splits) => splits.map((split) => (Number.isInteger(split) ? quantity(split, unit) : "")) }],
    series: [
      {},
      ...names.map((name, at) => ({
        label: name,
        stroke: colour(COLOURS[at] ?? "fg"),
        width: 2,
        points: { show: true, size: dots },
        value: (_: uPlot, value: number | null) => (value === null ? "–" : exact.format(value)),
      })),
    ],
  };
  return new uPlot(options, data, element);
}
