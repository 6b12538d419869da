//! Whether prepared statements and notifications work over this connection.
//!
//! A transaction-mode pooler gives a client another server connection for every transaction. The state of a connection
//! is then lost: prepared statements, and LISTEN. Both commands succeed where they are made, so that the set-up seems
//! to work, and the loss shows only later.

use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::time::timeout;

use super::{
    ANSWER_TIMEOUT, MAIN, Target, ask, column,
    finding::{Finding, Report},
    unanswered,
};
use crate::{config, error::explain};

/// How long a notification may take to arrive. It normally takes less than a millisecond; a busy server must not fail
/// the check.
const ARRIVES_WITHIN: Duration = Duration::from_secs(3);

/// How many times two sessions are compared to detect a pooler: it may by chance give them different server
/// connections.
const POOLER_TRIES: usize = 5;

/// How many statements with parameters are sent: enough to reach more than one server connection of a pooler.
const PREPARED_ROUNDS: i32 = 10;

/// The fix if LISTEN does not work.
const DIRECT_FIX: &str = "set --direct-url (REVEILLE_DIRECT_URL) to the URL of PostgreSQL itself, without the pooler; \
                          one or two connections per process use it";

/// Checks for a pooler, prepared statements and notifications.
pub(super) async fn examine(database: &reveille_pg::Database, settings: &config::Database, report: &mut Report) {
    if !settings.pooler && examine_directness(&MAIN, database, report).await.is_none() {
        return;
    }
    report.add(prepared(database).await);
    report.add(notification(database).await);
}

/// Checks for a pooler that is not configured. `None` if there is one.
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
                "{} points to a transaction-mode pooler, such as PgBouncer, and --pooler is not set: prepared \
                     statements and notifications get lost in it",
                target.key
            ),
            target.pooler_fix,
        ),
        Err(error) => unanswered(WHAT, &error),
    })
}

/// Whether two open sessions share a server process, which only happens through a pooler.
async fn is_pooled(database: &reveille_pg::Database) -> reveille_pg::Result<bool> {
    const SQL: &str = "select pg_backend_pid() as pid";
    for _ in 0..POOLER_TRIES {
        // Kept open, so that the second query uses another connection.
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
        if let Err(error) = select_parameter(database, round).await {
            return Finding::fail(
                WHAT,
                format!("a statement with parameters failed: {}", explain(&error)),
                "if there is a pooler in between, add --pooler (REVEILLE_POOLER=true)",
            );
        }
    }
    Finding::ok(WHAT, "statements with parameters work")
}

async fn select_parameter(database: &reveille_pg::Database, value: i32) -> reveille_pg::Result<()> {
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
            "LISTEN is not possible through a pooler: reveille polls instead, so that idle processes send queries \
                 and work is found later",
            DIRECT_FIX,
        );
    }
    match timeout(ANSWER_TIMEOUT + ARRIVES_WITHIN, wake_up(database)).await {
        Ok(Ok(true)) => Finding::ok(WHAT, "sent on one connection, arrived on another"),
        Ok(Ok(false)) => Finding::fail(
            WHAT,
            "a notification was sent and did not arrive: the direct URL points to a transaction-mode pooler, or to \
                 another database",
            DIRECT_FIX,
        ),
        Ok(Err(error)) => Finding::fail(
            WHAT,
            format!("LISTEN does not work: {}", explain(&error)),
            "LISTEN needs a connection to the primary itself: not to a standby, not through a transaction-mode \
                 pooler; if DATABASE_URL does not lead there, set --direct-url (REVEILLE_DIRECT_URL)",
        ),
        Err(_) => {
            Finding::fail(WHAT, "LISTEN was not answered in time", "check the server's load and the network to it")
        }
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
