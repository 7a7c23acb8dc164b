//! Grants: who a process is and what it may do, as a certificate states it.

use crate::place::{Place, PlaceError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use treefold_core::right::{Right, Rights, UnknownRight};

/// The start of a grant's URI.
const SCHEME: &str = "treefold://";
/// The longest URI that is read.
const URI_BYTES_MAX: usize = 16 << 10;
/// The most services, and the most places.
const ITEMS_MAX: usize = 256;
/// The longest name of a cluster, a process or a service.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Characters of a name that its URI has as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Every service.
const EVERY: &str = "*";

/// The kind of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It listens, and may be a member.
    Node,
    /// It only connects.
    Client,
}

impl Role {
    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Client => "client",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The services that rights are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Services {
    /// All of them.
    All,
    /// These.
    Named(BTreeSet<String>),
}

impl Services {
    /// True if a service is among them.
    pub fn contain(&self, service: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(service),
        }
    }
}

/// `*`, or the names with commas.
impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str(EVERY),
            Self::Named(names) => {
                f.write_str(&names.iter().map(String::as_str).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// The content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The cluster's name.
    pub cluster: String,
    /// The kind of the process.
    pub role: Role,
    /// The process's name, for people and for the names of files.
    pub name: String,
    /// The things that it may do.
    pub may: Rights,
    /// The services for which it may do that.
    pub services: Services,
    /// The addresses that a node may have. Empty for a client.
    pub at: Vec<Place>,
}

/// Why a grant is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The URI has another form.
    #[error("{field} in the certificate's grant is missing or malformed")]
    Form {
        /// The part with the wrong form.
        field: &'static str,
    },
    /// A name has a wrong length.
    #[error("{field} has {bytes} bytes; allowed: 1 to {NAME_BYTES_MAX}")]
    Name {
        /// The part with the name.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// Too many services or places.
    #[error("{field} has {given} items; allowed: at most {ITEMS_MAX}")]
    Items {
        /// The part with the items.
        field: &'static str,
        /// Their number.
        given: usize,
    },
    /// A right is unknown.
    #[error("may is not a right; allowed: {0}")]
    Right(#[from] UnknownRight),
    /// A place is malformed.
    #[error("at is not a place; allowed: {0}")]
    Place(#[from] PlaceError),
    /// A node that may join has no address, or a client has one.
    #[error("a node needs the addresses that it may have (at), and a client has none")]
    At,
    /// A client is given the right to join.
    #[error("a client can't have the right to join; issue a node's certificate")]
    Join,
    /// There is no right.
    #[error("there is no right (may)")]
    Nothing,
}

impl Grant {
    /// True if the process may do this with a service.
    pub fn allows(&self, right: Right, service: &str) -> bool {
        self.may.has(right) && self.services.contain(service)
    }

    /// True if the process may be the member at this address.
    pub fn covers(&self, addr: SocketAddr) -> bool {
        self.role == Role::Node && self.may.has(Right::Join) && self.at.iter().any(|place| place.covers(addr))
    }

    /// Checks names, numbers of items, and that the parts fit together.
    ///
    /// # Errors
    /// The first part that is wrong.
    pub fn check(&self) -> Result<(), GrantError> {
        let name = |field, text: &str| match text.len() {
            1..=NAME_BYTES_MAX => Ok(()),
            bytes => Err(GrantError::Name { field, bytes }),
        };
        let items = |field, given| match given {
            0..=ITEMS_MAX => Ok(()),
            given => Err(GrantError::Items { field, given }),
        };
        name("cluster", &self.cluster)?;
        name("name", &self.name)?;
        if let Services::Named(names) = &self.services {
            items("services", names.len())?;
            names.iter().try_for_each(|service| name("services", service))?;
        }
        items("at", self.at.len())?;
        if self.may == Rights::NONE {
            return Err(GrantError::Nothing);
        }
        match self.role {
            Role::Client if self.may.has(Right::Join) => Err(GrantError::Join),
            Role::Client if !self.at.is_empty() => Err(GrantError::At),
            Role::Node if self.at.is_empty() => Err(GrantError::At),
            Role::Client | Role::Node => Ok(()),
        }
    }
}

/// The grant as a URI.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
        let Self { role, may, .. } = self;
        write!(f, "{SCHEME}{}/{role}/{}?may={may}", plain(&self.cluster), plain(&self.name))?;
        match &self.services {
            Services::All => write!(f, "&services={EVERY}")?,
            Services::Named(names) => {
                let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
                write!(f, "&services={}", names.join(","))?;
            }
        }
        self.at.iter().try_for_each(|place| write!(f, "&at={place}"))
    }
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(uri: &str) -> Result<Self, GrantError> {
        let form = |field| GrantError::Form { field };
        let text = |field, part: &str| match percent_decode_str(part).decode_utf8() {
            Ok(text) => Ok(text.into_owned()),
            Err(_) => Err(form(field)),
        };
        let rest = uri.strip_prefix(SCHEME).filter(|_| uri.len() <= URI_BYTES_MAX).ok_or(form("URI"))?;
        let (path, query) = rest.split_once('?').ok_or(form("may"))?;
        let mut path = path.split('/');
        let mut part = |field| path.next().ok_or(form(field));
        let cluster = text("cluster", part("cluster")?)?;
        let role = match part("role")? {
            "node" => Role::Node,
            "client" => Role::Client,
            _ => return Err(form("role")),
        };
        let name = text("name", part("name")?)?;
        let (mut may, mut services, mut at) = (None, None, Vec::new());
        for pair in query.split('&') {
            match pair.split_once('=').ok_or(form("URI"))? {
                ("may", names) => may = Some(rights_of(names)?),
                ("services", EVERY) => services = Some(Services::All),
                ("services", "") => services = Some(Services::Named(BTreeSet::new())),
                ("services", names) => {
                    let names: Result<_, _> = names.split(',').map(|name| text("services", name)).collect();
                    services = Some(Services::Named(names?));
                }
                ("at", place) => at.push(place.parse()?),
                // A part that a later version has added.
                _ => {}
            }
        }
        let (may, services) = (may.ok_or(form("may"))?, services.ok_or(form("services"))?);
        let grant = Self { cluster, role, name, may, services, at };
        grant.check()?;
        Ok(grant)
    }
}

/// The rights of names with commas. A right that a later version has added is unknown here and is left out.
fn rights_of(names: &str) -> Result<Rights, UnknownRight> {
    let known: Rights = names.split(',').filter_map(|name| name.parse().ok()).collect();
    if known == Rights::NONE { Err(UnknownRight) } else { Ok(known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Grant {
        Grant {
            cluster: "prod".into(),
            role: Role::Node,
            name: "n1".into(),
            may: [Right::Join].into_iter().collect(),
            services: Services::All,
            at: vec!["10.0.0.7:7700".parse().unwrap(), "fd00::/8".parse().unwrap()],
        }
    }

    #[test]
    fn a_grant_is_read_from_its_uri() {
        let node = node();
        assert_eq!(
            node.to_string(),
            "treefold://prod/node/n1?may=join&services=*&at=10.0.0.7:7700&at=fd00::/8"
        );
        let names = ["a,b&c", "*", "Größe"].map(str::to_owned);
        let client = Grant {
            cluster: "a/b?".into(),
            role: Role::Client,
            name: "web 1".into(),
            may: [Right::Call, Right::Read].into_iter().collect(),
            services: Services::Named(names.into_iter().collect()),
            at: Vec::new(),
        };
        for grant in [node, client] {
            assert_eq!(grant.to_string().parse(), Ok(grant));
        }
    }

    #[test]
    fn wrong_grants_are_refused_by_their_part() {
        let refused = |uri: &str| uri.parse::<Grant>().unwrap_err().to_string();
        let form = |field| format!("{field} in the certificate's grant is missing or malformed");
        assert_eq!(refused("http://prod"), form("URI"));
        assert_eq!(refused("treefold://prod/ghost/n1?may=join&services=*"), form("role"));
        assert_eq!(refused("treefold://prod/node/n1?may=join"), form("services"));
        assert!(
            refused("treefold://prod/node/n1?may=fly&services=*")
                .starts_with("may is not a right; allowed: call,")
        );
        assert!(
            refused("treefold://prod/node/n1?may=join&services=*&at=x")
                .starts_with("at is not a place; allowed: an address")
        );
        assert!(
            refused("treefold://prod/node/n1?may=join&services=*").starts_with("a node needs the addresses")
        );
        assert!(refused("treefold://prod/client/c?may=join&services=*").starts_with("a client can't have"));
        assert!(
            refused(&format!("treefold://{}/client/c?may=call&services=*", "x".repeat(256)))
                .contains("256 bytes")
        );
        assert!(
            "treefold://p/client/c?may=call,fly&services=&then=x".parse::<Grant>().is_ok(),
            "of a later version"
        );
    }

    #[test]
    fn a_grant_allows_its_rights_for_its_services_at_its_places() {
        let node = node();
        assert!(
            node.covers("10.0.0.7:7700".parse().unwrap()) && !node.covers("10.0.0.8:7700".parse().unwrap())
        );
        assert!(node.allows(Right::Join, "any") && !node.allows(Right::Call, "any"));
        let may_not_join = Grant { may: [Right::Call].into_iter().collect(), ..node };
        assert!(!may_not_join.covers("10.0.0.7:7700".parse().unwrap()));
    }
}
