//! A client-side timeout for statements.

use std::io;
use std::pin::pin;
use std::time::Duration;

use crate::Result;

/// Runs `work` for at most `limit`.
///
/// The timeout is reported before `work` is dropped, so that its connection is tested before it is reused. A plain
/// timeout would return the connection of an unresponsive server to the pool, and each later user would wait for it.
///
/// # Errors
/// Those of `work`; [`Error::Interrupted`](crate::Error::Interrupted) after `limit`: the work may or may not have taken
/// effect.
pub async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => done,
        () = tokio::time::sleep(limit) => {
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")).into())
        }
    }
}
