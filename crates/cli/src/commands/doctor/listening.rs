//! Whether this way to the database carries everything that is sent over it: prepared statements, and notifications.
//!
//! A transaction-mode pooler gives a client another server connection for every transaction. What belongs to a connection
//! is then lost: a statement prepared on it, and the LISTEN made on it. Neither fails where it is made, which is why the
//! set-up looks right and work is found late.

use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::time::timeout;

use super::{
    MAIN, PATIENCE, Target, ask, column,
    finding::{Finding, Report},
    unanswered,
};
use crate::{config, error::explain};

/// How long a notification may take to arrive: it takes well under a millisecond, and a busy server must not look broken.
const ARRIVES_WITHIN: Duration = Duration::from_secs(3);

/// How often to look for a pooler behind the URL, which need not show itself the first time.
const POOLER_LOOKS: usize = 5;

/// Statements with parameters sent to see whether prepared ones survive: enough to meet more than one server connection.
const PREPARED_ROUNDS: i32 = 10;

/// What to do about a LISTEN that does not get through.
const DIRECT_FIX: &str = "give the URL that leads to PostgreSQL itself, without the pooler, with --direct-url or \
                          REVEILLE_DIRECT_URL; it is used for one or two connections per process";

/// Looks at poolers, prepared statements and notifications.
pub(super) async fn examine(database: &reveille_pg::Database, settings: &config::Database, report: &mut Report) {
    if !settings.pooler && examine_directness(&MAIN, database, report).await.is_none() {
        return;
    }
    report.add(prepared(database).await);
    report.add(notification(database).await);
}

/// Looks for a pooler that nobody told us of. `None` if there is one.
pub(super) async fn examine_directness(
    target: &Target,
    database: &reveille_pg::Database,
    report: &mut Report,
) -> Option<()> {
    const WHAT: &str = "pooler";
    report.add(match is_pooled(database).await {
        Ok(false) => Finding::ok(WHAT, "none in between"),
        Ok(true) => Finding::fail(
            WHAT,
            format!(
                "{} leads through a transaction-mode pooler, such as PgBouncer, and reveille was not told: prepared statements \
                 and notifications get lost in it",
                target.key
            ),
            target.pooler_fix,
        ),
        Err(error) => unanswered(WHAT, &error),
    })
}

/// Whether two sessions of ours are served by one and the same server process, which only a pooler does.
async fn is_pooled(database: &reveille_pg::Database) -> reveille_pg::Result<bool> {
    const SQL: &str = "select pg_backend_pid() as pid";
    for _ in 0..POOLER_LOOKS {
        // Held, so that the second question goes over another connection.
        let mut first = database.session().await?;
        let row = sqlx::raw_sql(SQL).fetch_one(&mut *first).await?;
        let second = ask(database, SQL).await?;
        first.finish().await?;
        if column::<i32>(&row, "pid") == column::<i32>(&second, "pid") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether statements with parameters work, as the products send them.
async fn prepared(database: &reveille_pg::Database) -> Finding {
    const WHAT: &str = "prepared statements";
    for round in 0..PREPARED_ROUNDS {
        if let Err(error) = echo(database, round).await {
            return Finding::fail(
                WHAT,
                format!("a statement with parameters failed: {}", explain(&error)),
                "if there is a pooler in between, add --pooler (REVEILLE_POOLER=true)",
            );
        }
    }
    Finding::ok(WHAT, "statements with parameters work")
}

async fn echo(database: &reveille_pg::Database, value: i32) -> reveille_pg::Result<()> {
    let mut session = database.session().await?;
    sqlx::query("select $1::int").bind(value).execute(&mut *session).await?;
    session.finish().await
}

/// Whether a notification sent on one connection arrives on the listening one.
async fn notification(database: &reveille_pg::Database) -> Finding {
    const WHAT: &str = "notifications";
    if !database.can_listen() {
        return Finding::warn(
            WHAT,
            "no LISTEN through a pooler: reveille polls instead, so idle processes ask the database all the time and work is found \
             later",
            DIRECT_FIX,
        );
    }
    match timeout(PATIENCE + ARRIVES_WITHIN, wake_up(database)).await {
        Ok(Ok(true)) => Finding::ok(WHAT, "sent on one connection, arrived on another"),
        Ok(Ok(false)) => Finding::fail(
            WHAT,
            "a notification was sent and did not arrive: the direct URL leads through a transaction-mode pooler, or to \
             another database",
            DIRECT_FIX,
        ),
        Ok(Err(error)) => Finding::fail(
            WHAT,
            format!("LISTEN does not work: {}", explain(&error)),
            "LISTEN needs a connection to the primary itself: not to a standby, not through a transaction-mode pooler; if \
             DATABASE_URL cannot be that, --direct-url can",
        ),
        Err(_) => Finding::fail(
            WHAT,
            "LISTEN got no answer in time",
            "look at the server's load, and at the network between here and there",
        ),
    }
}

/// Listens directly, notifies through the pool; whether it arrived.
async fn wake_up(database: &reveille_pg::Database) -> reveille_pg::Result<bool> {
    let channel = format!("reveille_doctor_{}", std::process::id());
    let direct = database.dedicated("reveille doctor", &[])?;
    let mut listener = PgListener::connect_with(&direct).await?;
    listener.listen(&channel).await?;
    let mut session = database.session().await?;
    sqlx::query("select pg_notify($1, '')").bind(&channel).execute(&mut *session).await?;
    session.finish().await?;
    let arrived = timeout(ARRIVES_WITHIN, listener.recv()).await;
    drop(listener);
    direct.close().await;
    Ok(matches!(arrived, Ok(Ok(_))))
}
