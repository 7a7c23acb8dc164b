//! Sends a mirror's messages up a reader's stream. The stream's window is the flow control.

use super::{Form, Service};
use crate::ReaderParams;
use crate::mirror::Shared;
use std::sync::Arc;
use tokio::sync::watch;
use treefold::endpoint::EndpointStream;
use treefold_mirror::Cut;
use treefold_mirror::message::Message;

/// Serves a reader until its stream is over.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    changed: watch::Receiver<Cut>,
    mut stream: EndpointStream,
    params: ReaderParams,
) {
    let sender = stream.sender();
    let ReaderParams { filter, from } = params;
    let mut service = match Service::new(&shared, changed, Form::Packets, filter, from.into()) {
        Ok(service) => service,
        Err(refusal) => {
            let (tag, payload) = Message::Refused(refusal.clone()).write();
            // If the stream is over, the reader has gone.
            let _ = sender.send_tagged(tag, payload).await;
            return stream.leave(refusal.to_string());
        }
    };
    loop {
        let message = tokio::select! {
            biased;
            packet = stream.recv() => match packet {
                // Readers send nothing; a packet of a later version is ignored.
                Some(_) => continue,
                None => return,
            },
            message = service.next() => message,
        };
        let Some((tag, payload)) = message else {
            return stream.leave("the mirror has ended");
        };
        if sender.send_tagged(tag, payload).await.is_err() {
            return;
        }
    }
}
