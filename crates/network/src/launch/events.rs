//! What a network's user is told, when it listens.
//!
//! A front-end goes on whether or not anybody listens, so what is to be told is bounded: whoever falls behind misses
//! events, and is told how many when there is room again.

use super::NetworkEvent;
use tokio::sync::mpsc;

/// Events that wait for [`Network::event`](super::Network::event).
pub const EVENTS_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Events {
    sender: mpsc::Sender<NetworkEvent>,
    missed: u64,
}

impl Events {
    /// Both ends, for at most so many events.
    pub(super) fn bounded(events_max: usize) -> (Self, mpsc::Receiver<NetworkEvent>) {
        let (sender, receiver) = mpsc::channel(events_max);
        (Self { sender, missed: 0 }, receiver)
    }

    /// Tells it, or counts it as missed. Whoever does not listen any more has no wish to know.
    pub(super) fn tell(&mut self, event: NetworkEvent) {
        if self.missed > 0 && self.sender.try_send(NetworkEvent::Missed { events: self.missed }).is_ok() {
            self.missed = 0;
        }
        if self.missed > 0 || self.sender.try_send(event).is_err() {
            self.missed += 1;
        }
    }

    /// Tells what was missed, once there is room for it; waits for ever when nothing was.
    pub(super) async fn tell_missed(&mut self) {
        let room = match self.missed {
            0 => std::future::pending().await,
            _ => self.sender.reserve().await,
        };
        if let Ok(room) = room {
            room.send(NetworkEvent::Missed { events: self.missed });
        }
        self.missed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(number: u32) -> NetworkEvent {
        NetworkEvent::Came { place: number.to_string() }
    }

    fn told(heard: &mut mpsc::Receiver<NetworkEvent>) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(event) = heard.try_recv() {
            all.push(match event {
                NetworkEvent::Came { place } => place,
                NetworkEvent::Missed { events } => format!("missed {events}"),
                other => format!("{other:?}"),
            });
        }
        all
    }

    #[tokio::test]
    async fn who_does_not_listen_misses_events_and_is_told_how_many() {
        let (mut events, mut heard) = Events::bounded(2);
        (0..5).for_each(|number| events.tell(came(number)));
        assert_eq!(told(&mut heard), ["0", "1"]);
        events.tell(came(5));
        assert_eq!(told(&mut heard), ["missed 3", "5"]);
        (6..9).for_each(|number| events.tell(came(number)));
        assert_eq!(told(&mut heard), ["6", "7"]);
        events.tell_missed().await;
        assert_eq!(told(&mut heard), ["missed 1"], "also when nothing else happens");
        (9..12).for_each(|number| events.tell(came(number)));
        drop(heard);
        events.tell_missed().await;
        assert_eq!(events.missed, 0, "nobody is left to tell");
    }
}
