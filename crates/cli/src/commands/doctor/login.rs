//! Checks every step from a URL to an open session: the syntax, the address, the login, the encryption.

use std::error::Error as StdError;

use super::{
    Target, address, ask, column,
    finding::{Finding, Report},
    server, unanswered,
};
use crate::error::explain;

/// Connects to `url`. `None` if that fails; the report then says why.
pub(super) async fn examine(
    target: &Target,
    url: &str,
    options: &reveille_pg::Options,
    report: &mut Report,
) -> Option<reveille_pg::Database> {
    // Without the direct URL of the options: only the address in `url` is checked here.
    let alone = options.clone().listen_url(None);
    let database = match reveille_pg::Database::connect_lazy(url, alone) {
        Ok(database) => database,
        Err(error) => {
            let reason = match &error {
                reveille_pg::Error::Config { reason, .. } => reason.clone(),
                other => explain(other),
            };
            report.add(Finding::fail(
                "URL",
                format!("{} is not a valid URL: {reason}", target.key),
                "write it as postgres://user:password@host:5432/database; characters such as @ : / ? # % in a \
                 password must be written as %40 %3A %2F %3F %23 %25",
            ));
            return None;
        }
    };
    report.add(Finding::ok("URL", format!("{} points to {}", target.key, database.identity())))?;
    address::examine(&database, report).await?;
    database.close().await;
    match reveille_pg::Database::connect(url, options.clone()).await {
        Ok(database) => {
            report.add(Finding::ok("login", "accepted"))?;
            report.add(encryption(&database).await)?;
            Some(database)
        }
        Err(error) => {
            report.add(no_session(target, &error));
            None
        }
    }
}

/// The finding for a session that could not be opened.
fn no_session(target: &Target, error: &reveille_pg::Error) -> Finding {
    let message = innermost(error);
    let (text, fix) = match error {
        reveille_pg::Error::OldServer { .. } => {
            return Finding::fail("version", explain(error), server::UPGRADE);
        }
        reveille_pg::Error::Config { option, reason } if option == "pooler" => {
            return Finding::fail("pooler", reason.clone(), target.pooler_fix);
        }
        reveille_pg::Error::NoPrimary { .. } => ("none of the hosts is the primary", server::NAME_THE_PRIMARY),
        _ => error.sqlstate().and_then(by_code).unwrap_or_else(|| by_words(&message.to_lowercase())),
    };
    Finding::fail("login", format!("{text} (message: {message})"), fix)
}

/// Explanation and fix for a SQLSTATE; `None` if it is not specific enough.
fn by_code(code: &str) -> Option<(&'static str, &'static str)> {
    Some(match code {
        "28P01" => (
            "the server refused the user or the password",
            "correct them in the URL, or set the password on the server: `alter role NAME password '…'`; characters \
             such as @ : / ? # % in a password must be written as %40 %3A %2F %3F %23 %25",
        ),
        "28000" => (
            "pg_hba.conf on the server does not allow this user, database and address",
            "check that the user exists (`\\du` in psql), and add a line for it, its database and this machine's \
             address to pg_hba.conf on the server; a hosted database has a list of allowed addresses instead, and may \
             require ?sslmode=require in the URL",
        ),
        "3D000" => (
            "there is no such database on the server",
            "correct the database name at the end of the URL, or create it: `createdb NAME`",
        ),
        "42501" => (
            "this user may not connect to this database",
            "as the database's owner: `grant connect on database NAME to USER`",
        ),
        "53300" => (
            "the server has no free connection",
            "raise max_connections on the server, close idle programs, lower --pool-size, or put a pooler in between",
        ),
        "57P03" => ("the server is starting or stopping", "wait a few seconds and run the command again"),
        _ => return None,
    })
}

/// Explanation and fix for failures without a SQLSTATE: TLS, poolers, other programs at the port.
fn by_words(message: &str) -> (&'static str, &'static str) {
    let mentions = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if mentions(&["tls", "ssl", "certificate"]) {
        (
            "the encrypted connection could not be established",
            "match ?sslmode= in the URL to the server: `disable` if it has no TLS, `require` if it has, `verify-full` \
             with &sslrootcert=FILE to also verify the server",
        )
    } else if mentions(&["no such database", "no such user"]) {
        ("the pooler does not know this database or user", "add it to the pooler's configuration")
    } else if mentions(&["sasl", "auth", "password"]) {
        (
            "the login was refused",
            "correct the user and password in the URL, and in the pooler's list of users if there is one",
        )
    } else {
        (
            "no session could be opened",
            "check that the program at this address is PostgreSQL, and read its log at this time",
        )
    }
}

/// The message of the server or pooler, or that of the innermost cause.
fn innermost(error: &reveille_pg::Error) -> String {
    let mut cause: &(dyn StdError + 'static) = error;
    loop {
        if let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() {
            return answer.message().to_owned();
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => return cause.to_string(),
        }
    }
}

/// Whether the connection is encrypted. It need not be on loopback or a socket.
async fn encryption(database: &reveille_pg::Database) -> Finding {
    const WHAT: &str = "encryption";
    const SQL: &str = "select coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) \
                           as encrypted, \
                       coalesce(inet_server_addr() <<= any (array['127.0.0.0/8', '::1/128']::inet[]), true) as here";
    match ask(database, SQL).await {
        Err(error) => unanswered(WHAT, &error),
        Ok(row) => {
            let is = |name| column::<bool>(&row, name).unwrap_or(false);
            if is("encrypted") {
                Finding::ok(WHAT, "the connection is encrypted")
            } else if is("here") {
                Finding::ok(WHAT, "not encrypted; the connection uses loopback or a socket")
            } else {
                Finding::warn(
                    WHAT,
                    "not encrypted: the data can be read on the network",
                    "unless the network is private, set `ssl = on` on the server and add ?sslmode=require to the URL",
                )
            }
        }
    }
}
