// Executions by the hour in which they began: the last 48 hours.

import { absolute } from "../../pure/time.ts";
import { useSettings } from "../../app/settings.ts";
import { serverNow } from "../../parts/time.tsx";
import type { Counts } from "./lines.ts";

const HOURS = 48;
const WIDTH = 5;
const HEIGHT = 30;
const ORDER = ["failed", "quarantined", "waiting", "running", "paused", "cancelled", "completed"];

export function Hours({ counts }: { counts: Counts }) {
  const { zone } = useSettings();
  const now = Math.floor(serverNow() / 3_600_000);
  const byHour = new Map(counts.hours.map((hour) => [Math.floor(Date.parse(hour.at) / 3_600_000), hour.counts]));
  const sum = (each: Record<string, number>) => Object.values(each).reduce((a, b) => a + b, 0);
  const most = Math.max(1, ...[...byHour].filter(([hour]) => hour > now - HOURS).map(([, each]) => sum(each)));
  const bars = Array.from({ length: HOURS }, (_, at) => now - HOURS + 1 + at);
  return (
    <svg className="hours" viewBox={`0 0 ${HOURS * WIDTH} ${HEIGHT}`} width={HOURS * WIDTH} height={HEIGHT} role="img" aria-label={`Executions of the last ${HOURS} hours; at most ${most} in one`}>
      <line className="ground" x1="0" x2={HOURS * WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      {bars.map((hour, at) => {
        const found = byHour.get(hour);
        if (!found) return null;
        let y = HEIGHT - 1;
        return (
          <g key={hour}>
            <title>{`${absolute(hour * 3_600_000, zone).slice(0, 16)}: ${ORDER.filter((each) => found[each]).map((each) => `${found[each]} ${each}`).join(", ")}`}</title>
            {ORDER.map((status) => {
              const number = found[status] ?? 0;
              if (!number) return null;
              const height = Math.max(1.5, (number / most) * (HEIGHT - 3));
              y -= height;
              return <rect key={status} className={`state-${status}`} x={at * WIDTH + 0.5} y={y} width={WIDTH - 1} height={height} />;
            })}
          </g>
        );
      })}
    </svg>
  );
}
