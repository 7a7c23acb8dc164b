// Headless Chromium, with a profile of its own, and a page that keeps account of errors and of requests to other hosts.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

// `make ui-test` names the browser that it found.
const PLACES = process.env.CHROMIUM ? [process.env.CHROMIUM] : ['/usr/bin/chromium', '/usr/bin/chromium-browser'];
export const executable = PLACES.find((path) => existsSync(path));

const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
];

export async function openBrowser() {
  const profile = mkdtempSync(join(tmpdir(), 'treefold-page-'));
  const options = { executablePath: executable, args: FLAGS, viewport: { width: 1440, height: 900 } };
  const browser = await chromium.launchPersistentContext(profile, options);
  const close = async () => {
    await browser.close();
    rmSync(profile, { recursive: true, force: true });
  };
  return { browser, close };
}

// Opens a page. `faults` collects console errors, uncaught exceptions, and requests to other hosts.
export async function openPage(browser, url, { dark = false, width = 1440, height = 900 } = {}) {
  const page = await browser.newPage();
  const faults = [];
  page.on('console', (message) => message.type() === 'error' && faults.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => faults.push(`exception: ${error}`));
  page.on('request', (request) => {
    const { origin, protocol } = new URL(request.url());
    if (protocol !== 'data:' && origin !== new URL(url).origin) faults.push(`request to ${request.url()}`);
  });
  await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
  await page.setViewportSize({ width, height });
  await page.goto(url);
  return { page, faults };
}
