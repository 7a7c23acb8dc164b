// Light, dark, or as the system says. The choice stays in the browser.
import { Store } from './store.js';

const KEY = 'treefold-theme';
const CHOICES = ['system', 'light', 'dark'];
const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

function chosen() {
  try {
    const given = localStorage.getItem(KEY);
    return CHOICES.includes(given) ? given : 'system';
  } catch {
    return 'system'; // without storage
  }
}

export const theme = new Store({ choice: chosen(), dark: false });

export function applyTheme() {
  const { choice } = theme.value;
  const dark = choice === 'system' ? systemIsDark.matches : choice === 'dark';
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  theme.set({ choice, dark });
}

export function nextTheme() {
  const choice = CHOICES[(CHOICES.indexOf(theme.value.choice) + 1) % CHOICES.length];
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // The choice then lasts as long as the page.
  }
  theme.value.choice = choice;
  applyTheme();
}

systemIsDark.addEventListener('change', applyTheme);

// A colour of the present theme, for canvases.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
