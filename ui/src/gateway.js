// Requests to the gateway that the page came from.
import { Store } from './store.js';

const KEY = 'treefold-token';

function stored() {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

// The token of this tab, and whether the gateway wants another one.
export const token = new Store({ text: stored(), wanted: false, refused: false });

export function setToken(text) {
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // The token then lasts as long as the page.
  }
  token.set({ text, wanted: false, refused: false });
}

// A refusal of the gateway (RFC 9457), or a failure to reach it.
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `HTTP ${status}`);
    this.status = status;
    this.document = document;
    this.kind = (document.type ?? '').replace('urn:treefold:problem:', '');
  }
}

export async function ask(path, { headers = {}, ...rest } = {}) {
  const { text } = token.value;
  const given = text ? { ...headers, authorization: `Bearer ${text}` } : headers;
  let response;
  try {
    response = await fetch(path, { ...rest, headers: given, cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { title: 'The gateway does not answer', detail: 'The gateway does not answer.' });
  }
  if (response.ok) return response;
  const document = await response.json().catch(() => ({}));
  if (response.status === 401) token.change({ wanted: true, refused: Boolean(text) });
  throw new Problem(response.status, document);
}

export const askJson = async (path, options) => (await ask(path, options)).json();

// Makes a call. A call without enough coverage has an outcome too; other refusals are thrown.
export async function call(service, aggregation, params, { signal, ...options } = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) if (value !== '' && value != null) query.set(name, value);
  const path = `v1/call/${encodeURIComponent(service)}/${encodeURIComponent(aggregation)}?${query}`;
  const body = params === undefined ? undefined : JSON.stringify(params);
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  try {
    const response = await ask(path, { method: 'POST', headers, body, signal });
    return { ...(await response.json()), call: response.headers.get('treefold-call') };
  } catch (error) {
    if (error.kind !== 'coverage') throw error;
    return { ...error.document, status: 'insufficient', value: null, call: null };
  }
}
