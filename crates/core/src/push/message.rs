//! What an application's worker and the node that it is attached to say to each other.

use alloc::sync::Arc;

/// A message about pushed work. A connection is one worker's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PushMessage<P> {
    /// Worker to node: I am this worker of this application.
    Attach {
        /// The application: a service that the node accepts pushes for.
        application: Arc<str>,
        /// The worker's number, from 0: its partition.
        worker: u32,
    },
    /// Node to worker: you are attached, and may have so many bytes here that are not folded; or why you are not, or
    /// no longer.
    Attached {
        /// The window in bytes, or the problem.
        result: Result<u64, Arc<str>>,
    },
    /// Worker to node: a piece of my result.
    Push {
        /// The application's number of the request.
        request: u64,
        /// Which of the worker's pushes for that request, from 1.
        sequence: u32,
        /// True when it is the last.
        last: bool,
        /// What is pushed; of no bytes when there is nothing to add.
        payload: P,
    },
    /// Worker to node: my result will not come.
    Failed {
        /// The application's number of the request.
        request: u64,
        /// Why.
        problem: Arc<str>,
    },
    /// Node to worker: the request is open here.
    Wanted {
        /// The application's number of the request.
        request: u64,
        /// The last push that the node has.
        after: u32,
        /// True when those after it are to be sent again, if they have been sent.
        again: bool,
    },
    /// Node to worker: these have been folded, and their bytes are free.
    Taken {
        /// The application's number of the request.
        request: u64,
        /// The last push that has been folded.
        upto: u32,
    },
    /// Node to worker: nothing of this request will be asked for any more.
    Ended {
        /// The application's number of the request.
        request: u64,
    },
}
