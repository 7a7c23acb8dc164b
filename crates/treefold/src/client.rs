//! Clients: they make calls and open streams.
//!
//! A client reaches a cluster in one of three ways, with the same interface:
//!
//! - A client of a [`Node`](crate::Node) in the same process talks to that node's loop.
//! - A client in *front* mode ([`Client::connect`]) has a connection to one node, which makes its calls.
//!   This is cheap, and the right choice for most programs.
//! - A client in *direct* mode runs its own node. That node holds no data and is not a member, but it
//!   follows the membership, forms the client's trees itself and talks to their roots. This saves a hop for
//!   programs that call often.

mod front;

use crate::call::{CallBuilder, FRONT_PATIENCE};
use crate::driver::asks::Handle;
use crate::driver::thread::{Setup, Thread};
use crate::entropy;
use crate::error::{Error, StartError};
use crate::foreign::Foreign;
use crate::options::ClusterOptions;
use crate::service::{Registry, Service};
use crate::sockets;
use crate::stream::StreamBuilder;
use crate::transport::Identity;
use crate::verdict::judge;
use bytes::Bytes;
use front::Front;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::config::{NodeConfig, Tuning};
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;
use treefold_core::message::OperatorStatus;
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::placement::{PlacementAsk, PlacementReport};
use treefold_core::schedule::share::{ShareSetting, SharesReport};
use treefold_core::status::NodeStatus;
use treefold_operators::{Body, OperatorError, Raw, SeparateAggregation};

/// How long a direct client waits until it sees a first member before it gives up.
const VIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a status query waits for its answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a node may take to load an operator.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes calls. Clones share the connection, or the node.
///
/// ```no_run
/// use std::time::Duration;
/// use treefold::Client;
/// use treefold::operators::merge::Count;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder().at(["10.0.0.1:7700", "10.0.0.2:7700"]).cluster("prod").connect().await?;
/// let reply = client
///     .call::<Count>("logs/matching", &"error".to_string())
///     .deadline(Duration::from_millis(200))
///     .await?;
/// println!("{:?}", reply.value);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Front(Front),
    Loop { handle: Handle, addr: Option<SocketAddr>, _owned: Option<Arc<Thread>> },
}

/// The settings of a client; see [`Client::builder`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    addrs: Vec<String>,
    direct: bool,
    cluster: ClusterOptions,
    tuning: Tuning,
    services: Vec<Service>,
    foreign: Option<Arc<dyn Foreign>>,
}

impl ClientBuilder {
    /// The identity with which a client of this configuration greets its peers.
    pub(crate) fn identity(&self) -> Identity {
        Identity::new(client_id(), self.cluster.clone(), false)
    }

    /// Adds nodes to connect to, as [`NodeBuilder::join`](crate::NodeBuilder::join) takes them. In front mode they are tried in
    /// turn.
    pub fn at<A: ToString>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.addrs.extend(addrs.into_iter().map(|addr| addr.to_string()));
        self
    }

    /// Selects direct mode if true. The default is front mode.
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// The cluster: its name, or [`ClusterOptions`] with a token and this client's limits.
    pub fn cluster(mut self, cluster: impl Into<ClusterOptions>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Sets how a direct client behaves; ignored in front mode.
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Gives a direct client the aggregations of a service, so that it can fold partials itself
    /// ([`Shape::Base`](crate::Shape)). Partitions in `service` are ignored.
    pub fn service(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// Sets how a direct client loads operators from bytes, for streams with such filters; ignored in front
    /// mode.
    pub fn foreign(mut self, foreign: Arc<dyn Foreign>) -> Self {
        self.foreign = Some(foreign);
        self
    }

    /// Connects.
    ///
    /// In front mode, the connection exists when this returns; if it breaks, the next request makes a new
    /// one. In direct mode, at least one member is in sight when this returns.
    ///
    /// # Errors
    /// If no address answers, or the cluster is another one.
    pub async fn connect(self) -> Result<Client, Error> {
        sockets::check_cluster(&self.cluster.name)?;
        self.cluster.limits.check().map_err(StartError::Setting)?;
        self.tuning.check().map_err(StartError::Setting)?;
        if self.direct {
            return self.connect_direct().await;
        }
        Ok(Client { way: Way::Front(Front::connect(self.addrs, self.cluster).await?) })
    }

    async fn connect_direct(self) -> Result<Client, Error> {
        let (id, any) = (client_id(), SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let registry = Registry::new(self.services, &self.cluster.limits)?;
        let config = NodeConfig {
            card: MemberCard::new(id),
            kinds: registry.kinds(),
            tuning: self.tuning,
            limits: self.cluster.limits.clone(),
            shares: Default::default(),
            pushed: Default::default(),
            placed: Default::default(),
            seed: entropy::draw(),
        };
        let thread = Thread::start(Setup {
            config,
            identity: Identity::new(id, self.cluster, false),
            registry,
            foreign: self.foreign,
            modules: Vec::new(),
            listener: None,
            datagrams: sockets::datagrams_at(any).map_err(StartError::Loop)?,
            join: self.addrs,
            may_join: None,
            workers_max: 1,
            thread_name: "tf-client".to_string(),
            record: None,
        })?;
        let mut members = thread.handle.members.clone();
        let in_sight = members.wait_for(|members| !members.is_empty());
        if !matches!(tokio::time::timeout(VIEW_TIMEOUT, in_sight).await, Ok(Ok(_))) {
            return Err(Error::NoMembers { waited: VIEW_TIMEOUT });
        }
        let handle = thread.handle.clone();
        Ok(Client { way: Way::Loop { handle, addr: None, _owned: Some(Arc::new(thread)) } })
    }
}

/// The id of a client. A client does not listen anywhere, so only the generation tells it from others.
pub(crate) fn client_id() -> NodeId {
    NodeId::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), entropy::draw())
}

