//! The address that a node on this host listens at: free on TCP and UDP, or taken by that node itself.

use super::finding::Finding;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};

const CHECK: &str = "listen";

/// Checks the address. `nodes` are addresses at which nodes of the cluster have answered.
pub(super) fn check(given: &str, addr: SocketAddr, nodes: &[SocketAddr]) -> Vec<Finding> {
    if addr.port() == 0 {
        return vec![Finding::ok(CHECK, format!("{given} takes any free port"))];
    }
    if nodes.contains(&addr) {
        return vec![Finding::ok(CHECK, format!("a node of the cluster listens at {given}"))];
    }
    let tcp = TcpListener::bind(addr).map(drop);
    let udp = UdpSocket::bind(addr).map(drop);
    vec![judged(given, addr, "TCP", tcp), judged(given, addr, "UDP", udp)]
}

fn judged(given: &str, addr: SocketAddr, protocol: &str, bound: io::Result<()>) -> Finding {
    let Err(error) = bound else {
        return Finding::ok(CHECK, format!("{given} is free on {protocol}"));
    };
    let port = addr.port();
    let advice = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "stop the program that has the port (`ss -lnp 'sport = :{port}'` names it), or listen at another one; if it is the node \
             of this host, give --at {given} too"
        ),
        ErrorKind::AddrNotAvailable => "give an address of this host, or 0.0.0.0 with --advertise".to_owned(),
        ErrorKind::PermissionDenied => {
            "take a port above 1023, or give the program CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => "correct the address".to_owned(),
    };
    Finding::fail(CHECK, format!("{given} can't be taken on {protocol}: {error}"), advice)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_taken_port_is_named_by_its_protocol() {
        // Another test may have the port on TCP.
        let (_taken, addr) = (0..100)
            .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
            .map(|taken| (taken.local_addr().unwrap(), taken))
            .find_map(|(addr, taken)| TcpListener::bind(addr).is_ok().then_some((taken, addr)))
            .expect("a port that is free on TCP");
        let [tcp, udp] = check(&addr.to_string(), addr, &[]).try_into().unwrap();
        assert_eq!((tcp.level, udp.level), (Level::Ok, Level::Fail));
        assert!(udp.found.contains("on UDP"), "{udp:?}");
        assert!(udp.advice.unwrap().contains(&format!("sport = :{}", addr.port())));
        assert_eq!(check("n", addr, &[addr])[0].level, Level::Ok, "a node of the cluster may have it");
    }
}
