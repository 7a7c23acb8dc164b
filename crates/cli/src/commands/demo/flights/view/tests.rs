//! Snapshots of pictures.

use super::*;
use crate::commands::demo::flights::board::tests::board;
use crate::commands::demo::flights::board::{Action, Board};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

/// The picture of a board that began 10 s before.
fn picture(change: impl FnOnce(&mut Board), width: u16, height: u16, palette: Palette) -> TestBackend {
    let began = Instant::now();
    let mut board = board(began);
    change(&mut board);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, &board, began + Duration::from_secs(10), palette)).unwrap();
    terminal.backend().clone()
}

#[test]
fn picture_at_80_by_24() {
    insta::assert_snapshot!(picture(|_| {}, 80, 24, Palette::PLAIN));
}

#[test]
fn picture_at_150_by_30() {
    insta::assert_snapshot!(picture(|board| _ = board.apply(Action::Select), 150, 30, Palette::PLAIN));
}

#[test]
fn help_is_shown_over_the_board() {
    insta::assert_snapshot!(picture(|board| _ = board.apply(Action::Help), 100, 26, Palette::PLAIN));
}

#[test]
fn board_without_news_is_drawn() {
    let picture = picture(|board| *board = Board::new(Instant::now()), 80, 24, Palette::PLAIN).to_string();
    assert!(picture.contains("waits for its snapshot"), "{picture}");
    assert!(picture.contains("origin    starts"), "{picture}");
}

#[test]
fn no_terminal_is_too_small_to_draw_on() {
    for (width, height) in
        (1..90).step_by(4).flat_map(|width| (1..40).step_by(3).map(move |height| (width, height)))
    {
        picture(|board| _ = board.apply(Action::Help), width, height, Palette::PLAIN);
    }
}

#[test]
fn plain_palette_draws_no_colour() {
    let is_coloured = |palette| {
        let picture = picture(|_| {}, 80, 24, palette);
        picture.buffer().content.iter().any(|cell| cell.fg != ratatui::style::Color::Reset)
    };
    assert!(!is_coloured(Palette::PLAIN));
    assert!(is_coloured(Palette::COLOURED));
}
