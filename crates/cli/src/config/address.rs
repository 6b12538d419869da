//! Addresses to listen on, as people write them: `127.0.0.1:6632`, `[::1]:6632`, `localhost:6632`.

use std::net::{SocketAddr, ToSocketAddrs as _};

/// Reads an address. A name is looked up, and its IPv4 address wins: a client that is given `localhost` tries both.
///
/// # Errors
/// What is expected instead, for the command line's own message.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let named = text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !named {
        return Err("give an address and a port, such as 127.0.0.1:6632 or localhost:6632".into());
    }
    let mut found: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| format!("the name cannot be looked up: {error}"))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| "the name has no address".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses and names are taken, and everything else is answered with an example.
    #[test]
    fn addresses_are_read_as_people_write_them() {
        for text in ["127.0.0.1:6632", "[::1]:6632", "0.0.0.0:0"] {
            assert_eq!(parse(text), Ok(text.parse().expect("an address")));
        }
        let localhost = parse("localhost:6632").expect("every machine has one");
        assert!(localhost.ip().is_loopback() && localhost.port() == 6632, "{localhost}");
        for text in ["", "nonsense", "127.0.0.1", ":6632", "localhost:", "localhost:70000"] {
            let said = parse(text).expect_err(text);
            assert!(said.contains("127.0.0.1:6632"), "{text}: {said}");
        }
    }
}
