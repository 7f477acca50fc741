//! Reverse proxies in front of the server, and what they say about the clients whose requests they forward.
//!
//! Only `X-Forwarded-For` and `X-Forwarded-Proto` are read, and only from trusted addresses. `Forwarded` is ignored: a
//! proxy that sets one kind of header passes the other kind on as the client sent it.

use super::ConnectionInfo;
use http::{HeaderMap, HeaderValue};
use std::net::{IpAddr, SocketAddr};

/// Names the address of the client of each proxy on the way, the nearest proxy's client last.
const X_FORWARDED_FOR: &str = "x-forwarded-for";
/// Names the protocol that the client of each proxy used.
const X_FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The addresses of the proxies whose headers are trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    networks: Vec<Network>,
}

/// The addresses of one family that begin with the same bits.
#[derive(Debug, Clone, Copy)]
struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl TrustedProxies {
    /// Parses IP addresses, and networks such as `10.0.0.0/8`. Returns the first text that is neither.
    ///
    /// A network of all addresses is refused, because every client could then claim any address.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, &'t str> {
        let network = |text: &'t str| Network::parse(text).ok_or(text);
        Ok(Self { networks: texts.into_iter().map(network).collect::<Result<_, _>>()? })
    }

    /// Describes the client of a request on a connection: the other end of the connection, unless that is a trusted
    /// proxy.
    pub(crate) fn describe(&self, connection: ConnectionInfo, headers: &HeaderMap) -> ConnectionInfo {
        let ConnectionInfo { peer, client, is_tls } = connection;
        if !self.trusts(client) {
            return connection;
        }
        let protocols = values(headers, X_FORWARDED_PROTO);
        // Every proxy may add its own value, so a client cannot turn plain HTTP into HTTPS by sending the first one.
        let is_https = protocols.map(|value| value.eq_ignore_ascii_case("https")).reduce(|all, value| all && value);
        ConnectionInfo { peer, client: self.client(client, headers), is_tls: is_https.unwrap_or(is_tls) }
    }

    /// Follows the addresses from the nearest proxy to the first one that is not a trusted proxy. A client can write
    /// only the values before that one. An entry that is not an address ends the search at the proxy that wrote it.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        for value in values(headers, X_FORWARDED_FOR).rev() {
            let Some(address) = address(value) else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let Some((address, prefix)) = text.split_once('/') else {
            let address = text.parse::<IpAddr>().ok()?.to_canonical();
            return Some(Self { address, prefix_bits: address_bits(address) });
        };
        let (address, prefix_bits) = (address.parse().ok()?, prefix.parse().ok()?);
        (1..=address_bits(address)).contains(&prefix_bits).then_some(Self { address, prefix_bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        let prefix = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()) >> (32 - self.prefix_bits),
            IpAddr::V6(address) => address.to_bits() >> (128 - self.prefix_bits),
        };
        self.address.is_ipv4() == address.is_ipv4() && prefix(self.address) == prefix(address)
    }
}

fn address_bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the comma-separated values of a header in all its lines. A line that is not text is one empty value.
fn values<'h>(headers: &'h HeaderMap, name: &'static str) -> impl DoubleEndedIterator<Item = &'h str> {
    let text = |line: &'h HeaderValue| line.to_str().unwrap_or_default();
    headers.get_all(name).into_iter().flat_map(move |line| text(line).split(',').map(str::trim))
}

/// Parses an address, with or without a port, and with or without brackets around an IPv6 address.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse().map(|address: SocketAddr| address.ip());
    bare.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    const PROXIES: [&str; 4] = ["10.0.0.1", "192.0.2.0/24", "2001:db8::/32", "::ffff:10.0.0.9"];

    fn described(peer: &str, is_tls: bool, lines: &[(&'static str, &str)]) -> (String, bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let peer = SocketAddr::new(peer.parse().unwrap(), 4711);
        let connection = ConnectionInfo::direct(peer, is_tls);
        let info = TrustedProxies::parse(PROXIES).unwrap().describe(connection, &headers);
        assert_eq!(info.peer, peer);
        (info.client.to_string(), info.is_tls)
    }

    #[test]
    fn only_addresses_and_networks_are_accepted() {
        for text in ["", "proxy", "10.0.0.0/33", "10.0.0.1:80", "[::1]", "0.0.0.0/0", "::/0", " 10.0.0.1", "10.0.0/8"] {
            assert_eq!(TrustedProxies::parse(["127.0.0.1", text]).unwrap_err(), text);
        }
        assert!(!TrustedProxies::default().trusts([127, 0, 0, 1].into()));
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_trusted_proxy() {
        for (peer, values, expected) in [
            ("10.0.0.1", &[][..], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            // What the client itself sent stands before what the proxy appended.
            ("10.0.0.1", &["203.0.113.1, 198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.1", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.1, 198.51.100.7,192.0.2.8 ,  10.0.0.9"], "198.51.100.7"),
            ("192.0.2.200", &["192.0.2.1, 10.0.0.1"], "192.0.2.1"),
            // An IPv4 proxy of a server that listens on an IPv6 address.
            ("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("2001:db8::5", &["::ffff:198.51.100.7"], "198.51.100.7"),
            ("2001:db8::5", &["2001:db9::1"], "2001:db9::1"),
            ("2001:db8::5", &["[2001:db9::1]"], "2001:db9::1"),
            ("2001:db8::5", &["[2001:db9::1]:4711"], "2001:db9::1"),
            ("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            // Not addresses.
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7, unknown, 192.0.2.8"], "192.0.2.8"),
            ("10.0.0.1", &["198.51.100.7,"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7", "\u{e9}"], "10.0.0.1"),
            ("10.0.0.1", &["_secret"], "10.0.0.1"),
            // Not a proxy.
            ("10.0.0.2", &["198.51.100.7"], "10.0.0.2"),
            ("::ffff:10.0.0.2", &["198.51.100.7"], "10.0.0.2"),
            ("2001:db9::5", &["198.51.100.7"], "2001:db9::5"),
        ] {
            let lines: Vec<_> = values.iter().map(|value| (X_FORWARDED_FOR, *value)).collect();
            assert_eq!(described(peer, false, &lines), (expected.to_owned(), false), "{peer} {values:?}");
        }
    }

    #[test]
    fn the_protocol_is_https_if_every_trusted_value_says_so() {
        for (peer, is_tls, values, expected) in [
            ("10.0.0.1", false, &[][..], false),
            ("10.0.0.1", true, &[], true),
            ("10.0.0.1", false, &["https"], true),
            ("10.0.0.1", false, &["HTTPS"], true),
            ("10.0.0.1", true, &["http"], false),
            ("10.0.0.1", false, &["https, http"], false),
            ("10.0.0.1", false, &["http, https"], false),
            ("10.0.0.1", false, &["https", "https"], true),
            ("10.0.0.1", false, &["https", "http"], false),
            ("10.0.0.1", true, &[""], false),
            ("10.0.0.1", true, &["ftp"], false),
            ("10.0.0.1", true, &["https\u{e9}"], false),
            ("10.0.0.2", false, &["https"], false),
            ("10.0.0.2", true, &["http"], true),
        ] {
            let lines: Vec<_> = values.iter().map(|value| (X_FORWARDED_PROTO, *value)).collect();
            assert_eq!(described(peer, is_tls, &lines).1, expected, "{peer} {is_tls} {values:?}");
        }
    }

    #[test]
    fn the_standard_header_is_ignored() {
        let lines = [("forwarded", "for=198.51.100.7;proto=https")];
        assert_eq!(described("10.0.0.1", false, &lines), ("10.0.0.1".to_owned(), false));
    }
}
