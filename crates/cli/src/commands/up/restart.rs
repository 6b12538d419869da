//! Restarts the private PostgreSQL.
//!
//! A PostgreSQL that exits while the server runs (killed, crashed, stopped by hand) is restarted on the same port,
//! after a pause that grows with repeated failures. After [`MAX_FAILURES`] in a row everything stops with the path of
//! its log.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use reveille_pg::embedded::Cluster;
use sqlx::{PgPool, postgres::PgListener};
use tokio::time::{sleep, timeout};

use crate::{
    error::{Error, explain},
    shutdown::Shutdown,
};

/// The pauses before PostgreSQL is started again: they double from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often PostgreSQL may end, or fail to start, in a row before everything stops.
const MAX_FAILURES: u32 = 5;

/// After running for this long, an exit counts as the first failure again.
const STEADY_AFTER: Duration = Duration::from_secs(60);

/// How often to check a PostgreSQL that runs and has closed the watching connection, as it does while it stops or
/// recovers.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// How long the watching connection may take to open before the process is checked again.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How long the watching connection may take to be closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Waits for `serving`, and meanwhile restarts PostgreSQL whenever it exits.
///
/// # Errors
/// That of `serving`, or [`Error::PostgresFails`]: then `serving` was asked to stop and has done so.
pub(super) async fn keep_running(
    cluster: &Cluster,
    database: &reveille_pg::Database,
    shutdown: &Shutdown,
    serving: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let mut serving = pin!(serving);
    let pool = match database.dedicated("reveille watch", &[]) {
        Ok(pool) => pool,
        Err(error) => {
            tracing::warn!(error = explain(&error), "PostgreSQL is not watched");
            return serving.await;
        }
    };
    let served = tokio::select! {
        served = &mut serving => served,
        error = watch(cluster, &pool) => {
            shutdown.request();
            let _ = serving.await;
            Err(error)
        }
    };
    // Closed before PostgreSQL is stopped, so that no connection breaks.
    let _ = timeout(CLOSE_WITHIN, pool.close()).await;
    served
}

/// Restarts PostgreSQL whenever it exits. Returns after too many failures.
///
/// An idle connection is held open; its end signals the exit, so that no polling is needed.
async fn watch(cluster: &Cluster, pool: &PgPool) -> Error {
    let mut failures = Failures::started(Instant::now());
    loop {
        if let Ok(Ok(mut connection)) = timeout(CONNECT_WITHIN, PgListener::connect_with(pool)).await {
            connection.eager_reconnect(false);
            while let Ok(Some(_)) = connection.try_recv().await {}
        }
        if cluster.pid().is_some() {
            sleep(CHECK_EVERY).await;
            continue;
        }
        let log = cluster.log_path();
        let Some(pause) = failures.ended(Instant::now()) else {
            return Error::PostgresFails { times: MAX_FAILURES, log };
        };
        tracing::error!(log = %log.display(), "PostgreSQL exited unexpectedly; see its log; restarting it");
        sleep(pause).await;
        match cluster.start_again().await {
            Ok(()) => {
                failures.is_up(Instant::now());
                tracing::info!("PostgreSQL runs again");
            }
            Err(error) => tracing::error!(error = explain(&error), "PostgreSQL could not be restarted"),
        }
    }
}

/// How often PostgreSQL has ended or failed to start in a row.
#[derive(Debug)]
struct Failures {
    count: u32,
    /// When it was last known to start; `None` if its last start failed.
    up_since: Option<Instant>,
}

impl Failures {
    fn started(now: Instant) -> Self {
        Self { count: 0, up_since: Some(now) }
    }

    fn is_up(&mut self, now: Instant) {
        self.up_since = Some(now);
    }

    /// It has ended, or its start has failed. How long to wait before the next start; `None` means that there is none.
    fn ended(&mut self, now: Instant) -> Option<Duration> {
        let was_steady = self.up_since.take().is_some_and(|since| now.duration_since(since) >= STEADY_AFTER);
        self.count = if was_steady { 1 } else { self.count + 1 };
        if self.count >= MAX_FAILURES {
            return None;
        }
        Some(FIRST_PAUSE.saturating_mul(1 << (self.count - 1)).min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses grow with failures in a row, which end in giving up; a server that ran for long starts over, one that
    /// exits at once does not. Time is passed explicitly.
    #[test]
    fn repeated_failures_end_in_giving_up_and_a_steady_server_starts_over() {
        let start = Instant::now();
        let mut failures = Failures::started(start);
        let pauses: Vec<_> = (0..MAX_FAILURES).map(|_| failures.ended(start)).collect();
        let expected = [100, 200, 400, 800].map(|pause| Some(Duration::from_millis(pause)));
        assert_eq!(pauses[..4], expected);
        assert_eq!(pauses[4], None);

        let mut failures = Failures::started(start);
        for round in 1..=20 {
            let now = start + STEADY_AFTER * round;
            assert_eq!(failures.ended(now), Some(FIRST_PAUSE), "round {round}");
            failures.is_up(now);
        }
        let mut failures = Failures::started(start);
        let mut ended = 0;
        while failures.ended(start + STEADY_AFTER / 2).is_some() {
            failures.is_up(start + STEADY_AFTER / 4);
            ended += 1;
        }
        assert_eq!(ended + 1, MAX_FAILURES);
    }
}
