//! The keys and their actions.

use super::model::{Action, Sort};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Keys, their names in the foot line, and their descriptions in the help.
pub(crate) const KEYS: [(&str, &str, &str); 6] = [
    ("q", "quit", "quit; so does Ctrl-C"),
    ("p", "pause", "stop looking: a paused top costs the cluster nothing"),
    ("c m n", "sort", "sort by processors, by lack of memory, by traffic"),
    ("↑ ↓", "host", "choose a host and show its processes; Esc ends the choice"),
    ("+ -", "interval", "longer or shorter interval"),
    ("h", "help", "show or hide this help; so does ?"),
];

/// Returns the action of a terminal's event; `None` if it has none.
pub(crate) fn action(event: &Event) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Resize(..) => Some(Action::Redraw),
        _ => None,
    }
}

fn of_key(key: &KeyEvent) -> Option<Action> {
    // In raw mode the terminal does not turn keys into signals.
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Action::Quit);
    }
    Some(match key.code {
        KeyCode::Char('q' | 'Q') => Action::Quit,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('c') => Action::Sort(Sort::Cpu),
        KeyCode::Char('m') => Action::Sort(Sort::Memory),
        KeyCode::Char('n') => Action::Sort(Sort::Network),
        KeyCode::Down | KeyCode::Char('j') => Action::Next,
        KeyCode::Up | KeyCode::Char('k') => Action::Previous,
        KeyCode::Esc => Action::Deselect,
        KeyCode::Char('+' | '=') => Action::Slower,
        KeyCode::Char('-') => Action::Faster,
        KeyCode::Char('h' | '?') | KeyCode::F(1) => Action::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<Action> {
        action(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn every_key_that_is_shown_does_something() {
        for (keys, ..) in KEYS {
            for key in keys.split(' ') {
                let code = match key {
                    "↑" => KeyCode::Up,
                    "↓" => KeyCode::Down,
                    key => KeyCode::Char(key.chars().next().unwrap()),
                };
                assert!(pressed(code, KeyModifiers::NONE).is_some(), "{key}");
            }
        }
    }

    #[test]
    fn control_c_ends_and_c_sorts() {
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::NONE), Some(Action::Sort(Sort::Cpu)));
        assert_eq!(pressed(KeyCode::Char('z'), KeyModifiers::CONTROL), None);
    }

    #[test]
    fn key_release_is_ignored_and_resize_redraws() {
        let released = KeyEvent::new_with_kind(KeyCode::Char('p'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(action(&Event::Key(released)), None);
        assert_eq!(action(&Event::Resize(80, 24)), Some(Action::Redraw));
    }
}
