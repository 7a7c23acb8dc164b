//! Loading and dropping partitions while the node runs.
//!
//! Core says which partitions to load and to drop. Each load has a thread of its own, because it reads files or an object
//! store; core bounds their number. A large partition is also dropped on a thread of its own: to free gigabytes takes longer
//! than a loop may stand still.

use super::Loop;
use super::asks::PlacementAnswer;
use crate::service::{LoadPartition, PartitionData};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;
use treefold_core::id::{PartitionId, RequestId};
use treefold_core::input::{Command, Input};

impl Loop {
    /// Starts to load a partition. Core hears of the end.
    pub(super) fn load_partition(self: &Rc<Self>, service: Arc<str>, partition: PartitionId) {
        let Some(loader) = self.registry.loader(&service) else {
            let result = Err("the service has no loader".into());
            return self.feed(Input::Loaded { service, partition, result });
        };
        let (loaded, result) = oneshot::channel();
        let load = move || {
            // If the loop has ended, nobody needs the data.
            let _ = loaded.send(load(&*loader, partition));
        };
        let started = std::thread::Builder::new().name(format!("tf-load-{partition}")).spawn(load);
        let this = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let result = match started {
                Ok(_) => result.await.unwrap_or_else(|_| Err("the thread that loads it has ended".into())),
                Err(error) => Err(format!("can't start a thread: {error}")),
            };
            this.loaded(service, partition, result);
        });
    }

    fn loaded(
        self: &Rc<Self>,
        service: Arc<str>,
        partition: PartitionId,
        result: Result<PartitionData, String>,
    ) {
        let node = self.identity.node;
        let result = match result {
            Ok(data) => {
                tracing::info!(%node, %service, partition, "a partition is loaded");
                self.registry.insert(&service, partition, data);
                Ok(())
            }
            Err(reason) => {
                tracing::warn!(%node, %service, partition, %reason, "a partition can't be loaded; trying again later");
                let bytes_max = self.identity.limits.message_bytes_max;
                Err(reason[..reason.floor_char_boundary(bytes_max)].into())
            }
        };
        self.feed(Input::Loaded { service, partition, result });
    }

    /// The user adds a partition's data, or drops a partition. The data is taken only if core agrees.
    pub(super) fn hold(
        self: &Rc<Self>,
        (request, service, partition): (RequestId, Arc<str>, PartitionId),
        data: Option<PartitionData>,
        answer: oneshot::Sender<PlacementAnswer>,
    ) {
        let (told, mut says) = oneshot::channel();
        self.answers.borrow_mut().await_placement(request, told);
        let holds = data.is_some();
        let hold = Command::Hold { request, service: Arc::clone(&service), partition, holds };
        self.feed(Input::Command(hold));
        // Core answers at once. If the loop ends instead, the user learns it from the dropped channel.
        let Ok(result) = says.try_recv() else { return };
        if let (Ok(_), Some(data)) = (&result, data) {
            // No job has asked for the partition yet: a call that does comes with a later input.
            self.registry.insert(&service, partition, data);
        }
        let _ = answer.send(result);
    }
}

fn load(loader: &dyn LoadPartition, partition: PartitionId) -> Result<PartitionData, String> {
    // The loader's state is its author's matter, and the data of a failed load is dropped.
    catch_unwind(AssertUnwindSafe(|| loader.load(partition))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(format!("the loader has panicked: {text}"))
    })
}
