// A titled part of a view.
export function Panel({ title, note, actions, class: name = '', children }) {
  return (
    <section class={`panel ${name}`} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note && <span class="quiet">{note}</span>}
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

export const Figure = ({ label, value, note, mood }) => (
  <div class={`figure ${mood ?? ''}`}>
    <dt>{label}</dt>
    <dd>
      {value}
      {note && <small>{note}</small>}
    </dd>
  </div>
);
