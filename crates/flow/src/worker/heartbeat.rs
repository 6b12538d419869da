//! How a worker says that it is still at its steps, all of them together, and saves checkpoints on the way.
//!
//! One call is under way at a time. What comes meanwhile goes with the next, so many handlers that save often cost no more calls than one.

use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Result;
use crate::flow::Flow;
use crate::renew::Alive;
use crate::settle::{Failure, Refused};
use crate::token::Token;

/// Calls within one lease: two may fail before it ends.
const PER_LEASE: u32 = 3;
/// When a call failed, the next is this much later at most.
const AGAIN: Duration = Duration::from_secs(1);
/// Checkpoints in one call at most.
const SAVES_MAX: usize = 1_000;

/// A checkpoint to be saved.
#[derive(Debug)]
pub(super) struct Save {
    pub(super) token: Token,
    pub(super) checkpoint: Box<RawValue>,
    pub(super) answer: oneshot::Sender<Result<(), Failure>>,
}

/// What a call has answered.
pub(super) struct Heard {
    /// When it began: leases last from then at least.
    pub(super) since: Instant,
    pub(super) answers: Result<Vec<(Token, Result<(), Refused>)>>,
}

/// When the next call is due, and what goes with it.
pub(super) struct Heartbeat {
    lease: Duration,
    next: Instant,
    saves: Vec<Save>,
    under_way: Option<Pin<Box<dyn Future<Output = Heard> + Send>>>,
}

impl Heartbeat {
    pub(super) fn new(lease: Duration, now: Instant) -> Heartbeat {
        Heartbeat { lease, next: now + lease / PER_LEASE, saves: Vec::new(), under_way: None }
    }

    /// When to come back here.
    pub(super) fn next(&self) -> Option<Instant> {
        self.under_way.is_none().then_some(self.next)
    }

    pub(super) fn wants_saves(&self) -> bool {
        self.saves.len() < SAVES_MAX
    }

    pub(super) fn save(&mut self, save: Save) {
        self.saves.push(save);
    }

    /// Begins a call if one is due, or something is to be saved.
    pub(super) fn begin(&mut self, flow: &Flow, now: Instant, steps: impl Iterator<Item = Token>) {
        if self.under_way.is_some() || (now < self.next && self.saves.is_empty()) {
            return;
        }
        let lease = self.lease;
        let saves = std::mem::take(&mut self.saves);
        let saved = saves.iter().map(|save| (save.token, Some(save.checkpoint.clone())));
        let mut alive: Vec<(Token, Option<Box<RawValue>>)> = saved.collect();
        if now >= self.next {
            self.next = now + lease / PER_LEASE;
            alive.extend(steps.map(|token| (token, None)));
        }
        if alive.is_empty() {
            return;
        }
        let alive = alive.into_iter().map(|(token, checkpoint)| Alive { token, lease, checkpoint });
        let (flow, alive): (_, Vec<Alive>) = (flow.clone(), alive.collect());
        self.under_way = Some(Box::pin(async move {
            let answers = flow.heartbeat(&alive).await;
            for (place, save) in saves.into_iter().enumerate() {
                let answer = match &answers {
                    Ok(answers) => answers[place].map_err(|refused| Failure::new(refused.to_string())),
                    Err(error) => Err(Failure::new(format!("the checkpoint could not be saved: {error}"))),
                };
                let _ = save.answer.send(answer);
            }
            let tokens = alive.iter().map(|alive| alive.token);
            Heard { since: now, answers: answers.map(|answers| tokens.zip(answers).collect()) }
        }));
    }

    /// What the call under way answers; never, if there is none.
    pub(super) async fn heard(&mut self) -> Heard {
        let heard = match &mut self.under_way {
            Some(call) => call.await,
            None => std::future::pending().await,
        };
        self.under_way = None;
        if heard.answers.is_err() {
            self.next = self.next.min(Instant::now() + AGAIN.min(self.lease / PER_LEASE));
        }
        heard
    }
}
