//! A limit for what a statement may take.

use std::io;
use std::pin::pin;
use std::time::Duration;

use crate::Result;

/// Runs `work` for no longer than `limit`.
///
/// Time over is reported before `work` is dropped, so that whatever connection it holds is tested before anybody uses it again. A plain
/// timeout would put a connection back whose server has gone silent, and everybody would wait for it in turn.
///
/// # Errors
/// Those of `work`; [`Error::Interrupted`](crate::Error::Interrupted) when the time is over: it may or may not have happened.
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
