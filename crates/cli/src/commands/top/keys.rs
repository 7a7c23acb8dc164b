//! Which key asks for what.

use super::model::{Action, Sort};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What the keys do, as the foot line and the help show it.
pub(crate) const KEYS: [(&str, &str, &str); 6] = [
    ("q", "quit", "and Ctrl-C"),
    ("p", "pause", "stops looking: a paused top costs the cluster nothing"),
    ("c m n", "sort", "by processors, by want of memory, by traffic"),
    ("↑ ↓", "host", "chooses a host and shows its own processes; Esc lets go"),
    ("+ -", "interval", "longer, shorter"),
    ("h", "help", "and ?"),
];

/// What an event of the terminal asks for; `None` for one that means nothing here.
pub(crate) fn action(event: &Event) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Resize(..) => Some(Action::Redraw),
        _ => None,
    }
}

fn of_key(key: &KeyEvent) -> Option<Action> {
    // A raw terminal makes no signals of keys.
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
    fn a_release_is_no_second_press_and_a_resize_is_a_new_picture() {
        let released = KeyEvent::new_with_kind(KeyCode::Char('p'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(action(&Event::Key(released)), None);
        assert_eq!(action(&Event::Resize(80, 24)), Some(Action::Redraw));
    }
}
