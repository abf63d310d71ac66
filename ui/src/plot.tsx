// Records per run over time, in the host's colours of the moment.
import { Box } from "@chakra-ui/react";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import css from "uplot/dist/uPlot.min.css";
import type { RunView } from "./api";
import { count } from "./words";

const STYLE = "connect-plot-style";

function addStyle() {
  if (document.getElementById(STYLE)) return;
  const style = document.createElement("style");
  style.id = STYLE;
  style.textContent = css;
  document.head.append(style);
}

export function Throughput({ runs }: { runs: RunView[] }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const data = useRef<uPlot.AlignedData>([[]]);
  const current = JSON.stringify(dataOf(runs)); // each poll brings equal runs, and what one reads off the plot must stay
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
      plot.current = drawn(element, data.current);
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
  }, []);
  const most = Math.max(...runs.map((run) => run.records));
  return <Box ref={box} role="img" aria-label={`Plot of records of the last ${runs.length} runs, ${count(most)} at most. The table has the numbers.`} my={2} />;
}

/** Times in seconds, and records. */
function dataOf(runs: RunView[]): uPlot.AlignedData {
  const ordered = [...runs].sort((one, other) => one.last_ms - other.last_ms);
  return [ordered.map((run) => run.last_ms / 1000), ordered.map((run) => run.records)];
}

function drawn(element: HTMLElement, data: uPlot.AlignedData): uPlot {
  const colours = getComputedStyle(document.documentElement);
  const colour = (name: string) => colours.getPropertyValue(`--chakra-colors-${name}`).trim();
  const axis = { stroke: colour("fg"), grid: { stroke: colour("border"), width: 1 }, ticks: { stroke: colour("border"), width: 1 } };
  const options: uPlot.Options = {
    width: element.clientWidth || 600,
    height: 180,
    cursor: { y: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [axis, { ...axis, size: 70, values: (_, splits) => splits.map(count) }],
    series: [{}, { label: "Records", stroke: colour("blue-solid"), width: 2, points: { show: true, size: 6 } }],
  };
  return new uPlot(options, data, element);
}
