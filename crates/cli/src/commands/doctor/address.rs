//! Whether the address can be reached: the host names resolve, the ports accept connections.

use std::{io, path::Path};

use tokio::{
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};

use super::{
    ANSWER_TIMEOUT,
    finding::{Finding, Report, Status},
};

/// Checks every host of a URL. `None` if none of them accepts connections.
pub(super) async fn examine(database: &reveille_pg::Database, report: &mut Report) -> Option<()> {
    let hosts = hosts(&database.identity());
    let mut findings = Vec::new();
    for (host, port) in &hosts {
        findings.push(if host.starts_with('/') { socket(host, *port).await } else { tcp(host, *port).await });
    }
    let alive = findings.iter().any(|it| it.status == Status::Ok);
    for mut finding in findings {
        // With several hosts, one may be down.
        if alive && finding.status == Status::Fail {
            finding.status = Status::Warn;
        }
        report.add(finding);
    }
    alive.then_some(())
}

/// The hosts and ports in an identity, `user@host:port,host:port/database`.
fn hosts(identity: &str) -> Vec<(String, u16)> {
    let after_user = identity.rsplit_once('@').map_or(identity, |(_, rest)| rest);
    // A socket's directory has slashes of its own; the database comes after the last one.
    let before_database = after_user.rsplit_once('/').map_or(after_user, |(hosts, _)| hosts);
    before_database
        .split(',')
        .filter_map(|host| {
            let (host, port) = host.rsplit_once(':')?;
            Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
        })
        .collect()
}

async fn tcp(host: &str, port: u16) -> Finding {
    const WHAT: &str = "address";
    let found = match timeout(ANSWER_TIMEOUT, lookup_host((host, port))).await {
        Ok(Ok(found)) => found.collect::<Vec<_>>(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    if found.is_empty() {
        return Finding::fail(
            WHAT,
            format!("the host name {host} cannot be resolved"),
            "check the spelling of the host in the URL, and this machine's DNS (`getent hosts NAME`)",
        );
    }
    let mut last = None;
    for address in found {
        match timeout(ANSWER_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => return Finding::ok(WHAT, format!("{host} port {port} accepts connections")),
            Ok(Err(error)) => last = Some(error),
            Err(_) => {}
        }
    }
    match last {
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => Finding::fail(
            WHAT,
            format!("{host} can be reached, but nothing listens on its port {port}"),
            "start PostgreSQL there, or correct the port in the URL (the default of PostgreSQL is 5432); on the \
             server, `listen_addresses` in postgresql.conf must include an address that this machine can reach",
        ),
        Some(error) => Finding::fail(
            WHAT,
            format!("{host} port {port} cannot be reached: {error}"),
            "check the network to the server: routes, VPN, firewall",
        ),
        None => Finding::fail(
            WHAT,
            format!("{host} port {port} does not answer within {} s", ANSWER_TIMEOUT.as_secs()),
            "a firewall or security group most likely drops the packets: allow this machine to reach that port",
        ),
    }
}

async fn socket(dir: &str, port: u16) -> Finding {
    const WHAT: &str = "socket";
    let path = Path::new(dir).join(format!(".s.PGSQL.{port}"));
    match UnixStream::connect(&path).await {
        Ok(_) => Finding::ok(WHAT, format!("{} accepts connections", path.display())),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Finding::fail(
            WHAT,
            format!("this user may not open {}", path.display()),
            "run as a user with write permission on the socket, or connect to 127.0.0.1 instead",
        ),
        Err(_) => Finding::fail(
            WHAT,
            format!("no PostgreSQL listens on {}", path.display()),
            "start PostgreSQL, or correct the directory (`unix_socket_directories` on the server) and port in the URL",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every form an address can have is taken apart into what a connection needs.
    #[test]
    fn identities_are_taken_apart() {
        let table: [(&str, &[(&str, u16)]); 5] = [
            ("ann@db.example:5432/app", &[("db.example", 5432)]),
            ("ann@h1:5432,h2:5433/app", &[("h1", 5432), ("h2", 5433)]),
            ("ann@[::1]:5432/app", &[("::1", 5432)]),
            ("ann@/var/run/postgresql:5432/app", &[("/var/run/postgresql", 5432)]),
            ("o@ddly@h:1/app", &[("h", 1)]),
        ];
        for (identity, expected) in table {
            let found = hosts(identity);
            let found: Vec<(&str, u16)> = found.iter().map(|(host, port)| (host.as_str(), *port)).collect();
            assert_eq!(found, expected, "{identity}");
        }
    }
}
