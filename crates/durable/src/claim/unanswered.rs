//! Claims whose answer was lost: which they are, and how long others wait for them.

use std::io;
use std::time::Duration;

use reveille_wake::SentClaims;
use sqlx::postgres::PgRow;
use tokio::time::timeout;
use uuid::Uuid;

/// How long claims wait until leases of unanswered ones have been read.
const UNANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// The rows of a claim and the tokens that it was sent with. If the server has reported an error, it has leased nothing;
/// otherwise the next poll gives back what it may have leased.
pub(super) fn answered_unless_lost(
    claimed: sqlx::Result<Vec<PgRow>>,
    sent: SentClaims<Uuid>,
) -> reveille_pg::Result<(Vec<PgRow>, SentClaims<Uuid>)> {
    match claimed.map_err(reveille_pg::Error::from) {
        Ok(rows) => Ok((rows, sent)),
        Err(error) => {
            if !error.is_ambiguous() {
                sent.answered();
            }
            Err(error)
        }
    }
}

/// Reads what unanswered claims have leased. Every claim of the process waits for that: an error means that it takes too
/// long. Then the leases end by themselves.
pub(super) async fn within_reason<T>(read: impl Future<Output = T>) -> reveille_pg::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "unanswered claims could not be read in time");
    timeout(UNANSWERED_WITHIN, read).await.map_err(|elapsed| sqlx::Error::Io(late(elapsed)).into())
}
