//! Calls and streams over gRPC.

use super::bed::Bed;
use super::channel::{Channel, pb, problem};
use super::streams::{EVERY, Mode, Sender, Wave, counted, set};
use super::ways::{self, Answer, DEADLINE, Use, of_those_asked};
use pb::call_reply::Value;
use pb::slice::Value as Slice;
use pb::slice_event::Event as Part;
use pb::stream_event::Event;
use tonic::Request;

async fn channel(gateway: &str) -> Channel {
    Channel::to(gateway.parse().expect("an address")).await
}

fn lost(missing: Vec<pb::Missing>) -> Vec<(u32, String)> {
    missing.into_iter().map(|lost| (lost.partition, lost.reason)).collect()
}

pub(crate) async fn call(bed: &Bed, asked: Use) -> Answer {
    let mut channel = channel(&bed.gateway).await;
    let options = pb::CallOptions {
        deadline_ms: Some(DEADLINE.as_millis() as u64),
        min_coverage: Some(0.0),
        slices: Some(asked.slices()),
        ..pb::CallOptions::default()
    };
    let (service, aggregation) = asked.kind();
    let request = pb::CallRequest {
        service: service.to_owned(),
        aggregation: aggregation.to_owned(),
        params: Some(pb::call_request::Params::Json(asked.params().to_owned())),
        options: Some(options),
        form: pb::Form::Json.into(),
        ..pb::CallRequest::default()
    };
    if asked != Use::Each {
        let reply = channel.ask::<_, pb::CallReply>("Call", Request::new(request)).await.expect("an answer");
        let pb::CallReply { value, account, .. } = reply.into_inner();
        let Some(Value::Json(text)) = value else { return account_of(String::new(), account) };
        return account_of(text_of(&text), account);
    }
    let mut slices = match channel.open::<_, pb::SliceEvent>("CallEach", request).await {
        Ok(slices) => slices,
        // Without any partition there is no first slice.
        Err(status) => return account_of(String::new(), problem(&status).account),
    };
    let mut value = String::new();
    loop {
        match slices.message().await.expect("a message").expect("an outcome at the end").event {
            Some(Part::Slice(pb::Slice { value: Some(Slice::Json(text)), .. })) => value += &text_of(&text),
            Some(Part::Outcome(outcome)) => return account_of(value, outcome.account),
            other => panic!("{other:?}"),
        }
    }
}

fn text_of(json: &str) -> String {
    ways::text_of(&serde_json::from_str(json).expect("JSON"))
}

fn account_of(value: String, account: Option<pb::Account>) -> Answer {
    let pb::Account { coverage, missing, .. } = account.expect("an account");
    let coverage = coverage.expect("a coverage");
    let answer = of_those_asked(coverage.asked as u32, value, lost(missing));
    assert_eq!(coverage.contributed as usize, answer.contributors.len());
    answer
}

/// Reads a stream until nobody takes its waves.
pub(crate) async fn stream(gateway: &str, mode: &Mode, waves: &Sender) {
    let mut channel = channel(gateway).await;
    let request = pb::OpenStreamRequest {
        service: "echo".to_owned(),
        filter: "count".to_owned(),
        sync: mode.sync(),
        send: Some("x".into()),
        every_ms: Some(EVERY.as_millis() as u64),
        ..pb::OpenStreamRequest::default()
    };
    let mut events = channel.open::<_, pb::StreamEvent>("OpenStream", request).await.expect("it opens");
    while let Ok(Some(event)) = events.message().await {
        let Some(Event::Wave(wave)) = event.event else { continue };
        let counted = counted(&wave.packets);
        if waves.send(Wave::new(set(&wave.contributors), lost(wave.missing), counted)).is_err() {
            return;
        }
    }
}
