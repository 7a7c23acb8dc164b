// Takes the pictures of docs/page.md: a cluster of eight nodes with a search service over the documentation, idle, under
// load, and with a stalled node. Run it with `node test/pictures.mjs DIRECTORY`.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openBrowser, openPage } from './browser.mjs';
import { startCluster } from './cluster.mjs';

const NODES = 8;
const directory = process.argv[2] ?? '.';
const docs = fileURLToPath(new URL('../../docs', import.meta.url));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const serve = (at) => [`search=${docs}:partitions=${at * 2}-${at * 2 + 1}/${NODES * 2}`, `micro:partitions=${at * 4}-${at * 4 + 3}/${NODES * 4}`];
const more = (at) => ['--zone', at < 4 ? 'north' : 'south', '--rack', `rack-${Math.floor(at / 2) + 1}`];
const cluster = await startCluster(NODES, serve, more);
const { browser, close } = await openBrowser();

let isLoaded = true;
let isBroken = false;
async function load() {
  for (let turn = 0; isLoaded; turn++) {
    const params = { local_ms: 0.3 + (turn % 7) * 0.2 };
    const query = `?min_coverage=0.5&deadline=${isBroken ? '300ms' : '2s'}`;
    const url = turn % 4 ? `v1/call/micro/spin${query}` : `v1/call/search/topk${query}`;
    const body = JSON.stringify(turn % 4 ? params : { query: 'tree' });
    await fetch(cluster.url + url, { method: 'POST', body, headers: { 'content-type': 'application/json' } }).then((answer) => answer.arrayBuffer()).catch(() => {});
    await pause(20 + 25 * (1 + Math.sin(turn / 40)));
  }
}

async function picture(name, hash, options = {}, act = async () => {}) {
  const { page, faults } = await openPage(browser, `${cluster.url}#/${hash}`, options);
  await page.getByText('Live', { exact: true }).waitFor();
  await act(page);
  await pause(1_500);
  await page.screenshot({ path: join(directory, `page-${name}.png`) });
  if (faults.length) console.log(name, faults);
  await page.close();
}

mkdirSync(directory, { recursive: true });
await picture('idle', 'search/waiting rule', { width: 1280, height: 800 }, (page) => page.locator('.hits li').first().waitFor());
const loads = [load(), load(), load()];
await pause(Number(process.env.LOAD_MS ?? 90_000));
await picture('load', 'cluster', { width: 1280, height: 860 }, async (page) => {
  await page.getByRole('application').click({ position: { x: 200, y: 60 } });
});
await picture('dark', 'cluster', { width: 1280, height: 860, dark: true });
await picture('tree', 'trees', { width: 1280, height: 760 }, (page) => page.getByRole('button', { name: 'Hold' }).click());
await picture('phone', 'trees', { width: 360, height: 740 }, (page) => page.getByRole('button', { name: 'Hold' }).click());
await picture('work', 'work', { width: 1280, height: 900 });

// One page is open before the node stops, so that it sees it leave. Of some calls right after the stop, one whose tree has
// most of the nodes is shown: if the stalled node was the root of a call, there is no tree of it.
const size = { width: 1280, height: 800 };
const { page: watching } = await openPage(browser, `${cluster.url}#/cluster`, size);
const { page: looking } = await openPage(browser, `${cluster.url}#/trees`, size);
isBroken = true;
cluster.nodes[5].child.kill('SIGSTOP');
const tries = Array.from({ length: 8 }, async () => {
  const query = '?min_coverage=0.5&deadline=1200ms&explain';
  const init = { method: 'POST', body: '{"query": "fold"}', headers: { 'content-type': 'application/json' } };
  return (await fetch(`${cluster.url}v1/call/search/topk${query}`, init)).headers.get('treefold-call');
});
const documents = await Promise.all(
  (await Promise.all(tries)).map(async (call) => (await fetch(`${cluster.url}v1/trees/${call}`)).json()),
);
const [shown] = documents.filter(({ missing }) => missing?.length).sort((one, other) => other.nodes - one.nodes);
await looking.evaluate((call) => (location.hash = `/trees/${call}`), shown.call);
await looking.locator('.missing li').first().waitFor();
await pause(1_500);
await looking.screenshot({ path: join(directory, 'page-stalled.png') });
await watching.bringToFront();
await watching.locator('.events li').first().waitFor({ timeout: 60_000 });
await pause(8_000);
await watching.screenshot({ path: join(directory, 'page-left.png') });
isLoaded = false;
await Promise.all(loads);
await close();
await cluster.stop();
