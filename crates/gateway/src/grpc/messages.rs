//! Answers and views as messages.

use super::generated as pb;
use crate::streams::Event;
use treefold::{EachSlice, Raw, Status};
use treefold_forms::json::{
    Account, Coverage, Hosted, Lost, Member, NodesView, Refused, ServicesView, Slow, StatusView, Stream,
    Total, TreeNode, one_each,
};
use treefold_forms::stream::coverage;
use treefold_forms::value::to_json;

impl From<Status> for pb::Verdict {
    fn from(status: Status) -> Self {
        match status {
            Status::Full => Self::Full,
            Status::Partial => Self::Partial,
            _ => Self::Unspecified,
        }
    }
}

impl From<Account> for pb::Account {
    fn from(account: Account) -> Self {
        let Account { coverage, total_is_guess, missing, elapsed_us, tree } = account;
        Self {
            coverage: Some(coverage.into()),
            total_is_guess,
            missing: all(missing),
            elapsed_us,
            tree: tree.map(Into::into),
        }
    }
}

impl From<Coverage> for pb::Coverage {
    fn from(Coverage { asked, contributed }: Coverage) -> Self {
        Self { asked: asked as u64, contributed: contributed as u64 }
    }
}

impl From<Lost> for pb::Missing {
    fn from(lost: Lost) -> Self {
        let Lost { partition, node, reason, detail } = lost;
        Self { partition, node, reason: reason.to_owned(), detail }
    }
}

impl From<TreeNode> for pb::TreeNode {
    fn from(tree: TreeNode) -> Self {
        let TreeNode {
            node,
            rack,
            partitions,
            queue_us,
            local_us,
            reduce_us,
            wait_us,
            total_us,
            replaced,
            children,
        } = tree;
        let children = all(children);
        Self { node, rack, partitions, queue_us, local_us, reduce_us, wait_us, total_us, children, replaced }
    }
}

impl From<StatusView> for pb::StatusReply {
    fn from(view: StatusView) -> Self {
        let StatusView { node, members, totals, counters, open, unreached_by_udp, streams, slow } = view;
        Self {
            node: Some(node.into()),
            members: all(members),
            totals: by_name(totals),
            counters: counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            open: open_work(&open),
            unreached_by_udp,
            streams: all(streams),
            slow: all(slow),
        }
    }
}

impl From<Slow> for pb::SlowNode {
    fn from(slow: Slow) -> Self {
        let Slow { addr, aggregation, time_us, usual_us, lasts_ms } = slow;
        Self { addr, aggregation, time_us, usual_us, lasts_ms }
    }
}

impl From<Stream> for pb::StreamState {
    fn from(stream: Stream) -> Self {
        let Stream { service, up_filter, is_front, children, endpoints, away, held_bytes, traffic } = stream;
        let traffic = traffic.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect();
        Self { service, up_filter, is_front, children, endpoints, away, held_bytes, traffic }
    }
}

/// The sizes of tables under the names that they have in JSON.
fn open_work(open: &treefold_core::status::OpenWork) -> std::collections::HashMap<String, u64> {
    let named = serde_json::to_value(open).expect("invariant: numbers can be written");
    let sizes = named.as_object().into_iter().flatten();
    sizes.filter_map(|(name, size)| Some((name.clone(), size.as_u64()?))).collect()
}

impl From<ServicesView> for pb::ServicesReply {
    fn from(ServicesView { services }: ServicesView) -> Self {
        Self { services: by_name(services) }
    }
}

impl From<NodesView> for pb::NodesReply {
    fn from(NodesView { nodes }: NodesView) -> Self {
        Self { nodes: all(nodes) }
    }
}

impl From<Member> for pb::Member {
    fn from(member: Member) -> Self {
        let Member { addr, rack, zone, roles, processors, load_ms, in_flight, .. } = member;
        Self {
            addr,
            rack,
            zone,
            roles: roles.into_iter().map(str::to_owned).collect(),
            processors,
            load_ms,
            in_flight,
            latency_us: member.latency_us,
            load_age_ms: member.load_age_ms,
            services: by_name(member.services),
        }
    }
}

impl From<Hosted> for pb::Hosted {
    fn from(Hosted { partitions, total, declared }: Hosted) -> Self {
        Self { partitions, total, declared }
    }
}

impl From<Total> for pb::Total {
    fn from(Total { total, declared, refused }: Total) -> Self {
        Self { total, declared, refused: all(refused) }
    }
}

impl From<Refused> for pb::Refused {
    fn from(Refused { node, total, declared }: Refused) -> Self {
        Self { node, total, declared }
    }
}

/// A slice of a result that is read slice by slice.
pub(super) fn slice(number: u32, Raw(bytes): Raw, form: pb::Form) -> pb::SliceEvent {
    use pb::slice::Value;
    let value = match form {
        pb::Form::Json => Value::Json(to_json(&bytes).to_string()),
        pb::Form::Unspecified => Value::Raw(bytes),
    };
    let slice = pb::Slice { number, value: Some(value) };
    pb::SliceEvent { event: Some(pb::slice_event::Event::Slice(slice)) }
}

/// The outcome of all slices.
pub(super) fn outcome(each: &EachSlice<Raw>) -> pb::SliceEvent {
    let reply = each.so_far();
    let outcome = pb::Outcome {
        verdict: pb::Verdict::from(reply.status.clone()).into(),
        slices_asked: each.asked(),
        slices_taken: each.taken(),
        account: Some(Account::of(reply).into()),
    };
    pb::SliceEvent { event: Some(pb::slice_event::Event::Outcome(outcome)) }
}

/// News of a stream; `None` for a sign of life, which HTTP/2 has of its own.
pub(super) fn event(event: Event) -> Option<pb::StreamEvent> {
    use pb::stream_event::Event as Sent;
    let event = match event {
        Event::Opened { stream, endpoints, away } => {
            let (endpoints, missing) = (endpoints.to_string(), all(one_each(&away)));
            Sent::Opened(pb::Opened { stream, endpoints, missing })
        }
        Event::Wave { wave, is_late } => Sent::Wave(pb::Wave {
            tag: wave.tag,
            is_late,
            coverage: Some(coverage(&wave).into()),
            missing: all(one_each(&wave.missing)),
            contributors: wave.contributors.to_string(),
            packets: wave.packets,
        }),
        Event::Changed { endpoints, away } => {
            let (endpoints, missing) = (endpoints.to_string(), all(one_each(&away)));
            Sent::Changed(pb::Changed { endpoints, missing })
        }
        Event::Dropped { waves } => Sent::Dropped(pb::Dropped { waves }),
        Event::Alive => return None,
    };
    Some(pb::StreamEvent { event: Some(event) })
}

fn all<T, U: From<T>>(items: Vec<T>) -> Vec<U> {
    items.into_iter().map(Into::into).collect()
}

fn by_name<T, U: From<T>>(
    items: impl IntoIterator<Item = (String, T)>,
) -> std::collections::HashMap<String, U> {
    items.into_iter().map(|(name, item)| (name, item.into())).collect()
}
