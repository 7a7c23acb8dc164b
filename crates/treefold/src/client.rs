//! Clients: who makes calls.
//!
//! Three ways to a cluster, one interface. A client of a [`Node`](crate::Node) in the same process speaks to its
//! loop. A client in *front* mode ([`Client::connect`]) has a connection to one node, which makes its calls for
//! it: lean, and the right thing for most. A client in *direct* mode runs a node of its own that holds nothing and
//! is no member, but keeps the view, forms its trees itself and talks to their roots: one hop less, for whoever
//! calls often.

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
use treefold_core::partitions::PartitionSet;
use treefold_core::schedule::share::{ShareSetting, SharesReport};
use treefold_core::status::NodeStatus;
use treefold_operators::{Aggregation, Body, Raw};

/// How long a direct client waits for a first member before it gives up.
const VIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a status query waits for its answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a node may take to make something of an operator.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes calls. A clone shares the connection, or the node.
#[derive(Clone, Debug)]
pub struct Client {
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Front(Front),
    Loop { handle: Handle, addr: Option<SocketAddr>, _owned: Option<Arc<Thread>> },
}

/// What a client is to be; see [`Client::builder`].
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
    /// Nodes to connect to, `host:port`; more with each call. In front mode they are tried in turn.
    pub fn at<A: ToString>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.addrs.extend(addrs.into_iter().map(|addr| addr.to_string()));
        self
    }

    /// True for direct mode; front mode is the default.
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// The cluster: its name, or [`ClusterOptions`] with a token and this client's limits.
    pub fn cluster(mut self, cluster: impl Into<ClusterOptions>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// How a direct client behaves; of no meaning in front mode.
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Gives a direct client a service's aggregations, so that it can fold by itself
    /// ([`Shape::Base`](crate::Shape)); partitions in it are of no meaning.
    pub fn service(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// What makes operators of bytes, in a direct client that opens streams with such filters; of no meaning in front
    /// mode.
    pub fn foreign(mut self, foreign: Arc<dyn Foreign>) -> Self {
        self.foreign = Some(foreign);
        self
    }

    /// Connects. In front mode the connection is there when this returns, and made anew on demand later; in
    /// direct mode at least one member is in sight.
    ///
    /// # Errors
    /// When no address answers, or the cluster is another.
    pub async fn connect(self) -> Result<Client, Error> {
        sockets::check_cluster(&self.cluster.name)?;
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
            seed: entropy::draw(),
        };
        let thread = Thread::start(Setup {
            config,
            identity: Identity::new(id, self.cluster, false),
            registry,
            foreign: self.foreign,
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

/// A client listens nowhere; only the generation tells it from others.
pub(crate) fn client_id() -> NodeId {
    NodeId::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), entropy::draw())
}

impl Client {
    /// A client of the node at `addr`, in front mode.
    ///
    /// # Errors
    /// When it doesn't answer, or its cluster is another.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub async fn connect(addr: impl ToString) -> Result<Self, Error> {
        Self::builder().at([addr.to_string()]).connect().await
    }

    /// A client to be connected.
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

    /// A call of `service/aggregation`, whose answer is a `T`.
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

    /// A call whose parameters and answer are bytes as they are.
    pub fn call_raw(&self, kind: &str, params: Bytes) -> CallBuilder<'static, Raw> {
        CallBuilder::new(self.clone(), kind, Ok(params))
    }

    /// Announces a request of an application whose workers push ([`crate::push`]): a call of
    /// `application/aggregation` whose locals are what these workers push for `request`, a number that names one request,
    /// once. The client's front must accept the application.
    pub fn announce(
        &self,
        kind: &str,
        params: impl Into<Bytes>,
        request: u64,
        workers: PartitionSet,
    ) -> CallBuilder<'static, Raw> {
        self.call_raw(kind, params.into()).announced(request, workers)
    }

    /// A call of an aggregation that is known here, too: its `finish` is applied to the answer.
    pub fn aggregate<'a, A: Aggregation>(
        &self,
        aggregation: &'a A,
        kind: &str,
        params: &'a A::Params,
    ) -> CallBuilder<'a, A::Partial> {
        CallBuilder::new(self.clone(), kind, params.encode())
            .finish_with(move |partial| aggregation.finish(partial, params))
    }

    /// A stream to the endpoints of a service, with this client as its front-end. It takes a client with a loop of its
    /// own: one of a [`Node`](crate::Node), or in direct mode.
    pub fn stream(&self, service: &str) -> StreamBuilder {
        let handle = match &self.way {
            Way::Front(_) => None,
            Way::Loop { handle, .. } => Some(handle.clone()),
        };
        StreamBuilder::new(handle, service)
    }

    /// What the front sees of itself and of its cluster; in direct mode, what the client sees.
    ///
    /// # Errors
    /// When the connection breaks and can't be made again, or the answer doesn't come.
    pub async fn status(&self) -> Result<NodeStatus, Error> {
        answered_within(STATUS_TIMEOUT, async {
            match &self.way {
                Way::Front(front) => front.status().await,
                Way::Loop { handle, .. } => handle.status().await,
            }
        })
        .await
    }

    /// Gives the node that this client talks to an operator, to be used by name
    /// ([`filter_name`](crate::foreign::filter_name)) in streams: in direct mode that is the client itself. It is
    /// ready for use there when this returns; other nodes of a stream get it as they need it.
    ///
    /// # Errors
    /// When it is no operator, or the node has no room, or takes none.
    pub async fn operator_push(&self, bytes: impl Into<Bytes>) -> Result<OperatorStatus, Error> {
        let mut kept = self.ask_operators(Some(bytes.into())).await?;
        kept.pop().ok_or_else(|| Error::Operator { problem: "the node does not say that it has it".into() })
    }

    /// The operators that the node has been sent.
    ///
    /// # Errors
    /// When the connection breaks and can't be made again, or the answer doesn't come.
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

    /// What each application is to have of the node that this client talks to, and what it has had; in direct mode that
    /// is the client itself.
    ///
    /// # Errors
    /// When the connection breaks and can't be made again, or the answer doesn't come.
    pub async fn shares(&self) -> Result<SharesReport, Error> {
        self.ask_shares(Vec::new()).await
    }

    /// Sets shares at the node that this client talks to, until it is set otherwise or ends: all of them, from the next
    /// job on, or none.
    ///
    /// # Errors
    /// When one of them can't be; then all are as they were. And when the answer doesn't come: then it is not known.
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

    /// The node that makes the calls; `None` in direct mode, and in front mode while there is no connection.
    pub fn front(&self) -> Option<SocketAddr> {
        match &self.way {
            Way::Front(front) => front.addr(),
            Way::Loop { addr, .. } => *addr,
        }
    }

    pub(crate) async fn outcome(
        &self,
        kind: Arc<str>,
        params: Bytes,
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
