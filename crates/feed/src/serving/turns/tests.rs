//! Tests of the order of turns, on a clock of their own.

use super::*;
use std::collections::BTreeSet;

/// Readers by their numbers, and a clock.
struct Queue {
    order: Order,
    now: Instant,
    tickets: Vec<u64>,
}

impl Queue {
    fn new(readers: usize) -> Self {
        let limits = ReaderLimits::default();
        let Turns(order) = Turns::new(&limits);
        let mut order = order.into_inner().unwrap();
        let tickets = (0..readers).map(|_| order.ticket()).collect();
        Self { order, now: Instant::now(), tickets }
    }

    /// Lets a reader ask, which waits from now on if it is not its turn.
    fn ask(&mut self, reader: usize) -> Answer {
        let ticket = &mut self.tickets[reader];
        self.order.waiting.entry(*ticket).or_default();
        self.order.ask(ticket, self.now)
    }

    fn leave(&mut self, reader: usize) {
        self.order.places.remove(&self.tickets[reader]);
        self.order.waiting.remove(&self.tickets[reader]);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

fn limits() -> ReaderLimits {
    ReaderLimits::default()
}

#[test]
fn snapshots_complete_in_the_order_in_which_readers_came() {
    let readers = 10;
    let mut queue = Queue::new(readers);
    let (mut pieces, mut complete) = (vec![0; readers], Vec::new());
    while complete.len() < readers {
        queue.pass(Duration::from_millis(1));
        let open: Vec<usize> = (0..readers).filter(|reader| !complete.contains(reader)).collect();
        // The last ones ask first.
        for &reader in open.iter().rev() {
            if queue.ask(reader) == Answer::Go {
                pieces[reader] += 1;
                if pieces[reader] == 5 {
                    queue.leave(reader);
                    complete.push(reader);
                }
            }
        }
        let begun = (0..readers).filter(|&reader| pieces[reader] > 0 && !complete.contains(&reader)).count();
        assert!(begun <= limits().loads_max, "{begun} are half done: {pieces:?}");
    }
    assert_eq!(complete.iter().max(), Some(&(readers - 1)));
    // Readers that have a place at the same time may overtake each other; nobody else does.
    for (at, &reader) in complete.iter().enumerate() {
        assert!(at.abs_diff(reader) < limits().loads_max, "{complete:?}");
    }
}

#[test]
fn place_of_a_reader_that_takes_nothing_is_another_readers() {
    let places = limits().loads_max;
    let mut queue = Queue::new(places + 1);
    (0..places).for_each(|reader| assert_eq!(queue.ask(reader), Answer::Go));
    let free_at = queue.now + limits().load_stalled_max;
    assert_eq!(queue.ask(places), Answer::At(free_at), "nobody else would wake it");
    queue.pass(limits().load_stalled_max);
    assert_eq!(queue.ask(places), Answer::Go);
    // A stopped reader that reads again has the next free place, before later readers.
    queue.tickets.push(0);
    queue.tickets[places + 1] = queue.order.ticket();
    for reader in 1..places {
        assert_eq!(queue.ask(reader), Answer::Go);
    }
    assert!(matches!(queue.ask(0), Answer::At(_)));
    assert_eq!(queue.ask(places + 1), Answer::Later);
    queue.leave(places);
    assert_eq!(queue.ask(places + 1), Answer::Later);
    assert_eq!(queue.ask(0), Answer::Go);
}

#[test]
fn reader_that_takes_pieces_slowly_gives_way_after_its_time() {
    let places = limits().loads_max;
    let mut queue = Queue::new(places + 1);
    let step = limits().load_stalled_max / 2;
    let mut until = queue.now + limits().load_turn_max;
    // Without another reader that waits, nobody has to give way.
    while queue.now < until + step {
        (0..places).for_each(|reader| assert_eq!(queue.ask(reader), Answer::Go));
        queue.pass(step);
    }
    assert_ne!(queue.ask(places), Answer::Go);
    assert_ne!(queue.ask(0), Answer::Go, "it waits behind the new one");
    assert_eq!(queue.ask(places), Answer::Go);
    assert!(queue.tickets[0] > queue.tickets[places]);
    until = queue.now + limits().load_turn_max;
    let mut served = BTreeSet::new();
    while queue.now <= until + step * 4 {
        served.extend((0..=places).filter(|&reader| queue.ask(reader) == Answer::Go));
        queue.pass(step);
    }
    assert_eq!(served.len(), places + 1, "everyone has had turns: {served:?}");
}

#[tokio::test]
async fn readers_that_give_up_leave_their_places_and_turns_to_others() {
    let turns = Turns::new(&ReaderLimits { loads_max: 1, load_stalled_max: Duration::from_secs(3_600), ..limits() });
    let (mut first, mut second, mut third) = (turns.ticket(), turns.ticket(), turns.ticket());
    turns.turn(&mut first).await;
    {
        let gives_up = turns.turn(&mut second);
        tokio::select! {
            biased;
            () = gives_up => panic!("there is one place"),
            () = tokio::task::yield_now() => {}
        }
    }
    assert!(turns.order().waiting.is_empty());
    let waits = turns.turn(&mut third);
    let leaves = async {
        tokio::task::yield_now().await;
        turns.leave(&first);
        turns.leave(&second);
    };
    tokio::join!(waits, leaves);
    assert_eq!(turns.order().places.keys().copied().collect::<Vec<_>>(), [third.0]);
}
