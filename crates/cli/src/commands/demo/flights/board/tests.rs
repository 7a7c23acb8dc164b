//! News, actions, and their effects.

use super::*;
use treefold_mirror::Cut;

pub(crate) fn report(epoch: u32, position: u64, offered: u64) -> OriginReport {
    OriginReport {
        epoch,
        position,
        committed: position.saturating_sub(8),
        mode: Mode::Normal,
        rules_version: epoch,
        mirrors: 3,
        offered,
        ..OriginReport::default()
    }
}

pub(crate) fn status(mirror: u32, position: u64) -> MirrorStatus {
    MirrorStatus {
        mirror,
        epoch: 1,
        position,
        is_current: mirror != 2,
        keys: 3,
        rules_version: 1,
        committed: position.saturating_sub(10),
        has_state: true,
        promised: 0,
        keeps_promises: false,
        silent_ms: None,
        readers: 1,
        pending_requests: 0,
        http: None,
    }
}

fn values(status: &str, boarded: i64) -> Values {
    Values {
        status: Some(status.to_owned()),
        boarded: Some(boarded),
        expected: Some(184),
        ..Values::default()
    }
}

fn cut(position: u64) -> Cut {
    Cut { epoch: 1, position }
}

/// A board that has run for a while: a mirror was killed, and the reader has moved.
pub(crate) fn board(began: Instant) -> Board {
    let mut board = Board::new(began);
    let ms = Duration::from_millis;
    let mut at = began;
    let mut observe = |news| {
        at += ms(100);
        board.observe(news, at);
    };
    for part in Board::parts() {
        observe(News::Life(part, if part == Part::Origin { Life::Starting } else { Life::Alive }));
    }
    observe(News::Url(0, "http://127.0.0.1:7780/v1/feeds/flights/events".to_owned()));
    observe(News::Origin(report(1, 400, 4_000)));
    observe(News::Origin(report(1, 500, 4_400)));
    observe(News::Read(Read::Begins(cut(400), None)));
    observe(News::Read(Read::Row("DL100".to_owned(), values("boarding", 17), 0)));
    let in_flight = Values {
        gate: Some(4),
        lat: Some(38.8786),
        lon: Some(-109.7888),
        altitude_ft: Some(32_994),
        speed_kt: Some(449),
        ..values("departed", 184)
    };
    observe(News::Read(Read::Row("DL146".to_owned(), in_flight, 0)));
    observe(News::Read(Read::Complete(1, ms(12))));
    observe(News::Read(Read::Event(cut(401), "DL100".to_owned(), values("boarding", 184), ms(3))));
    observe(News::Life(Part::Mirror(1), Life::Dead));
    observe(News::Read(Read::Moved(0, "mirror 1 has left: lost".to_owned(), ms(230))));
    observe(News::Read(Read::Event(cut(402), "DL101".to_owned(), values("arrived", 184), ms(9))));
    observe(News::Mirrors(vec![status(0, 498), status(2, 450)]));
    observe(News::Source(Sent { generated: 4_480, unacknowledged: 31, repeated: 12, ..Sent::default() }));
    observe(News::Storm(Storm::Begins(200)));
    observe(News::Read(Read::Event(cut(403), "DL101".to_owned(), values("boarding", 0), ms(20))));
    observe(News::Storm(Storm::Ended { joined: 200, failed: 0, half: ms(80), all: ms(140) }));
    observe(News::Storm(Storm::Over));
    board
}

#[test]
fn snapshot_replaces_the_flights_once_it_is_complete() {
    let now = Instant::now();
    let mut board = board(now);
    assert_eq!(board.flights.keys().collect::<Vec<_>>(), ["DL100", "DL101", "DL146"]);
    board.observe(News::Read(Read::Begins(cut(500), Some("trimmed".to_owned()))), now);
    board.observe(News::Read(Read::Row("DL7".to_owned(), values("landed", 1), 0)), now);
    assert_eq!(board.flights.len(), 3, "the former state stays while a snapshot arrives");
    board.observe(News::Read(Read::Complete(0, Duration::from_millis(3))), now);
    assert_eq!(board.flights.keys().collect::<Vec<_>>(), ["DL7"]);
    assert_eq!((board.reader.tally.resumed, board.reader.tally.gaps), (1, 0));
}

