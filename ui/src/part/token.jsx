// The question for a token, if the gateway has tokens.
import { useEffect, useRef } from 'preact/hooks';
import { setToken, token } from '../gateway.js';
import { useStore } from '../store.js';

export function Token() {
  const { refused } = useStore(token);
  const input = useRef();
  useEffect(() => input.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    const text = input.current.value.trim();
    if (text) setToken(text);
  };
  return (
    <form class="panel token" onSubmit={submit}>
      <h1>This gateway asks for a token</h1>
      <p class="quiet">
        The right <code>read</code> shows the cluster, and the right <code>call</code> makes calls. The token stays in this tab
        until you close it.
      </p>
      <label class="field">
        <span>Token</span>
        <input ref={input} type="password" autocomplete="off" spellcheck={false} aria-invalid={refused} />
      </label>
      {refused && <p class="warning" role="alert">The gateway does not know this token.</p>}
      <button class="primary">Continue</button>
    </form>
  );
}
