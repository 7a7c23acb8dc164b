// The page's beginning: theme, live state, and the views.
import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { App } from './app.jsx';
import { follow } from './live.js';
import { applyTheme } from './theme.js';

applyTheme();
follow();
render(<App />, document.getElementById('page'));