#[test]
fn key_of_a_process_kills_it_or_starts_it_again() {
    let mut board = board(Instant::now());
    let toggle = |board: &mut Board, part| board.apply(Action::Toggle(part));
    assert_eq!(toggle(&mut board, Part::Mirror(0)), Effect::Order(Order::Kill(Part::Mirror(0))));
    assert_eq!(toggle(&mut board, Part::Mirror(1)), Effect::Order(Order::Start(Part::Mirror(1))));
    assert_eq!(toggle(&mut board, Part::Origin), Effect::Order(Order::Kill(Part::Origin)));
    board.observe(News::Life(Part::Mirror(1), Life::Starting), Instant::now());
    assert_eq!(toggle(&mut board, Part::Mirror(1)), Effect::Nothing, "it is being started");
}

#[test]
fn selected_process_is_stopped_and_goes_on() {
    let mut board = board(Instant::now());
    assert_eq!(board.apply(Action::Pause), Effect::Order(Order::Pause(Part::Origin, true)));
    board.apply(Action::Select);
    board.observe(News::Life(Part::Mirror(0), Life::Stopped), Instant::now());
    assert_eq!(board.apply(Action::Pause), Effect::Order(Order::Pause(Part::Mirror(0), false)));
    board.apply(Action::Select);
    assert_eq!(board.apply(Action::Pause), Effect::Nothing, "mirror 1 is dead");
    board.apply(Action::Select);
    board.apply(Action::Select);
    assert_eq!(board.selected(), Part::Origin, "the selection goes round");
}

#[test]
fn second_storm_waits_for_the_first_one() {
    let mut board = board(Instant::now());
    assert_eq!(board.apply(Action::Storm), Effect::Storm(STORM_READERS));
    board.observe(News::Storm(Storm::Begins(STORM_READERS)), Instant::now());
    assert_eq!(board.apply(Action::Storm), Effect::Nothing);
}

#[test]
fn rules_are_switched_to_the_other_mode_of_a_living_origin() {
    let mut board = board(Instant::now());
    assert_eq!(board.apply(Action::Mode), Effect::Mode(Mode::Loaded));
    let loaded = OriginReport { mode: Mode::Loaded, ..report(1, 510, 4_500) };
    board.observe(News::Origin(loaded), Instant::now());
    assert_eq!(board.apply(Action::Mode), Effect::Mode(Mode::Normal));
    board.observe(News::Life(Part::Origin, Life::Dead), Instant::now());
    assert_eq!(board.apply(Action::Mode), Effect::Nothing);
}

#[test]
fn returned_origin_is_told_from_a_late_line_of_the_killed_one() {
    let now = Instant::now();
    let mut board = board(now);
    board.observe(News::Life(Part::Origin, Life::Dead), now);
    board.observe(News::Origin(report(1, 600, 5_000)), now);
    assert_eq!(board.origin.life, Life::Dead);
    board.observe(News::Life(Part::Origin, Life::Starting), now);
    board.observe(News::Origin(report(1, 600, 5_000)), now);
    assert_eq!(board.origin.life, Life::Starting, "the line is of epoch 1");
    board.observe(News::Origin(report(2, 600, 0)), now + Duration::from_secs(2));
    assert_eq!(board.origin.life, Life::Alive);
    let (_, last) = board.diary.back().unwrap();
    assert!(last.contains("epoch 2 continues after 600"), "{last}");
}

#[test]
fn rates_are_those_between_the_first_and_the_last_report() {
    let board = board(Instant::now());
    // 400 events were offered, and 100 sent, between two reports 100 ms apart.
    let (offered, sent) = board.origin.rates().unwrap();
    assert_eq!((offered.round() as u64, sent.round() as u64), (4_000, 1_000));
    assert_eq!((board.kills(), board.furthest()), (1, 500));
}
