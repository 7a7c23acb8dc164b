// A made-up cluster of 500 nodes: snapshots come ten times as often as from a gateway, and the page must not stutter.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { executable, openBrowser, openPage } from './browser.mjs';
import { standIn } from './stand-in.mjs';

const skip = executable ? false : 'Chromium is missing: apt-get install chromium';
const MEASURED_MS = 2_000;
let site, chromium;

before(async () => {
  if (skip) return;
  site = await standIn({ count: 500, everyMs: 100 });
  chromium = await openBrowser();
});

after(async () => {
  await chromium?.close();
  site?.close();
});

// Times between frames, and times that scripts held the page, in milliseconds.
const measure = (page, forMs) =>
  page.evaluate(
    (most) =>
      new Promise((resolve) => {
        const [frames, long] = [[], []];
        const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)));
        observer.observe({ type: 'longtask' });
        const began = performance.now();
        let last = began;
        const frame = (now) => {
          frames.push(now - last);
          last = now;
          if (now - began < most) return requestAnimationFrame(frame);
          frames.sort((a, b) => a - b);
          observer.disconnect();
          const at = (share) => Math.round(frames[Math.floor(share * (frames.length - 1))] * 10) / 10;
          return resolve({ frames: frames.length, median: at(0.5), p99: at(0.99), most: at(1), long: long.map(Math.round) });
        };
        requestAnimationFrame(frame);
      }),
    forMs,
  );

for (const view of ['cluster', 'trees', 'work']) {
  test(`view ${view} of 500 nodes draws without an error and keeps its document small`, { skip }, async (context) => {
    const { page, faults } = await openPage(chromium.browser, `${site.url}#/${view}`);
    await page.getByText('Live', { exact: true }).waitFor();
    await page.waitForTimeout(500);
    const found = await measure(page, MEASURED_MS);
    const elements = await page.evaluate(() => document.querySelectorAll('*').length);
    context.diagnostic(`${view}: ${elements} elements, frames ${JSON.stringify(found)}`);
    // Times depend on the machine and are only told; the size of the document does not.
    assert.ok(elements < 1_500, `${elements} elements`);
    assert.deepEqual(faults, []);
    await page.close();
  });
}

test('long table of members has only the rows in sight', { skip }, async () => {
  const { page } = await openPage(chromium.browser, `${site.url}#/cluster`);
  await page.getByRole('button', { name: 'Show table' }).click();
  const rows = page.locator('.members-table .line:not(.head)');
  assert.ok((await rows.count()) < 60);
  await page.locator('.members-table .rows').evaluate((box) => (box.scrollTop = box.scrollHeight));
  await page.getByText('10.2.3.25:7700').waitFor();
  await page.close();
});