impl Client {
    /// Connects to the node at `addr`, in front mode.
    ///
    /// # Errors
    /// If the node does not answer, or is of another cluster.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub async fn connect(addr: impl ToString) -> Result<Self, Error> {
        Self::builder().at([addr.to_string()]).connect().await
    }

    /// Configures a client; [`ClientBuilder::connect`] then connects it.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            addrs: Vec::new(),
            direct: false,
            cluster: ClusterOptions::default(),
            tuning: Tuning::default(),
            services: Vec::new(),
            foreign: None,
        }
    }

    pub(crate) fn of_loop(handle: Handle, addr: Option<SocketAddr>) -> Self {
        Self { way: Way::Loop { handle, addr, _owned: None } }
    }

    /// Starts building a call of `service/aggregation` whose answer is a `T`.
    ///
    /// ```no_run
    /// # async fn example(client: treefold::Client) -> Result<(), treefold::Error> {
    /// use std::time::Duration;
    /// use treefold::operators::merge::Count;
    ///
    /// let reply = client
    ///     .call::<Count>("logs/matching", &"error".to_string())
    ///     .deadline(Duration::from_millis(200))
    ///     .min_coverage(0.95)
    ///     .await?;
    /// println!("{:?} from {:.0} % of the partitions", reply.value, 100.0 * reply.coverage());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<T: Body>(&self, kind: &str, params: &impl Body) -> CallBuilder<'static, T> {
        CallBuilder::new(self.clone(), kind, params.encode())
    }

    /// Starts building a call whose parameters and answer are plain bytes.
    pub fn call_raw(&self, kind: &str, params: Bytes) -> CallBuilder<'static, Raw> {
        CallBuilder::new(self.clone(), kind, Ok(params))
    }

    /// Announces a request of an application whose workers push ([`crate::push`]).
    ///
    /// The result is a call of `application/aggregation` whose local partials are the pieces that these
    /// workers push for `request`. The number must not be used for another request. The client's front must
    /// serve the application.
    ///
    /// The aggregation is one of the application's, or the [name](crate::foreign::filter_name) of a reduce that was
    /// [pushed](Self::operator_push) to the front.
    pub fn announce(
        &self,
        kind: &str,
        params: impl Into<Bytes>,
        request: u64,
        workers: PartitionSet,
    ) -> CallBuilder<'static, Raw> {
        self.call_raw(kind, params.into()).announced(request, workers)
    }

    /// Starts building a call of an aggregation that this program knows too: its `finish` is applied to the
    /// answer.
    pub fn aggregate<'a, A: SeparateAggregation>(
        &self,
        kind: &str,
        aggregation: &'a A,
        params: &A::Params,
    ) -> CallBuilder<'a, A::Partial> {
        CallBuilder::new(self.clone(), kind, params.encode()).finish_with(move |partial, params| {
            let params = A::ReduceParams::decode(params).map_err(OperatorError::invalid_params)?;
            aggregation.finish(partial, &params)
        })
    }

    /// Starts building a stream to the endpoints of a service, with this client as the front-end.
    ///
    /// Only a client that runs a node loop can open it: a client of a [`Node`](crate::Node), or one in
    /// direct mode.
    pub fn stream(&self, service: &str) -> StreamBuilder {
        let handle = match &self.way {
            Way::Front(_) => None,
            Way::Loop { handle, .. } => Some(handle.clone()),
        };
        StreamBuilder::new(handle, service)
    }

    /// The front's view of itself and of its cluster; in direct mode, the client's own view.
    ///
    /// # Errors
    /// If the connection breaks and cannot be made again, or no answer comes in time.
    pub async fn status(&self) -> Result<NodeStatus, Error> {
        answered_within(STATUS_TIMEOUT, async {
            match &self.way {
                Way::Front(front) => front.status().await,
                Way::Loop { handle, .. } => handle.status().await,
            }
        })
        .await
    }

    /// Sends an operator to the node that this client talks to, in direct mode to the client itself.
    ///
    /// When this returns, streams can use the operator there by its name
    /// ([`filter_name`](crate::foreign::filter_name)). The other nodes of a stream fetch it when they need
    /// it.
    ///
    /// # Errors
    /// If the bytes are not an operator, or the node has no room for it or accepts no operators.
    pub async fn operator_push(&self, bytes: impl Into<Bytes>) -> Result<OperatorStatus, Error> {
        let mut kept = self.ask_operators(Some(bytes.into())).await?;
        kept.pop()
            .ok_or_else(|| Error::Operator { problem: "the node does not confirm that it has it".into() })
    }

    /// Lists the operators that the node has been sent.
    ///
    /// # Errors
    /// If the connection breaks and cannot be made again, or no answer comes in time.
    pub async fn operators(&self) -> Result<Vec<OperatorStatus>, Error> {
        self.ask_operators(None).await
    }

    async fn ask_operators(&self, payload: Option<Bytes>) -> Result<Vec<OperatorStatus>, Error> {
        answered_within(OPERATOR_TIMEOUT, async {
            let answer = match &self.way {
                Way::Front(front) => front.operators(payload).await?,
                Way::Loop { handle, .. } => handle.operators(payload).await?,
            };
            answer.map_err(|problem| Error::Operator { problem })
        })
        .await
    }

    /// Each application's configured share of the node that this client talks to, and its use so far.
    ///
    /// In direct mode, that node is the client itself.
    ///
    /// # Errors
    /// If the connection breaks and cannot be made again, or no answer comes in time.
    pub async fn shares(&self) -> Result<SharesReport, Error> {
        self.ask_shares(Vec::new()).await
    }

    /// Sets shares at the node that this client talks to, from the next job on, until they are set again or
    /// the node ends.
    ///
    /// Either all of them are set, or none.
    ///
    /// # Errors
    /// If one of the shares is invalid; then none has changed. If no answer comes, it is unknown whether
    /// they changed.
    pub async fn set_shares(
        &self,
        settings: impl IntoIterator<Item = ShareSetting>,
    ) -> Result<SharesReport, Error> {
        self.ask_shares(settings.into_iter().collect()).await
    }

    async fn ask_shares(&self, settings: Vec<ShareSetting>) -> Result<SharesReport, Error> {
        answered_within(STATUS_TIMEOUT, async {
            let answer = match &self.way {
                Way::Front(front) => front.shares(settings).await?,
                Way::Loop { handle, .. } => handle.shares(settings).await?,
            };
            answer.map(|report| *report).map_err(|problem| Error::Shares { problem })
        })
        .await
    }

    /// The placement of partitions at the node that this client talks to, and which of them it loads and gives up.
    ///
    /// # Errors
    /// If the connection breaks and cannot be made again, or no answer comes in time.
    pub async fn placement(&self) -> Result<PlacementReport, Error> {
        self.place(PlacementAsk::Show).await
    }

    /// Asks the node that this client talks to for another placement of partitions, and returns the placement there as it is
    /// now. Partitions move later.
    ///
    /// # Errors
    /// If the node refuses, because it does not place the service automatically or has no such partition; then nothing has
    /// changed. If no answer comes, it is unknown whether the node has taken the request.
    pub async fn place(&self, ask: PlacementAsk) -> Result<PlacementReport, Error> {
        answered_within(STATUS_TIMEOUT, async {
            let answer = match &self.way {
                Way::Front(front) => front.placement(ask).await?,
                Way::Loop { handle, .. } => handle.placement(ask).await?,
            };
            answer.map(|report| *report).map_err(|problem| Error::Placement { problem })
        })
        .await
    }

    /// The address of the node that makes the calls. `None` in direct mode, and in front mode while not
    /// connected.
    pub fn front(&self) -> Option<SocketAddr> {
        match &self.way {
            Way::Front(front) => front.addr(),
            Way::Loop { addr, .. } => *addr,
        }
    }

    pub(crate) async fn outcome(
        &self,
        kind: Arc<str>,
        params: Params<Bytes>,
        options: CallOptions,
    ) -> Result<Outcome<Bytes>, Error> {
        let patience = Duration::from(options.deadline).saturating_add(FRONT_PATIENCE);
        let asked = options.clone();
        let outcome = answered_within(patience, async {
            match &self.way {
                Way::Front(front) => front.call(kind, params, options).await,
                Way::Loop { handle, .. } => handle.call(kind, params, options).await,
            }
        })
        .await?;
        judge(&outcome, &asked).map_err(|problem| Error::Contradiction { problem })?;
        Ok(outcome)
    }
}

async fn answered_within<T>(
    waited: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(waited, answer).await.unwrap_or(Err(Error::FrontSilent { waited }))
}
