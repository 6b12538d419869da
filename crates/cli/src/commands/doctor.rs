//! `reveille doctor`: what is wrong with a set-up, and how to fix it.
//!
//! The checks follow the order of a connection: the address, the login, the server, the schema, notifications. Each
//! prints one line, and how to fix the problem if there is one. A check that depends on a failed one is skipped, so
//! that one problem is reported once.
//!
//! Nothing is changed: no schema is created, no PostgreSQL is started. A notification is sent on a channel of its own.

mod address;
mod finding;
mod listening;
mod login;
mod machine;
mod schema;
mod server;

use std::time::Duration;

use finding::{Finding, Report};
use sqlx::{Row as _, postgres::PgRow};
use tokio::time::timeout;

use crate::{config, error::Error};

/// The longest wait for one answer of the server: normally it takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that all checks may take: a connection can break without an error.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Connections that the checks need: two at once, to detect a pooler that serves both by one server connection.
const CONNECTIONS: u32 = 2;

/// A URL that is checked.
struct Target {
    /// The setting that contains it.
    key: &'static str,
    /// The fix if it points to a pooler.
    pooler_fix: &'static str,
}

const MAIN: Target = Target {
    key: "DATABASE_URL",
    pooler_fix: "add --pooler (REVEILLE_POOLER=true), so that no prepared statements are used; and set --direct-url \
                 (REVEILLE_DIRECT_URL) to the URL of PostgreSQL itself, for LISTEN, which does not work through a \
                 transaction-mode pooler",
};

const DIRECT: Target = Target {
    key: "REVEILLE_DIRECT_URL",
    pooler_fix: "set --direct-url (REVEILLE_DIRECT_URL) to the host and port of PostgreSQL itself: LISTEN does not \
                 work through a transaction-mode pooler",
};

/// `reveille doctor`.
pub(super) async fn run(args: config::Doctor) -> Result<(), Error> {
    let mut report = Report::default();
    if timeout(TOTAL_TIMEOUT, examine(&args, &mut report)).await.is_err() {
        report.add(Finding::fail(
            "time",
            format!(
                "the checks did not end within {} s: a connection was opened and then stalled",
                TOTAL_TIMEOUT.as_secs()
            ),
            "check the load of the server, and whether a firewall or proxy on the way drops packets",
        ));
    }
    report.finish()
}

/// Makes every check whose prerequisites are met.
async fn examine(args: &config::Doctor, report: &mut Report) {
    let Some(url) = args.database.url() else {
        report.note("DATABASE_URL is not set: checking what `reveille up` needs on this machine");
        machine::examine(&args.embedded, report).await;
        return;
    };
    let mut options = args
        .database
        .options()
        .application_name("reveille doctor")
        .max_connections(CONNECTIONS)
        .acquire_timeout(ANSWER_TIMEOUT)
        .statement_timeout(ANSWER_TIMEOUT);
    if let Some(direct) = args.database.direct_url() {
        report.note("the direct URL, for LISTEN:");
        let direct_options = options.clone().pooler(false).listen_url(None);
        let database = login::examine(&DIRECT, direct.reveal(), &direct_options, report).await;
        let works = match database {
            None => None,
            Some(database) => {
                let works = listening::examine_directness(&DIRECT, &database, report).await;
                database.close().await;
                works
            }
        };
        if works.is_none() {
            // The other checks do not need it.
            options.listen_url = None;
        }
        report.note("the database URL:");
    }
    let Some(database) = login::examine(&MAIN, url.reveal(), &options, report).await else { return };
    if server::examine(&database, &args.database, report).await.is_none() {
        return;
    }
    schema::examine(&database, &args.database, report).await;
    listening::examine(&database, &args.database, report).await;
    database.close().await;
}

/// The one row that a statement without parameters returns, by the simple protocol: the only one that works through
/// every pooler.
async fn ask(database: &reveille_pg::Database, sql: &'static str) -> reveille_pg::Result<PgRow> {
    let mut session = database.session().await?;
    let row = sqlx::raw_sql(sql).fetch_one(&mut *session).await?;
    session.finish().await?;
    Ok(row)
}

/// A column of such a row; `None` if it is null or not of that type.
fn column<'r, T>(row: &'r PgRow, name: &str) -> Option<T>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(name).ok()
}

/// The finding for a query that failed.
fn unanswered(what: &'static str, error: &reveille_pg::Error) -> Finding {
    Finding::fail(
        what,
        format!("the server did not answer: {}", crate::error::explain(error)),
        "run the command again; if it fails again, check the server's log at this time",
    )
}
