//! Places: the addresses that a node may have.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// An address, or the addresses of a network; with a port or with any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    ip: IpAddr,
    /// The leading bits that an address has in common with `ip`.
    bits: u8,
    /// `None`: any port.
    port: Option<u16>,
}

/// The text is not a place. The message has what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address (10.0.0.7), one with a port (10.0.0.7:7700), or a network (10.0.0.0/24)")]
pub struct PlaceError;

impl Place {
    /// True if a node at this address is in the place.
    pub fn covers(&self, addr: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == addr.port()) && self.has(addr.ip())
    }

    fn has(&self, ip: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.ip, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => bits == 0 || (a.to_bits() ^ b.to_bits()) >> (32 - bits) == 0,
            (IpAddr::V6(a), IpAddr::V6(b)) => bits == 0 || (a.to_bits() ^ b.to_bits()) >> (128 - bits) == 0,
            _ => false,
        }
    }
}

fn bits_max(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = || PlaceError;
        if let Some((ip, bits)) = text.split_once('/') {
            let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
            let bits = bits.parse().ok().filter(|&bits| bits <= bits_max(ip)).ok_or_else(wrong)?;
            return Ok(Self { ip, bits, port: None });
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self { ip, bits: bits_max(ip), port: None });
        }
        let addr: SocketAddr = text.parse().map_err(|_| wrong())?;
        if addr.port() == 0 {
            return Err(wrong());
        }
        Ok(Self { ip: addr.ip(), bits: bits_max(addr.ip()), port: Some(addr.port()) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ip, bits, port } = *self;
        match port {
            Some(port) => write!(f, "{}", SocketAddr::new(ip, port)),
            None if bits < bits_max(ip) => write!(f, "{ip}/{bits}"),
            None => write!(f, "{ip}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_covers_its_addresses_only() {
        let covers = |place: &str, addr: &str| {
            let place: Place = place.parse().unwrap();
            assert_eq!(place.to_string().parse(), Ok(place));
            place.covers(addr.parse().unwrap())
        };
        assert!(covers("10.0.0.7:7700", "10.0.0.7:7700"));
        assert!(!covers("10.0.0.7:7700", "10.0.0.7:7701"));
        assert!(covers("10.0.0.7", "10.0.0.7:7701") && !covers("10.0.0.7", "10.0.0.8:7701"));
        assert!(covers("10.0.0.0/24", "10.0.0.8:1") && !covers("10.0.0.0/24", "10.0.1.8:1"));
        assert!(covers("0.0.0.0/0", "10.0.0.8:1") && !covers("0.0.0.0/0", "[::1]:1"));
        assert!(
            covers("[::1]:7", "[::1]:7") && covers("fd00::/8", "[fd01::1]:7") && !covers("::1", "[::2]:7")
        );
        for wrong in ["", "host:1", "10.0.0.7:0", "10.0.0.0/33", "10.0.0.0/24:7", "[::1]"] {
            assert_eq!(wrong.parse::<Place>(), Err(PlaceError));
        }
    }
}
