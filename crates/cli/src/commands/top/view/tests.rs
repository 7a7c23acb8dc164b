//! Snapshots of pictures.

use super::*;
use crate::commands::top::model::tests::{look, model};
use crate::commands::top::model::{Action, Sort};
use crate::commands::top::streamed::Network;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

fn drawn(model: &Model, now: Instant, width: u16, height: u16, palette: Palette) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, now, palette)).unwrap();
    terminal.backend().clone()
}

fn picture(model: &Model, now: Instant, width: u16, height: u16) -> TestBackend {
    drawn(model, now, width, height, Palette::PLAIN)
}

#[test]
fn picture_at_80_by_24() {
    let now = Instant::now();
    insta::assert_snapshot!(picture(&model(now), now, 80, 24));
}

#[test]
fn picture_at_200_by_50() {
    let now = Instant::now();
    let mut model = model(now);
    model.apply(Action::Sort(Sort::Memory));
    model.apply(Action::Next);
    insta::assert_snapshot!(picture(&model, now, 200, 50));
}

#[test]
fn failure_is_shown_with_age_of_last_look() {
    let now = Instant::now();
    let mut model = model(now);
    model.fail("no answer from 10.0.0.1:7700".to_owned());
    model.apply(Action::Help);
    insta::assert_snapshot!(picture(&model, now + Duration::from_secs(7), 80, 24));
}

#[test]
fn stream_shows_its_tree_and_away_endpoints() {
    let now = Instant::now();
    let mut model = model(now);
    let away = look().missing;
    let network = Network { levels: 2, nodes: 4, endpoints: 3, away, changes: 2 };
    model.observe(crate::commands::top::source::Look { network: Some(network), ..look() }, now);
    insta::assert_snapshot!(picture(&model, now, 100, 40));
}

#[test]
fn missing_answers_are_shown() {
    let now = Instant::now();
    let mut model = Model::new("10.0.0.1:7700".to_owned(), Sort::Cpu, Duration::from_secs(1), 40);
    model.observe(crate::commands::top::source::Look { hosts: None, contributed: 0, ..look() }, now);
    insta::assert_snapshot!(picture(&model, now, 80, 24));
}

#[test]
fn no_terminal_is_too_small_to_draw_on() {
    let now = Instant::now();
    let mut model = model(now);
    for help in [false, true] {
        model.help = help;
        for (width, height) in
            (1..60).step_by(3).flat_map(|width| (1..45).step_by(2).map(move |height| (width, height)))
        {
            picture(&model, now, width, height);
        }
    }
}

#[test]
fn plain_palette_draws_no_colour() {
    let now = Instant::now();
    let mut model = model(now);
    model.apply(Action::Next);
    let coloured = |palette| {
        let picture = drawn(&model, now, 80, 24, palette);
        picture.buffer().content.iter().any(|cell| cell.fg != ratatui::style::Color::Reset)
    };
    assert!(!coloured(Palette::PLAIN));
    assert!(coloured(Palette::COLOURED));
}
