// Draws one dashboard, as generated, with Grafana's own panel frame, time series, stat and table, from a Prometheus.
// The constants in capitals are put in by render.mjs. Status histories are drawn by hand: that
// panel is part of the Grafana application and on no registry.
import React, { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import {
  applyFieldOverrides, createTheme, DataFrame, dateTime, DisplayValue, Field, FieldConfigSource, FieldType,
  getDisplayProcessor, TimeRange,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { BigValue, PanelChrome, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import * as schema from '@grafana/schema';

declare const DASHBOARD: any;
declare const PROMETHEUS: string;
declare const SECONDS: number;
declare const END: number;
declare const CHOSEN: Record<string, string>;

const WIDTH = 1500;
const COLUMN = WIDTH / 24;
const ROW = 36;
const STEP = Math.max(Math.ceil(SECONDS / 300), 1);
const theme = createTheme({ colors: { mode: 'dark' } });
const range: TimeRange = {
  from: dateTime((END - SECONDS) * 1000), to: dateTime(END * 1000), raw: { from: 'now', to: 'now' },
};
const putIn = (expr: string) =>
  expr.replaceAll('$__rate_interval', `${Math.max(4 * STEP, 60)}s`).replaceAll(/"\$([a-z]+)"/g, (_, name) => `"${CHOSEN[name] ?? '.*'}"`);

async function ask(path: string, parameters: Record<string, string>): Promise<any[]> {
  const answer = await fetch(`${PROMETHEUS}/api/v1/${path}?${new URLSearchParams(parameters)}`);
  return (await answer.json()).data.result;
}

function legend(format: string | undefined, labels: Record<string, string>): string {
  if (!format) return Object.entries(labels).map(([k, v]) => `${k}=${v}`).join(' ');
  return format.replaceAll(/\{\{(\w+)\}\}/g, (_, name) => labels[name] ?? '');
}

async function rangeFrames(panel: any): Promise<DataFrame[]> {
  const frames: DataFrame[] = [];
  for (const target of panel.targets) {
    const parameters = { query: putIn(target.expr), start: `${END - SECONDS}`, end: `${END}`, step: `${STEP}` };
    for (const series of await ask('query_range', parameters)) {
      const found = new Map<number, number>(series.values.map(([at, v]: [number, string]) => [at, Number(v)]));
      const times = Array.from({ length: Math.floor(SECONDS / STEP) + 1 }, (_, i) => END - SECONDS + i * STEP);
      const name = legend(target.legendFormat, series.metric);
      frames.push({
        refId: target.refId, name, length: times.length,
        fields: [
          { name: 'Time', type: FieldType.time, config: {}, values: times.map((at) => at * 1000) },
          { name, type: FieldType.number, config: { displayName: name }, values: times.map((at) => found.get(at) ?? null) },
        ],
      });
    }
  }
  return configured(frames, panel.fieldConfig);
}

function configured(frames: DataFrame[], fieldConfig: FieldConfigSource): DataFrame[] {
  const done = applyFieldOverrides({
    data: frames, fieldConfig: { defaults: {}, overrides: [] }, replaceVariables: (text) => text, theme, timeZone: 'utc',
  });
  let number = 0;
  for (const frame of done) {
    for (const field of frame.fields) {
      if (field.type !== FieldType.number) continue;
      const override: any = fieldConfig.overrides.find((o: any) => o.matcher.options === field.config.displayName);
      const properties = Object.fromEntries((override?.properties ?? []).map((p: any) => [p.id, p.value]));
      const defaults: any = fieldConfig.defaults;
      field.config = {
        color: { mode: 'palette-classic' as any }, ...defaults, ...properties, displayName: field.config.displayName,
        custom: { axisPlacement: 'auto', drawStyle: 'line', lineInterpolation: 'linear', ...defaults.custom },
      };
      // Without thresholds of its own a field takes the next colour of the palette.
      field.state = { ...field.state, seriesIndex: number++ };
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  }
  return done;
}

async function tableFrame(panel: any): Promise<DataFrame> {
  const rows = new Map<string, Record<string, any>>();
  const columns: string[] = [];
  const organize = panel.transformations[1].options;
  const answers = await Promise.all(panel.targets.map((t: any) => ask('query', { query: putIn(t.expr), time: `${END}` })));
  const labelSets = answers.map((series) => new Set(series.flatMap((one: any) => Object.keys(one.metric))));
  const shared = [...(labelSets[0] ?? [])].filter((name) => labelSets.every((set) => !set.size || set.has(name)));
  answers.forEach((series, index) => {
    const raw = panel.targets.length > 1 ? `Value #${panel.targets[index].refId}` : 'Value';
    for (const one of series) {
      const key = shared.map((name) => one.metric[name]).join('\n');
      const row = rows.get(key) ?? {};
      Object.assign(row, one.metric);
      if (!organize.excludeByName[raw]) row[organize.renameByName[raw] ?? raw] = Number(one.value[1]);
      rows.set(key, row);
    }
  });
  for (const row of rows.values())
    for (const name of Object.keys(row)) if (!columns.includes(name) && !organize.excludeByName[name]) columns.push(name);
  const fields: Field[] = columns.map((name) => {
    const values = [...rows.values()].map((row) => row[name] ?? null);
    const isNumber = values.some((v) => typeof v === 'number');
    const override: any = panel.fieldConfig.overrides.find((o: any) => o.matcher.options === name);
    const unit = override?.properties.find((p: any) => p.id === 'unit')?.value;
    const field: Field = {
      name, type: isNumber ? FieldType.number : FieldType.string, values,
      config: { unit, decimals: override?.properties.find((p: any) => p.id === 'decimals')?.value, custom: { align: 'left', cellOptions: { type: 'auto' } } },
    };
    field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    return field;
  });
  return { length: rows.size, fields };
}

function StatusHistory({ frames, height }: { frames: DataFrame[]; height: number }) {
  return (
    <div style={{ height, display: 'flex', flexDirection: 'column', gap: 1, fontSize: 11 }}>
      {frames.map((frame) => {
        const field = frame.fields[1];
        const cells = field.values.filter((_: any, i: number) => i % Math.ceil(field.values.length / 60) === 0);
        return (
          <div key={frame.name} style={{ display: 'flex', flex: 1, minHeight: 0, alignItems: 'center' }}>
            <div style={{ width: 170, overflow: 'hidden', whiteSpace: 'nowrap', textAlign: 'right', paddingRight: 6 }}>{frame.name}</div>
            {cells.map((value: any, i: number) => (
              <div key={i} style={{ flex: 1, height: '100%', marginRight: 1, background: value === null ? 'none' : field.display!(value).color }} />
            ))}
          </div>
        );
      })}
    </div>
  );
}

function Inside({ panel, width, height }: { panel: any; width: number; height: number }) {
  const [frames, setFrames] = useState<DataFrame[] | null>(null);
  useEffect(() => {
    (panel.type === 'table' ? tableFrame(panel).then((one) => [one]) : rangeFrames(panel)).then(setFrames);
  }, []);
  if (frames === null) return null;
  if (!frames.length || !frames[0].length) return <div style={{ textAlign: 'center', paddingTop: height / 3 }}>No data</div>;
  if (panel.type === 'table') return <TableNG data={frames[0]} width={width} height={height} />;
  if (panel.type === 'stat') {
    const field = frames[0].fields[1];
    const last = [...field.values].reverse().find((value: any) => value !== null);
    return <BigValue value={field.display!(last) as DisplayValue} width={width} height={height} theme={theme}
      colorMode={panel.options.colorMode} graphMode={'none' as any} textMode={'value' as any} />;
  }
  if (panel.type === 'status-history') return <StatusHistory frames={frames} height={height} />;
  return (
    <TimeSeries frames={frames} timeRange={range} timeZone="utc" width={width} height={height}
      legend={panel.options.legend as schema.VizLegendOptions} options={{} as any} />
  );
}

function Board() {
  const bottom = Math.max(...DASHBOARD.panels.map((p: any) => p.gridPos.y + p.gridPos.h));
  return (
    <div style={{ position: 'relative', width: WIDTH, height: bottom * ROW, background: theme.colors.background.canvas, color: theme.colors.text.primary, font: '14px Inter, sans-serif' }}>
      {DASHBOARD.panels.map((panel: any) => {
        const { x, y, w, h } = panel.gridPos;
        const place = { position: 'absolute' as const, left: x * COLUMN + 4, top: y * ROW + 4 };
        if (panel.type === 'row') return <div key={panel.id} style={{ ...place, fontSize: 16, padding: 6 }}>{panel.title}</div>;
        return (
          <div key={panel.id} style={place}>
            <PanelChrome title={panel.title} width={w * COLUMN - 8} height={h * ROW - 8}>
              {(width: number, height: number) => <Inside panel={panel} width={width} height={height} />}
            </PanelChrome>
          </div>
        );
      })}
    </div>
  );
}

await initPluginTranslations('grafana', [async () => ({})]);
createRoot(document.getElementById('root')!).render(<Board />);
