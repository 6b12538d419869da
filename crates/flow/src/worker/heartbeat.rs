//! How a worker says that it is still at its steps, all of them together.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::claim::renew::Renewal;
use crate::claim::token::Token;
use crate::complete::Refused;
use crate::error::Result;
use crate::flow::Flow;

/// How often within one lease: two may fail before it ends.
const PER_LEASE: u32 = 3;
/// After a failure it is said again this soon.
const AGAIN: Duration = Duration::from_secs(1);

/// What was answered.
pub(super) struct Heard {
    /// When it was said: leases last from then at least.
    pub(super) since: Instant,
    pub(super) answers: Result<Vec<(Token, Result<(), Refused>)>>,
}

/// When it is to be said next, and what is under way.
pub(super) struct Heartbeat {
    lease: Duration,
    next: Instant,
    under_way: Option<Pin<Box<dyn Future<Output = Heard> + Send>>>,
}

impl Heartbeat {
    pub(super) fn new(lease: Duration, now: Instant) -> Heartbeat {
        Heartbeat { lease, next: now + lease / PER_LEASE, under_way: None }
    }

    /// When to come back here.
    pub(super) fn next(&self) -> Option<Instant> {
        self.under_way.is_none().then_some(self.next)
    }

    /// Says it, if it is time.
    pub(super) fn begin(&mut self, flow: &Flow, now: Instant, steps: impl ExactSizeIterator<Item = Token>) {
        if self.under_way.is_some() || now < self.next {
            return;
        }
        self.next = now + self.lease / PER_LEASE;
        if steps.len() == 0 {
            return;
        }
        let (flow, lease, tokens) = (flow.clone(), self.lease, steps.collect::<Vec<Token>>());
        self.under_way = Some(Box::pin(async move {
            let alive = tokens.iter().map(|token| Renewal { token: *token, lease, checkpoint: None });
            let answers = flow.heartbeat(alive.collect()).await;
            Heard { since: now, answers: answers.map(|answers| tokens.into_iter().zip(answers).collect()) }
        }));
    }

    /// What is answered to what is under way; never, if nothing is.
    pub(super) async fn heard(&mut self) -> Heard {
        let heard = match &mut self.under_way {
            Some(said) => said.await,
            None => std::future::pending().await,
        };
        self.under_way = None;
        if heard.answers.is_err() {
            self.next = self.next.min(Instant::now() + AGAIN.min(self.lease / PER_LEASE));
        }
        heard
    }
}
