//! From a URL to an open session: does it parse, is somebody there, are we let in, is it encrypted.

use super::{
    PATIENCE, address, ask, column,
    finding::{Finding, Report},
};
use crate::error::explain;

/// Connects to `url`, which the user gave as `key`. `None` if that does not work; the report then says why.
pub(super) async fn examine(
    key: &'static str,
    url: &str,
    options: &pg::Options,
    report: &mut Report,
) -> Option<pg::Database> {
    // Its own address, not that of the direct URL which may come with it.
    let alone = pg::Options { listen_url: None, ..options.clone() };
    let database = match pg::Database::connect_lazy(url, alone) {
        Ok(database) => database,
        Err(error) => {
            report.add(Finding::fail(
                "URL",
                format!("{key} cannot be understood: {}", explain(&error)),
                "write it as postgres://user:password@host:5432/database; characters such as @ : / ? # % in a \
                 password have to be written as %40 %3A %2F %3F %23 %25",
            ));
            return None;
        }
    };
    report.add(Finding::ok("URL", format!("{key} leads to {}", database.identity())))?;
    address::examine(&database, report).await?;
    database.close().await;
    match pg::Database::connect(url, options.clone()).await {
        Ok(database) => {
            report.add(Finding::ok("login", "accepted"))?;
            report.add(encryption(&database).await)?;
            Some(database)
        }
        Err(error) => {
            report.add(refused(&error));
            None
        }
    }
}

/// Why a login failed, by the server's code.
fn refused(error: &pg::Error) -> Finding {
    let (text, fix) = match error.sqlstate() {
        Some("28P01") => (
            "the server refused the password",
            "correct the password in the URL, or set it on the server: `alter role NAME password '…'`; characters such as \
             @ : / ? # % in a password have to be written as %40 %3A %2F %3F %23 %25",
        ),
        Some("28000") => (
            "the server lets this user in neither by this way nor from this address",
            "check that the user exists (`\\du` in psql), and add a line for it, its database and this machine's address to \
             pg_hba.conf on the server; a hosted database has a list of allowed addresses instead, and may want \
             ?sslmode=require in the URL",
        ),
        Some("3D000") => (
            "there is no such database on the server",
            "correct the last part of the URL, or create it: `createdb NAME`",
        ),
        Some("42501") => {
            ("this user may not connect to this database", "as its owner: `grant connect on database NAME to USER`")
        }
        Some("53300") => (
            "the server has no connection left",
            "raise max_connections on the server, close idle programs, lower --pool-size, or put a pooler in between",
        ),
        Some("57P03") => ("the server is starting or stopping", "wait a moment and run the command again"),
        Some("25006") => (
            "none of the hosts is the primary",
            "name the primary in the URL, or all hosts, separated by commas: reveille follows the primary",
        ),
        _ => return refused_without_code(error),
    };
    Finding::fail("login", format!("{text} ({})", explain(error)), fix)
}

/// Failures that have no code of the server's: TLS, poolers, other programs at the port, time.
fn refused_without_code(error: &pg::Error) -> Finding {
    let said = explain(error);
    let lower = said.to_lowercase();
    let (text, fix) = if lower.contains("tls") || lower.contains("certificate") || lower.contains("ssl") {
        (
            "the encrypted connection could not be made",
            "match ?sslmode= in the URL to the server: `disable` if it has no TLS, `require` if it has, `verify-full` with \
             &sslrootcert=FILE to also check who it is",
        )
    } else if lower.contains("no such database") || lower.contains("no such user") {
        ("the pooler does not know this database or user", "add it to the pooler's configuration")
    } else if lower.contains("sasl") || lower.contains("auth") || lower.contains("password") {
        (
            "the login was refused",
            "correct the user and password in the URL, and in the pooler's list of users if there is one",
        )
    } else {
        ("no session could be opened", "check that it is a PostgreSQL that listens there, and its log at this time")
    };
    Finding::fail("login", format!("{text} ({said})"), fix)
}

/// Whether what is said on the wire can be read on the way.
async fn encryption(database: &pg::Database) -> Finding {
    const WHAT: &str = "encryption";
    const SQL: &str = "select coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted, \
                       coalesce(inet_server_addr() <<= any (array['127.0.0.0/8', '::1/128']::inet[]), true) as here";
    match tokio::time::timeout(PATIENCE, ask(database, SQL)).await {
        Ok(Ok(row)) => {
            let is = |name| column::<bool>(&row, name).unwrap_or(false);
            if is("encrypted") {
                Finding::ok(WHAT, "the connection is encrypted")
            } else if is("here") {
                Finding::ok(WHAT, "not encrypted; the server is on its own machine's loopback or socket")
            } else {
                Finding::warn(
                    WHAT,
                    "not encrypted: the data can be read on the way",
                    "unless the network is yours alone, switch `ssl` on at the server and add ?sslmode=require to the URL",
                )
            }
        }
        Ok(Err(error)) => super::unanswered(WHAT, &error),
        Err(_) => Finding::warn(
            WHAT,
            format!("no answer within {} s", PATIENCE.as_secs()),
            "run the command again; look at the server's load",
        ),
    }
}
