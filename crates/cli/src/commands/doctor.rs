//! `reveille doctor`: what is wrong with a set-up, and how to fix it.
//!
//! The checks go from the outside in, the way a connection does: the address, the login, the server, the schema, the
//! listening. Each prints one line that a newcomer understands, and its fix if it needs one. A check whose ground is
//! missing is not made: one broken thing is reported once, not as ten failures.
//!
//! Nothing is changed: no schema is made, no PostgreSQL is started. A notification is sent on a channel of its own.

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

/// The longest wait for any answer of the server: a healthy one answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest that all of it may take: a connection can die so that nobody says it.
const WHOLE: Duration = Duration::from_secs(60);

/// Connections the examination needs: two at once, to see whether they are really two.
const CONNECTIONS: u32 = 2;

/// A URL that is looked at.
struct Target {
    /// Where it was given.
    key: &'static str,
    /// What to do when there turns out to be a pooler behind it.
    pooler_fix: &'static str,
}

const MAIN: Target = Target {
    key: "DATABASE_URL",
    pooler_fix: "add --pooler (REVEILLE_POOLER=true), so that nothing is sent that a pooler cannot carry; and give the URL that \
                 leads to PostgreSQL itself with --direct-url (REVEILLE_DIRECT_URL), for LISTEN, which no transaction-mode \
                 pooler can carry",
};

const DIRECT: Target = Target {
    key: "REVEILLE_DIRECT_URL",
    pooler_fix: "give the host and port of PostgreSQL itself with --direct-url (REVEILLE_DIRECT_URL): LISTEN does not get through \
                 a transaction-mode pooler",
};

/// `reveille doctor`.
pub(super) async fn run(args: config::Doctor) -> Result<(), Error> {
    let mut report = Report::default();
    if timeout(WHOLE, examine(&args, &mut report)).await.is_err() {
        report.add(Finding::fail(
            "time",
            format!("no answer within {} s: a connection was made, and then nothing came over it", WHOLE.as_secs()),
            "look at the load of the server, and for a firewall or proxy in between that swallows packets",
        ));
    }
    report.finish()
}

/// Makes every check whose ground is there.
async fn examine(args: &config::Doctor, report: &mut Report) {
    let Some(url) = args.database.url() else {
        report.note("no DATABASE_URL: looking at what `reveille up` needs on this machine");
        machine::examine(&args.embedded, report).await;
        return;
    };
    let mut options = args
        .database
        .options()
        .application_name("reveille doctor")
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .statement_timeout(PATIENCE);
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
            // Without it the rest can still be looked at.
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

/// The one row that a statement without parameters answers, by the simple protocol: the only one that works whatever is
/// in between.
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

/// The finding for a question that the server did not answer.
fn unanswered(what: &'static str, error: &reveille_pg::Error) -> Finding {
    Finding::fail(
        what,
        format!("the server did not answer: {}", crate::error::explain(error)),
        "run the command again; if it stays, look at the server's log at this time",
    )
}
