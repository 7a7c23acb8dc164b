//! The methods.

use super::admission::Admitted;
use super::bounded::Room;
use super::generated as pb;
use super::generated::treefold_server::Treefold;
use super::{deadline, messages};
use crate::answer::headers_of;
use crate::call::{Made, check_service, make};
use crate::each_slice::{Part, Reading};
use crate::limits::Limits;
use crate::parameters::{self, PARAMS_FOR};
use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::streams::{Reader, StreamWishes};
use crate::tenants::OpenCall;
use crate::wishes::Wishes;
use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt, unfold};
use pb::call_reply::Value;
use pb::call_request::Params;
use pb::call_request::ReduceParams;
use pb::params_for::Params as Own;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};
use treefold::{NodeStatus, Raw, Reply};
use treefold_forms::json::{Account, NodesView, ServicesView, StatusView};
use treefold_forms::value::{message_pack_of_json, to_json};
use treefold_traces::Parent;

#[derive(Debug)]
pub(super) struct Calls(Arc<Site>);

type Answered<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Treefold for Calls {
    async fn call(&self, request: Request<pb::CallRequest>) -> Answered<pb::CallReply> {
        Ok(self.make(request).await?)
    }

    type CallEachStream = BoxStream<'static, Result<pb::SliceEvent, Status>>;

    async fn call_each(&self, request: Request<pb::CallRequest>) -> Answered<Self::CallEachStream> {
        Ok(Response::new(self.make_each(request).await?.boxed()))
    }

    async fn status(&self, request: Request<pb::StatusRequest>) -> Answered<pb::StatusReply> {
        Ok(Response::new(StatusView::of(&self.read(&request).await?).into()))
    }

    async fn services(&self, request: Request<pb::ServicesRequest>) -> Answered<pb::ServicesReply> {
        Ok(Response::new(ServicesView::of(&self.read(&request).await?).into()))
    }

    async fn nodes(&self, request: Request<pb::NodesRequest>) -> Answered<pb::NodesReply> {
        Ok(Response::new(NodesView::of(&self.read(&request).await?).into()))
    }

    type OpenStreamStream = BoxStream<'static, Result<pb::StreamEvent, Status>>;

    async fn open_stream(&self, request: Request<pb::OpenStreamRequest>) -> Answered<Self::OpenStreamStream> {
        let Admitted { tenant, until, .. } = admitted(&request)?;
        let pb::OpenStreamRequest { service, .. } = request.get_ref();
        let service = service.clone();
        let wishes = stream_wishes(request.into_inner())?;
        let reader = Reader::open(&self.0, &tenant, service, wishes).await?;
        Ok(Response::new(unfold(Some((reader, until)), next_event).boxed()))
    }
}

/// A call that was admitted and read.
struct Asked {
    service: String,
    aggregation: String,
    params: parameters::Params,
    wishes: Wishes,
    form: pb::Form,
    parent: Option<Parent>,
    open: OpenCall,
    /// The permits for the bytes of its message, until the call is over.
    room: Room,
}

impl Calls {
    pub(super) fn new(site: Arc<Site>) -> Self {
        Self(site)
    }

    async fn make(&self, request: Request<pb::CallRequest>) -> Result<Response<pb::CallReply>, Problem> {
        let Asked { service, aggregation, params, wishes, form, parent, open: _open, room: _room } =
            self.asked(request)?;
        let named = (service.as_str(), aggregation.as_str());
        let Made { reply, headers } = make(&self.0, named, params, &wishes, parent).await?;
        let headers = headers_of(&reply).into_iter().chain(headers);
        let metadata = MetadataMap::from_headers(HeaderMap::from_iter(headers));
        let mut response = Response::new(answer(reply, form));
        *response.metadata_mut() = metadata;
        Ok(response)
    }

    async fn make_each(
        &self,
        request: Request<pb::CallRequest>,
    ) -> Result<impl Stream<Item = Result<pb::SliceEvent, Status>> + use<>, Problem> {
        let Asked { service, aggregation, params, wishes, form, open, room, .. } = self.asked(request)?;
        let named = (service.as_str(), aggregation.as_str());
        let reading = Reading::begin(Arc::clone(&self.0), open, named, params, &wishes).await?;
        Ok(unfold((reading, room), move |(mut reading, room)| async move {
            let event = match reading.next().await? {
                Ok(Part::Slice(number, value)) => Ok(messages::slice(number, value, form)),
                Ok(Part::Outcome) => Ok(messages::outcome(reading.each())),
                Err(problem) => Err(problem.into()),
            };
            Some((event, (reading, room)))
        }))
    }

    fn asked(&self, request: Request<pb::CallRequest>) -> Result<Asked, Problem> {
        let Admitted { tenant, until, parent, room } = admitted(&request)?;
        let (_metadata, _extensions, message) = request.into_parts();
        let form = message.form();
        let pb::CallRequest { service, aggregation, params, options, params_for, reduce_params, .. } =
            message;
        check_service(&service)?;
        tenant.may_call(&service)?;
        let latest = until.map(deadline::latest);
        let wishes = wishes(options.unwrap_or_default(), latest, self.0.limits.deadline_max)?;
        let open = tenant.open_call()?;
        let common = match params {
            None => Bytes::new(),
            Some(Params::Raw(bytes)) => bytes,
            Some(Params::Json(text)) => json("json", &text)?,
        };
        let reduce = match reduce_params {
            None => None,
            Some(ReduceParams::ReduceRaw(bytes)) => Some(bytes),
            Some(ReduceParams::ReduceJson(text)) => Some(json("reduce_json", &text)?),
        };
        let mut params = with_own(common.into(), params_for, &self.0.limits)?;
        params.reduce = reduce;
        room.reserve_more(&self.0, params.own_bytes())?;
        Ok(Asked { service, aggregation, params, wishes, form, parent, open, room })
    }

