// node render.mjs DASHBOARD.json PROMETHEUS_URL OUT.png [SECONDS [VARIABLE=REGEX …]]: a picture of a dashboard over the
// last SECONDS, with these values of its variables (all of them where nothing is said).
// Needs chromium on the PATH, and `npm install` in this folder (half a gigabyte).
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const [, , board, prometheus, out, seconds = '3600', ...chosen] = process.argv;
if (!out) {
  console.error('usage: node render.mjs DASHBOARD.json PROMETHEUS_URL OUT.png [SECONDS [VARIABLE=REGEX …]]');
  process.exit(2);
}
const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bubblewatch-render-'));
const dashboard = JSON.parse(readFileSync(board, 'utf8'));
const height = Math.max(...dashboard.panels.map((p) => p.gridPos.y + p.gridPos.h)) * 36 + 8;
await build({
  entryPoints: [join(here, 'draw.tsx')],
  outfile: join(folder, 'draw.js'),
  bundle: true,
  format: 'esm',
  jsx: 'automatic',
  logLevel: 'error',
  loader: { '.svg': 'dataurl', '.ttf': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl', '.png': 'dataurl' },
  define: {
    DASHBOARD: JSON.stringify(dashboard),
    PROMETHEUS: JSON.stringify(prometheus.replace(/\/$/, '')),
    SECONDS: seconds,
    CHOSEN: JSON.stringify(Object.fromEntries(chosen.map((one) => one.split('=')))),
    END: String(Math.floor(Date.now() / 1000)),
    'process.env.NODE_ENV': '"production"',
    global: 'window',
  },
});
const script = readFileSync(join(folder, 'draw.js'), 'utf8').replaceAll('</script', '<\\/script');
let style = '';
try {
  style = readFileSync(join(folder, 'draw.css'), 'utf8');
} catch {
  // no component brought a style sheet
}
writeFileSync(
  join(folder, 'page.html'),
  `<!doctype html><meta charset="utf-8"><style>body{margin:0;color:#ccccdc}button{color:inherit;background:none;border:0;font:inherit}${style}</style><div id="root"></div><script type="module">${script}</script>`,
);
const options = ['--headless', '--no-sandbox', '--hide-scrollbars', `--window-size=1500,${height}`];
execFileSync(
  'chromium',
  [...options, '--virtual-time-budget=20000', `--screenshot=${resolve(out)}`, `file://${join(folder, 'page.html')}`],
  { stdio: 'ignore' },
);
console.log(`${out}: ${dashboard.title}`);
