//! The waves of open calls, and how many of them one client may have.
//!
//! A front has room for `calls_open_max` waves. A client may have as many of them as are free for others. A single client
//! can thus take half of the room, two clients a third each, and *n* clients a part of *n* + 1 each, so a new client always
//! finds room, and when room is scarce, the clients with the most calls are refused first. These are the dynamic thresholds
//! of shared-memory switches (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998), with a factor of 1.
//!
//! The node's own user may take all that is free.

use super::caller::Requester;
use crate::error::CallError;
use crate::id::NodeId;
use alloc::collections::BTreeMap;

/// The number of waves of open calls: one for each call, or one for each slice of a sliced call.
#[derive(Debug, Default)]
pub(crate) struct OpenWaves {
    all: usize,
    of_client: BTreeMap<NodeId, usize>,
}

impl OpenWaves {
    /// The number of all waves.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// Checks that a call with so many slices fits.
    pub(crate) fn check(&self, requester: Requester, slices: u32, open_max: usize) -> Result<(), CallError> {
        let (slices, free) = (slices as usize, open_max.saturating_sub(self.all));
        if slices > free {
            return Err(CallError::TooManyCalls { limit: open_max });
        }
        let held = requester.peer().and_then(|peer| self.of_client.get(&peer));
        match held {
            Some(held) if held + slices > free => Err(CallError::TooManyCallsOfClient { limit: free }),
            _ => Ok(()),
        }
    }

    /// Counts the waves of a new call.
    pub(crate) fn begin(&mut self, requester: Requester, slices: u32) {
        self.all += slices as usize;
        if let Some(peer) = requester.peer() {
            *self.of_client.entry(peer).or_default() += slices as usize;
        }
    }

    /// Counts the waves of a call that has ended no longer.
    pub(crate) fn end(&mut self, requester: Requester, slices: u32) {
        self.all -= slices as usize;
        let Some(peer) = requester.peer() else { return };
        if let Some(held) = self.of_client.get_mut(&peer) {
            *held -= slices as usize;
            if *held == 0 {
                self.of_client.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RequestId;
    use core::net::SocketAddr;

    const MAX: usize = 120;

    fn client(generation: u64) -> Requester {
        Requester::Peer(NodeId::new(SocketAddr::from(([0, 0, 0, 0], 0)), generation), 1)
    }

    /// Starts calls until one is refused. Returns the number of calls started, and the refusal.
    fn fill(waves: &mut OpenWaves, requester: Requester) -> (usize, CallError) {
        let mut started = 0;
        loop {
            match waves.check(requester, 1, MAX) {
                Ok(()) => waves.begin(requester, 1),
                Err(refused) => return (started, refused),
            }
            started += 1;
        }
    }

    #[test]
    fn a_client_leaves_as_much_as_it_takes() {
        let mut waves = OpenWaves::default();
        assert_eq!(fill(&mut waves, client(1)), (60, CallError::TooManyCallsOfClient { limit: 60 }));
        assert_eq!(fill(&mut waves, client(2)).0, 30);
        assert_eq!(fill(&mut waves, client(3)).0, 15);
        // The first client gives up what it holds, and the others get more. It is then the one that gets the most.
        for _ in 0..60 {
            waves.end(client(1), 1);
        }
        assert_eq!(fill(&mut waves, client(2)).0, 23);
        assert_eq!(fill(&mut waves, client(3)).0, 19);
    }

    #[test]
    fn the_own_user_may_take_all_that_is_free() {
        let mut waves = OpenWaves::default();
        assert_eq!(fill(&mut waves, client(1)).0, 60);
        let own = Requester::Local(RequestId(1));
        assert_eq!(fill(&mut waves, own), (60, CallError::TooManyCalls { limit: MAX }));
        assert_eq!(waves.all(), MAX);
    }

    #[test]
    fn a_sliced_call_counts_once_for_each_slice() {
        let mut waves = OpenWaves::default();
        waves.begin(client(1), 40);
        assert_eq!(waves.check(client(1), 40, MAX), Ok(()));
        assert_eq!(waves.check(client(1), 41, MAX), Err(CallError::TooManyCallsOfClient { limit: 80 }));
        waves.end(client(1), 40);
        assert_eq!((waves.all(), waves.of_client.len()), (0, 0));
    }
}
