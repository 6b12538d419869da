//! Addresses to listen on: `127.0.0.1:6632`, `[::1]:6632`, `localhost:6632`.

use std::net::{SocketAddr, ToSocketAddrs as _};

/// Parses an address. A name is resolved, and its IPv4 address is preferred: clients of `localhost` try both.
///
/// # Errors
/// The text for the error message of the command line.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let named = text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !named {
        return Err("must be an address and a port, such as 127.0.0.1:6632 or localhost:6632".into());
    }
    let mut found: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| format!("cannot resolve the host name: {error}"))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| "the host name has no address".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses and host names are accepted; for everything else the error has an example.
    #[test]
    fn addresses_and_host_names_are_accepted() {
        for text in ["127.0.0.1:6632", "[::1]:6632", "0.0.0.0:0"] {
            assert_eq!(parse(text), Ok(text.parse().expect("an address")));
        }
        let localhost = parse("localhost:6632").expect("every machine has one");
        assert!(localhost.ip().is_loopback() && localhost.port() == 6632, "{localhost}");
        for text in ["", "nonsense", "127.0.0.1", ":6632", "localhost:", "localhost:70000"] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("127.0.0.1:6632"), "{text}: {error}");
        }
    }
}
