//! Ports for servers that cannot choose one themselves, or that a test starts again at the same address.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The range of the ports. Systems choose ports for outgoing connections and for port 0 above it, and
/// `scripts/databases.bash` uses ports above it for database servers.
const FIRST: u16 = 12_000;
const COUNT: u16 = 8_000;
/// The distance between the first ports that successive processes try.
const STEP: u32 = 61;

/// A TCP port of 127.0.0.1 that no other test gets until this value is dropped, even while no server listens on it.
///
/// A port that the system chooses for port 0 cannot be used for this: when it is closed, the system may give it to
/// another program.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    /// Tells other tests that the port is in use, because only one process can bind a UDP port. Ports of UDP and TCP
    /// are independent.
    _reservation: UdpSocket,
}

impl ReservedPort {
    /// Reserves a port on which no server listens.
    #[allow(clippy::new_without_default, reason = "each port is another one")]
    pub fn new() -> Self {
        static TRIED: AtomicU32 = AtomicU32::new(0);
        for _ in 0..COUNT {
            let next = process::id().wrapping_mul(STEP).wrapping_add(TRIED.fetch_add(1, Ordering::SeqCst));
            let number = FIRST + u16::try_from(next % u32::from(COUNT)).unwrap();
            let Ok(reservation) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if is_free(number) {
                return Self { number, _reservation: reservation };
            }
        }
        panic!("all ports from {FIRST} on are in use");
    }

    /// Returns the number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the address and port.
    pub fn address(&self) -> String {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number)).to_string()
    }
}

/// Returns true if no server listens on a port.
///
/// A listener would also show that, but its port could stay in use after it is closed: a child process that another
/// thread is just creating has a copy of the listener until it executes its program.
fn is_free(number: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, number)).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn servers_can_use_a_reserved_port_again_and_no_other_test_gets_it() {
        let (port, other) = (ReservedPort::new(), ReservedPort::new());
        assert_ne!(port.number(), other.number());
        for _ in 0..2 {
            drop(TcpListener::bind(port.address()).unwrap());
        }
        assert!(UdpSocket::bind(port.address()).is_err());
        let _listener = TcpListener::bind(port.address()).unwrap();
        assert!(!is_free(port.number()) && is_free(other.number()));
    }
}
