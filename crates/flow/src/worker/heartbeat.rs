//! The heartbeats of a worker, which extend the leases of all its steps together.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::claim::renew::Renewal;
use crate::claim::token::Token;
use crate::complete::Refused;
use crate::error::Result;
use crate::flow::Flow;

/// Heartbeats per lease: two may fail before the lease ends.
const PER_LEASE: u32 = 3;
/// The pause before a failed heartbeat is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// The response to a heartbeat.
pub(super) struct HeartbeatResult {
    /// When it was sent: the leases last at least from then.
    pub(super) since: Instant,
    pub(super) answers: Result<Vec<(Token, Result<(), Refused>)>>,
}

/// When the next heartbeat is due, and the pending one.
pub(super) struct Heartbeat {
    lease: Duration,
    next: Instant,
    pending: Option<Pin<Box<dyn Future<Output = HeartbeatResult> + Send>>>,
}

impl Heartbeat {
    pub(super) fn new(lease: Duration, now: Instant) -> Heartbeat {
        Heartbeat { lease, next: now + lease / PER_LEASE, pending: None }
    }

    /// When the next heartbeat is due. `None` while one is pending.
    pub(super) fn next(&self) -> Option<Instant> {
        self.pending.is_none().then_some(self.next)
    }

    /// Sends a heartbeat if it is due.
    pub(super) fn begin(&mut self, flow: &Flow, now: Instant, steps: impl ExactSizeIterator<Item = Token>) {
        if self.pending.is_some() || now < self.next {
            return;
        }
        self.next = now + self.lease / PER_LEASE;
        if steps.len() == 0 {
            return;
        }
        let (flow, lease, tokens) = (flow.clone(), self.lease, steps.collect::<Vec<Token>>());
        self.pending = Some(Box::pin(async move {
            let alive = tokens.iter().map(|token| Renewal { token: *token, lease, checkpoint: None });
            let answers = flow.heartbeat(alive.collect()).await;
            HeartbeatResult { since: now, answers: answers.map(|answers| tokens.into_iter().zip(answers).collect()) }
        }));
    }

    /// Waits for the response to the pending heartbeat; forever if there is none.
    pub(super) async fn result(&mut self) -> HeartbeatResult {
        let result = match &mut self.pending {
            Some(sent) => sent.await,
            None => std::future::pending().await,
        };
        self.pending = None;
        if result.answers.is_err() {
            self.next = self.next.min(Instant::now() + AGAIN.min(self.lease / PER_LEASE));
        }
        result
    }
}
