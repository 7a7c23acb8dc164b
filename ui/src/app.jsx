// The frame of the page: the bar with the views, the state of the connection, and the view that the address names.
import { useEffect } from 'preact/hooks';
import { setToken, token } from './gateway.js';
import { live } from './live.js';
import { Token } from './part/token.jsx';
import { go, route } from './route.js';
import { useStore } from './store.js';
import { nextTheme, theme } from './theme.js';
import { Call } from './view/call.jsx';
import { Cluster } from './view/cluster.jsx';
import { Search } from './view/search.jsx';
import { Trees } from './view/trees.jsx';
import { Work } from './view/work.jsx';

const VIEWS = [
  ['search', 'Search', Search],
  ['cluster', 'Cluster', Cluster],
  ['trees', 'Trees', Trees],
  ['call', 'Call', Call],
  ['work', 'Work', Work],
];

export function App() {
  const { status, phase } = useStore(live);
  const { wanted } = useStore(token);
  const [named] = useStore(route);
  const hasSearch = Boolean(status?.totals.search);
  // Without the right to read, the page cannot know whether there is a search service.
  const isShown = (name) => (phase === 'denied' ? name === 'call' || name === 'trees' : name !== 'search' || hasSearch);
  const views = VIEWS.filter(([name]) => isShown(name));
  const first = hasSearch || (!status && phase === 'connecting') ? 'search' : phase === 'denied' ? 'call' : 'cluster';
  const name = views.some(([view]) => view === named) ? named : first;
  const View = (status || phase !== 'connecting') && VIEWS.find(([view]) => view === name)[2];

  useEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, textarea, select')) return;
      if (event.key === '/' && hasSearch) {
        event.preventDefault();
        go('search');
        requestAnimationFrame(() => document.getElementById('query')?.focus());
      } else if (views[event.key - 1]) {
        go(views[event.key - 1][0]);
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [hasSearch]);

  useEffect(() => {
    const label = VIEWS.find(([view]) => view === name)[1];
    document.title = `${label} · Treefold`;
  }, [name]);

  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById('main').focus())}>
        Skip to content
      </a>
      <header class="bar">
        <a class="brand" href="#/" aria-label="Treefold, first view">
          <Mark />
          <span>Treefold</span>
        </a>
        <nav aria-label="Views">
          {views.map(([view, label]) => (
            <a key={view} href={`#/${view}`} aria-current={view === name ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <div class="tools">
          <Connection />
          <ThemeButton />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {wanted ? <Token /> : View ? <View /> : <p class="quiet pad">Connecting…</p>}
      </main>
    </>
  );
}

const PHASES = {
  connecting: ['Connecting', 'idle'],
  live: ['Live', 'good'],
  broken: ['Reconnecting', 'bad'],
  denied: ['Calls only', 'idle'],
  token: ['No token', 'bad'],
};

function Connection() {
  const { phase, problem } = useStore(live);
  const { text } = useStore(token);
  const [label, mood] = PHASES[phase];
  return (
    <>
      <span class={`connection ${mood}`} role="status" title={problem ?? undefined}>
        <i aria-hidden="true" />
        {label}
      </span>
      {text && (
        <button class="plain" onClick={() => (setToken(''), location.reload())}>
          Forget token
        </button>
      )}
    </>
  );
}

const THEMES = { system: 'as the system', light: 'light', dark: 'dark' };

function ThemeButton() {
  const { choice } = useStore(theme);
  return (
    <button class="plain icon" onClick={nextTheme} aria-label={`Theme: ${THEMES[choice]}. Change`} title={`Theme: ${THEMES[choice]}`}>
      <svg viewBox="0 0 20 20" width="17" height="17" aria-hidden="true">
        {choice === 'dark' ? (
          <path d="M16 12.2A6.6 6.6 0 0 1 7.8 4a6.6 6.6 0 1 0 8.2 8.2Z" fill="currentColor" />
        ) : (
          <>
            <circle cx="10" cy="10" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6" />
            <path d={choice === 'light' ? 'M10 6.6a3.4 3.4 0 1 1 0 6.8 3.4 3.4 0 0 1 0-6.8Z' : 'M10 3.8a6.2 6.2 0 0 1 0 12.4Z'} fill="currentColor" />
          </>
        )}
      </svg>
    </button>
  );
}

const Mark = () => (
  <svg viewBox="0 0 24 24" width="22" height="22" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" aria-hidden="true">
    <path d="M12 6v5M12 11 5.5 17M12 11v6M12 11l6.5 6" />
    <circle cx="12" cy="4.5" r="2" fill="currentColor" />
    <circle cx="5" cy="19" r="2" fill="currentColor" />
    <circle cx="12" cy="19.5" r="2" fill="currentColor" />
    <circle cx="19" cy="19" r="2" fill="currentColor" />
  </svg>
);
