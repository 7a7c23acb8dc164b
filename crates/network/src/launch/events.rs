//! Events for a network's user.
//!
//! A front-end continues even if its user does not read events, so their number is bounded. A user that falls
//! behind misses events and receives their number when there is room again.

use super::NetworkEvent;
use tokio::sync::mpsc;

/// The most events that wait for [`Network::event`](super::Network::event).
pub const EVENTS_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Events {
    sender: mpsc::Sender<NetworkEvent>,
    missed: u64,
}

impl Events {
    /// Creates both ends of a channel for at most `events_max` events.
    pub(super) fn bounded(events_max: usize) -> (Self, mpsc::Receiver<NetworkEvent>) {
        let (sender, receiver) = mpsc::channel(events_max);
        (Self { sender, missed: 0 }, receiver)
    }

    /// Sends an event, or counts it as missed. If the user has dropped the receiver, the count has no effect.
    pub(super) fn tell(&mut self, event: NetworkEvent) {
        if self.missed > 0 && self.sender.try_send(NetworkEvent::Missed { events: self.missed }).is_ok() {
            self.missed = 0;
        }
        if self.missed > 0 || self.sender.try_send(event).is_err() {
            self.missed += 1;
        }
    }

    /// Sends the number of missed events once there is room. Waits forever if no event was missed.
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
    async fn missed_events_are_counted_and_reported() {
        let (mut events, mut heard) = Events::bounded(2);
        (0..5).for_each(|number| events.tell(came(number)));
        assert_eq!(told(&mut heard), ["0", "1"]);
        events.tell(came(5));
        assert_eq!(told(&mut heard), ["missed 3", "5"]);
        (6..9).for_each(|number| events.tell(came(number)));
        assert_eq!(told(&mut heard), ["6", "7"]);
        events.tell_missed().await;
        assert_eq!(told(&mut heard), ["missed 1"], "the count is sent even without further events");
        (9..12).for_each(|number| events.tell(came(number)));
        drop(heard);
        events.tell_missed().await;
        assert_eq!(events.missed, 0, "the receiver is gone");
    }
}
