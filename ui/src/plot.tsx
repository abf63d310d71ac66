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

/** Times in seconds, and a number for each; null: unknown. */
export type Series = [number[], (number | null)[]];

/** `label`: the plot's name for screen readers. `name`: the series in the legend. `unit`: that of the numbers. `dots`: the size of a point. */
type PlotProps = { label: string; name: string; series: Series; unit?: string | null; dots?: number };

export function Plot({ label, name, series, unit = null, dots = 6 }: PlotProps) {
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
      plot.current = createPlot(element, data.current, name, unit, dots);
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
  }, [name, unit, dots]);
  return <Box ref={box} role="img" aria-label={label} my={2} />;
}

export function Throughput({ runs }: { runs: RunView[] }) {
  const ordered = [...runs].sort((one, other) => one.last_ms - other.last_ms);
  const most = Math.max(...runs.map((run) => run.records));
  const label = `Plot of records of the last ${runs.length} runs: maximum ${count(most)}. The table lists the numbers.`;
  return <Plot label={label} name="Records" series={[ordered.map((run) => run.last_ms / 1000), ordered.map((run) => run.records)]} />;
}

function createPlot(element: HTMLElement, data: uPlot.AlignedData, name: string, unit: string | null, dots: number): uPlot {
  const colours = getComputedStyle(document.documentElement);
  const colour = (of: string) => colours.getPropertyValue(`--chakra-colors-${of}`).trim();
  const axis = { stroke: colour("fg"), grid: { stroke: colour("border"), width: 1 }, ticks: { stroke: colour("border"), width: 1 } };
  const options: uPlot.Options = {
    width: element.clientWidth || 600,
    height: 180,
    cursor: { y: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [axis, { ...axis, size: 70, values: (_, splits) => splits.map((split) => (Number.isInteger(split) ? quantity(split, unit) : "")) }],
    series: [{}, { label: name, stroke: colour("blue-solid"), width: 2, points: { show: true, size: dots }, value: (_, value: number | null) => (value === null ? "–" : exact.format(value)) }],
  };
  return new uPlot(options, data, element);
}
