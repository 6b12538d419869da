//! The views for psql.

use duroxide::providers::Provider as _;

use crate::calls::{Done, ack, fetch, send, start};
use crate::fixture::Fixture;
use crate::races::LEASE;

/// `events` returns every history: U+0000, which PostgreSQL cannot show, is shown as U+FFFD, and what only looks like
/// it stays.
/// A turn whose input has U+0000 twice in a row and the six characters that stand for it in JSON, behind one backslash
/// and behind two.
#[tokio::test]
async fn events_are_shown_whatever_is_in_them() {
    let Fixture { db, provider } = Fixture::new().await;
    let input = "a\0\0b \\\0 \\u0000 \\\\u0000";
    send(&provider, start("a", input)).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    ack(&provider, &token, Done::first("a", input)).await.expect("acked");
    provider.flush().await;
    let sql = db.schema().sql("select event_id, event_type, event ->> 'input' from {schema}.events('a')");
    let shown: Vec<(i64, String, String)> = sqlx::query_as(&sql).fetch_all(db.database().pool()).await.expect("events");
    assert_eq!(shown, [(1, "OrchestrationStarted".to_owned(), input.replace('\0', "\u{fffd}"))]);
    assert_eq!(provider.read("a").await.expect("a history").len(), 1);
}