    async fn read<T>(&self, request: &Request<T>) -> Result<NodeStatus, Problem> {
        admitted(request)?.tenant.may_read()?;
        Ok(self.0.client.status().await?)
    }
}

fn admitted<T>(request: &Request<T>) -> Result<Admitted, Problem> {
    let admitted = request.extensions().get::<Admitted>().cloned();
    admitted.ok_or_else(|| Problem::new(Kind::Internal, "the request was not admitted"))
}

fn answer(reply: Reply<Raw>, form: pb::Form) -> pb::CallReply {
    let account = Some(Account::of(&reply).into());
    let verdict = pb::Verdict::from(reply.status).into();
    let value = reply.value.map(|Raw(bytes)| match form {
        pb::Form::Json => Value::Json(to_json(&bytes).to_string()),
        pb::Form::Unspecified => Value::Raw(bytes),
    });
    pb::CallReply { verdict, value, account }
}

/// The options of a call as texts, which are read as those over HTTP. `latest` bounds the deadline.
fn wishes(
    options: pb::CallOptions,
    latest: Option<Duration>,
    deadline_max: Duration,
) -> Result<Wishes, Problem> {
    if latest.is_some_and(|latest| latest.is_zero()) {
        return Err(out_of_time());
    }
    let latest = latest.map(|latest| latest.min(deadline_max));
    let asked = options.deadline_ms.map(Duration::from_millis);
    let deadline = match (asked, latest) {
        // A deadline above the limit is refused with the others.
        (Some(asked), Some(latest)) if asked <= deadline_max => Some(asked.min(latest)),
        (asked, latest) => asked.or(latest),
    };
    let texts = [
        ("deadline", deadline.map(|deadline| format!("{}us", deadline.as_micros()))),
        ("min_coverage", options.min_coverage.map(|share| share.to_string())),
        ("shape", options.shape),
        ("policy", options.policy),
        ("waiting", options.waiting),
        ("hedge", options.hedge.map(|hedge| hedge.to_string())),
        ("slices", options.slices.map(|slices| slices.to_string())),
        ("partitions", options.partitions),
        ("explain", options.explain.map(|explain| explain.to_string())),
        ("window", options.window.map(|window| window.to_string())),
    ];
    let given = texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?)));
    Wishes::of(given.collect(), &HeaderMap::new())
}

/// The settings of a stream. Empty texts are absent ones.
fn stream_wishes(request: pb::OpenStreamRequest) -> Result<StreamWishes, Problem> {
    let texts = [
        ("filter", request.filter),
        ("down_filter", request.down_filter),
        ("filter_params", request.filter_params_json),
        ("params", request.params_json),
        ("sync", request.sync),
        ("endpoints", request.endpoints),
        ("shape", request.shape),
        ("window", request.window.map(|bytes| bytes.to_string()).unwrap_or_default()),
        ("every", request.every_ms.map(|every| format!("{every}ms")).unwrap_or_default()),
        ("slow", request.slow),
    ];
    let given = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let mut wishes = StreamWishes::of(given.map(|(name, text)| (name.to_owned(), text)).collect())?;
    for (field, raw, place) in [
        ("filter_params", request.filter_params, &mut wishes.filter_params),
        ("params", request.params, &mut wishes.params),
    ] {
        if !raw.is_empty() && !place.is_empty() {
            let detail = format!("{field} and {field}_json are given; allowed: one of them");
            return Err(Problem::new(Kind::BadField, detail).about(field));
        }
        if !raw.is_empty() {
            *place = raw;
        }
    }
    wishes.send = request.send;
    Ok(wishes)
}

fn json(field: &str, text: &str) -> Result<Bytes, Problem> {
    let refuse = |problem: String| {
        Problem::new(Kind::BadBody, format!("the parameters are not JSON: {problem}")).about(field)
    };
    message_pack_of_json(text.as_bytes()).map_err(refuse)
}

/// Adds the parameters of single partitions.
fn with_own(
    mut params: parameters::Params,
    params_for: Vec<pb::ParamsFor>,
    limits: &Limits,
) -> Result<parameters::Params, Problem> {
    for (at, pb::ParamsFor { partitions, params: own }) in params_for.into_iter().enumerate() {
        let own = match own {
            None => Bytes::new(),
            Some(Own::Raw(bytes)) => bytes,
            Some(Own::Json(text)) => json(&format!("{PARAMS_FOR}[{at}].json"), &text)?,
        };
        params.add(at, &partitions, &own, limits)?;
    }
    Ok(params)
}

type Followed = Option<(Reader, Option<Instant>)>;

/// The next news of a stream. An error is its end.
async fn next_event(followed: Followed) -> Option<(Result<pb::StreamEvent, Status>, Followed)> {
    let (mut reader, until) = followed?;
    loop {
        let event = tokio::select! {
            event = reader.next() => event,
            () = passed(until) => Err(out_of_time()),
        };
        match event.map(messages::event) {
            Ok(Some(event)) => return Some((Ok(event), Some((reader, until)))),
            Ok(None) => {}
            Err(problem) => return Some((Err(problem.into()), None)),
        }
    }
}

async fn passed(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

fn out_of_time() -> Problem {
    Problem::new(Kind::Silent, "the deadline of the RPC has passed").about("grpc-timeout")
}
