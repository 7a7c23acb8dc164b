// The page in headless Chromium, on a cluster of real processes. A node that is stopped turns up as missing.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { executable, openBrowser, openPage } from './browser.mjs';
import { command, flights, killAll, startCluster, startFeed, tokenFor } from './cluster.mjs';

const NODES = 4;
const skip = !executable ? 'Chromium is missing: apt-get install chromium' : !command ? 'the command treefold is not built: cargo build -p treefold-cli' : false;
let cluster, chromium, folder;

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), 'treefold-docs-'));
  for (let file = 0; file < 40; file++) {
    writeFileSync(join(folder, `note-${file}.md`), `# Note ${file}\n\nAn oak and a willow grow here. Number ${file} has ${'birch '.repeat(file % 5)}.\n`);
  }
  const serve = (at) => [`micro:partitions=${at * 4}-${at * 4 + 3}/16`, `search=${folder}:partitions=${at}/${NODES}`];
  const more = (at) => ['--zone', at < 2 ? 'north' : 'south', '--rack', `rack-${at}`];
  cluster = await startCluster(NODES, serve, more);
  chromium = await openBrowser();
});

after(async () => {
  killAll();
  await chromium?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const open = (hash, options) => openPage(chromium.browser, `${cluster.url}#/${hash}`, options);
const hasNoOverflow = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);

test('page loads without an error and without a request to another host', { skip }, async () => {
  const { page, faults } = await open('');
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('heading', { name: 'Search all partitions' }).waitFor();
  for (const view of ['Cluster', 'Trees', 'Call', 'Work', 'Search']) {
    await page.getByRole('link', { name: view, exact: true }).click();
    await page.locator(`nav a[aria-current=page]`, { hasText: view }).waitFor();
  }
  assert.deepEqual(faults, []);
  await page.close();
});

test('search shows documents and full coverage', { skip }, async () => {
  const { page, faults } = await open('search');
  await page.getByLabel('Query').fill('willow');
  await page.keyboard.press('Enter');
  await page.getByText(/40 documents in/).waitFor();
  await page.getByText(`${NODES} of ${NODES} partitions`).waitFor();
  assert.equal(await page.locator('.hits li').count(), 20);
  assert.ok((await page.locator('.hits mark').count()) >= 20);
  await page.getByRole('table', { name: 'Times of each node' }).waitFor();
  await page.getByLabel('Query').fill('nowhere');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('No document has “nowhere”.').waitFor();
  await page.getByLabel('Query').fill('x'.repeat(1025));
  await page.keyboard.press('Enter');
  await page.getByText('No partition gave an answer.').waitFor();
  await page.getByText(/the query has 1025 bytes/).waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test('call is made by keyboard alone', { skip }, async () => {
  const { page, faults } = await open('cluster');
  await page.getByText('Live', { exact: true }).waitFor();
  await page.keyboard.press('4');
  await page.getByRole('heading', { name: 'Make a call' }).waitFor();
  const tabTo = async (label) => {
    for (let step = 0; step < 40; step++) {
      await page.keyboard.press('Tab');
      const name = await page.evaluate(() => {
        const { activeElement: at } = document;
        return at.labels?.[0]?.innerText ?? at.innerText;
      });
      if (name?.startsWith(label)) return;
    }
    assert.fail(`no tab stop ${label}`);
  };
  await tabTo('Service');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('micro');
  await tabTo('Aggregation');
  await page.keyboard.type('sum');
  await tabTo('Call');
  await page.keyboard.press('Enter');
  await page.getByText('16 of 16 partitions').waitFor();
  assert.equal((await page.getByLabel('Value').innerText()).trim(), '120');
  await page.keyboard.press('3');
  await page.locator('.call-list a', { hasText: 'micro/sum' }).first().waitFor();
  await page.locator('.picture canvas').waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test('arrow keys walk over the map of members', { skip }, async () => {
  const { page } = await open('cluster');
  const map = page.getByRole('application');
  await map.focus();
  await page.keyboard.press('ArrowRight');
  const name = () => page.locator('.detail-box strong').innerText();
  const first = await name();
  assert.ok(cluster.nodes.some(({ addr }) => addr === first), first);
  await page.keyboard.press('ArrowRight');
  assert.notEqual(await name(), first);
  await page.getByRole('button', { name: 'Show table' }).press('Enter');
  assert.equal(await page.locator('.members-table .line:not(.head)').count(), NODES);
  await page.close();
});

test('every view fits a phone, and nothing is wider', { skip }, async () => {
  for (const view of ['search', 'search/oak', 'cluster', 'trees', 'call', 'work']) {
    const { page, faults } = await open(view, { width: 360, height: 740 });
    await page.getByText('Live', { exact: true }).waitFor();
    await page.waitForTimeout(400);
    assert.ok(await hasNoOverflow(page), view);
    assert.deepEqual(faults, [], view);
    await page.close();
  }
});

test('theme follows the system, and the button overrides it', { skip }, async () => {
  const { page } = await open('cluster', { dark: true });
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(await theme(), 'dark');
  await page.getByRole('button', { name: /Theme: as the system/ }).click();
  assert.equal(await theme(), 'light');
  await page.reload();
  await page.getByRole('button', { name: /Theme: light/ }).waitFor();
  assert.equal(await theme(), 'light');
  await page.getByRole('button', { name: /Theme: light/ }).click();
  await page.getByRole('button', { name: /Theme: dark/ }).click();
  await page.close();
});

test('address that names no call shows the latest one, and asks once', { skip }, async () => {
  await fetch(`${cluster.url}v1/call/micro/sum?explain`, { method: 'POST' });
  const page = await chromium.browser.newPage();
  const asked = [];
  page.on('request', (request) => /\/v1\/trees\/./.test(request.url()) && asked.push(request.url()));
  await page.goto(`${cluster.url}#/trees/nonsense`);
  await page.getByRole('heading', { name: 'Waterfall' }).waitFor();
  await page.waitForTimeout(500);
  assert.ok(asked.length > 0 && asked.length <= 3, `${asked}`);
  await page.close();
});

test('page that was left open shows the gateway go and says so', { skip }, async () => {
  const lone = await startCluster(1, () => ['micro:partitions=0-3/4']);
  const { page } = await openPage(chromium.browser, `${lone.url}#/cluster`);
  await page.getByText('Live', { exact: true }).waitFor();
  await lone.stop();
  await page.getByText('Reconnecting').waitFor();
  await page.close();
});

test('mirrors of a feed are shown with their lag, and the stream that feeds them', { skip }, async () => {
  const mirrors = await startCluster(2, (at) => [`mirror=flights:partitions=${at}/2`]);
  const trace = join(folder, '..', `flights-${process.pid}.jsonl`);
  writeFileSync(trace, flights(20_000));
  const feed = startFeed('flights', trace, mirrors.nodes[0].addr);
  const { page, faults } = await openPage(chromium.browser, `${mirrors.url}#/work`);
  await page.getByRole('heading', { name: 'Mirrors of flights' }).waitFor();
  const table = page.getByRole('table', { name: 'Mirrors' });
  for (const mirror of ['0', '1']) await table.getByRole('row').filter({ hasText: new RegExp(`^\\s*${mirror}`) }).waitFor();
  await page.getByText('Origin: waiting to be sent').waitFor();
  await page.getByRole('table', { name: 'Streams' }).getByText('flights').waitFor();
  assert.deepEqual(faults, []);
  await page.close();
  feed.kill('SIGKILL');
  await mirrors.stop();
  rmSync(trace);
});

test('page asks for a token, and shows what its rights allow', { skip }, async () => {
  const file = join(folder, '..', `tokens-${process.pid}.toml`);
  const [reader, caller] = [tokenFor('reader', file, 'call,read'), tokenFor('caller', file, 'call')];
  const guarded = await startCluster(1, () => ['micro:partitions=0-3/4'], () => ['--gateway-tokens', file]);
  const { page } = await openPage(chromium.browser, `${guarded.url}#/cluster`);
  const give = async (token) => {
    await page.getByLabel('Token').fill(token);
    await page.keyboard.press('Enter');
  };
  await give('nonsense');
  await page.getByText('The gateway does not know this token.').waitFor();
  await give(reader);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('heading', { name: 'Members', exact: true }).waitFor();
  await page.reload();
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Forget token' }).click();
  await give(caller);
  await page.getByText('Calls only').waitFor();
  await page.getByRole('link', { name: 'Call', exact: true }).click();
  await page.getByLabel('Service').fill('micro');
  await page.getByLabel('Aggregation').fill('sum');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByText('4 of 4 partitions').waitFor();
  await page.getByRole('link', { name: 'Trees', exact: true }).click();
  await page.locator('.call-list a', { hasText: 'micro/sum' }).waitFor();
  await page.close();
  await guarded.stop();
  rmSync(file);
});

// The last test: it stops a node for good.
test('stalled node turns up as missing, and leaves', { skip, timeout: 120_000 }, async () => {
  const { page, faults } = await open('call');
  const stalled = cluster.nodes.at(-1);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByLabel('Service').fill('micro');
  await page.getByLabel('Aggregation').fill('sum');
  await page.getByLabel('Minimum coverage').fill('0.5');
  await page.getByLabel('Deadline').fill('1s');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByText('16 of 16 partitions').waitFor();
  stalled.child.kill('SIGSTOP');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByText('12 of 16 partitions').waitFor();
  const missing = page.locator('.missing li');
  await missing.getByText('Partitions 12–15').waitFor();
  await missing.getByText(stalled.addr).waitFor();
  assert.match(await missing.innerText(), /late|lost/);
  assert.match(await page.locator('.picture canvas').getAttribute('aria-label'), new RegExp(`missing: ${stalled.addr}`));
  await page.getByRole('link', { name: 'Cluster', exact: true }).click();
  await page.locator('.events li', { hasText: stalled.addr }).getByText('left').waitFor({ timeout: 60_000 });
  await page.getByText(/No member holds 12–15/).waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});
