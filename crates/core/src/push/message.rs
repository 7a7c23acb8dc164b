//! Messages between an application's worker and the node to which it is attached.

use alloc::sync::Arc;

/// A message about pushed work. Each connection belongs to one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PushMessage<P> {
    /// Worker to node: the worker introduces itself and asks to attach.
    Attach {
        /// The application: a service that the node accepts pushes for.
        application: Arc<str>,
        /// The worker's number, from 0: its partition.
        worker: u32,
    },
    /// Node to worker: the worker is attached, with a window of bytes that need not be folded yet; or it is
    /// refused, or no longer attached, with the reason.
    Attached {
        /// The window in bytes, or the problem.
        result: Result<u64, Arc<str>>,
    },
    /// Worker to node: a piece of the worker's result.
    Push {
        /// The application's number of the request.
        request: u64,
        /// Sequence number among the worker's pushes for that request, from 1.
        sequence: u32,
        /// True for the worker's last push.
        last: bool,
        /// The payload; of no bytes if there is nothing to add.
        payload: P,
    },
    /// Worker to node: the worker's result will not come.
    Failed {
        /// The application's number of the request.
        request: u64,
        /// The reason.
        problem: Arc<str>,
    },
    /// Node to worker: the request is open here.
    Wanted {
        /// The application's number of the request.
        request: u64,
        /// The last push that the node has.
        after: u32,
        /// True if the pushes after it must be sent again, if they have been sent.
        again: bool,
    },
    /// Node to worker: these pushes have been folded, and their bytes are free.
    Taken {
        /// The application's number of the request.
        request: u64,
        /// The last push that has been folded.
        upto: u32,
    },
    /// Node to worker: the node will ask for nothing more of this request.
    Ended {
        /// The application's number of the request.
        request: u64,
    },
}
