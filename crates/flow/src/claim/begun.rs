//! A claim that is about to be sent: where it scans.

use std::collections::HashMap;
use std::time::Duration;

use reveille_wake::{PollRequest, Scan, ScanBounds};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use tokio::time::Instant;

use crate::claim::full_scan::FullScans;
use crate::claim::{Args, Key};

/// How long after a step was found a claim defers its full scans: see [`ScanBounds::defer_full_scans`].
const BUSY: Duration = Duration::from_millis(500);

/// What is remembered of the claims of a key.
#[derive(Clone, Default)]
pub(super) struct Source {
    /// Step queues or namespace queues, sorted, and when a step was last found in each.
    pub(super) queues: Vec<(i64, Instant)>,
    /// When a step was last found.
    pub(super) found_at: Option<Instant>,
}

/// A claim that has begun.
pub(super) struct BegunClaim {
    pub(super) source: Source,
    pub(super) began: Instant,
    in_write: bool,
    scans: HashMap<i64, Scan>,
}

impl BegunClaim {
    /// Begins to scan the queues of a key.
    pub(super) fn new(source: Source, bounds: &ScanBounds<i64>, full_scans: &FullScans, in_write: bool) -> BegunClaim {
        let began = Instant::now();
        let queues: Vec<i64> = source.queues.iter().map(|(queue, _)| *queue).collect();
        let busy_until = source.found_at.map_or(began, |found_at| began.max(found_at + BUSY));
        if busy_until > began && !in_write {
            full_scans.start(&queues, began);
        }
        let begin = |queue: &i64| match in_write {
            true => (*queue, bounds.begin_in_write(queue, began)),
            false => (*queue, bounds.begin_busy(queue, busy_until, began)),
        };
        let scans = queues.iter().map(begin).collect();
        BegunClaim { source, began, in_write, scans }
    }

    /// The scan of a queue. One that was not remembered has a full scan.
    pub(super) fn scan(&self, queue: i64, bounds: &ScanBounds<i64>) -> Scan {
        let unknown = || match self.in_write {
            true => bounds.begin_in_write(&queue, self.began),
            false => bounds.begin_unbounded(self.began),
        };
        self.scans.get(&queue).copied().unwrap_or_else(unknown)
    }

    /// Binds the arguments of the function `claim_steps`, but for the last.
    pub(super) fn bind<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
        poll: &'q PollRequest<Key, Args>,
        fence: i64,
    ) -> Query<'q, Postgres, PgArguments> {
        let (key, waiters) = (&poll.key, &poll.waiters);
        let queues = || self.source.queues.iter().map(|(queue, _)| *queue);
        query
            .bind(&key.namespaces)
            .bind(&key.steps)
            .bind(&key.left_out)
            .bind(queues().collect::<Vec<_>>())
            .bind(queues().map(|queue| self.scans[&queue].bound_us).collect::<Vec<_>>())
            .bind(fence)
            .bind(waiters.iter().map(|waiter| waiter.want as i32).collect::<Vec<_>>())
            .bind(waiters.iter().map(|waiter| waiter.args.worker.as_str()).collect::<Vec<_>>())
            .bind(waiters.iter().map(|waiter| waiter.args.lease.as_millis() as i64).collect::<Vec<_>>())
    }
}
