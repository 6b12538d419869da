//! What was received and has not ended: the receipt of each step until it is settled.
//!
//! From the claim on a message is worth nothing but its ack: the step is claimed, and whoever brings the message again finds that. So an ack that is lost, or never sent because the step
//! ended through another server, costs a delivery that is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Providers, Receipt};
use crate::claim::token::Token;
use crate::claim::unanswered::locked;
use crate::namespace::Provider;

/// How often what is held longer than its lease is looked for.
const SWEEP: Duration = Duration::from_secs(60);

type Key = (Uuid, i32, i64);

#[derive(Default)]
pub(crate) struct Held {
    steps: Mutex<Steps>,
    ended: Mutex<StepReport>,
}

/// To be acked: by one task, for as long as there are some, all at once that came while it acked those before.
#[derive(Default)]
struct StepReport {
    receipts: Vec<(Provider, Receipt)>,
    acking: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Steps {
    held: HashMap<Key, Step>,
    swept: Option<Instant>,
}

struct Step {
    provider: Provider,
    receipt: Receipt,
    until: Instant,
}

fn key(token: &Token) -> Key {
    (token.task, token.ordinal, token.fence)
}

impl Held {
    /// Keeps the receipt of a step that was claimed by it.
    pub(crate) fn hold(&self, provider: Provider, token: &Token, receipt: Receipt, lease: Duration) {
        let step = Step { provider, receipt, until: Instant::now() + lease };
        locked(&self.steps).held.insert(key(token), step);
    }

    /// A step lasts longer.
    pub(crate) fn extend(&self, token: &Token, lease: Duration) {
        if let Some(step) = locked(&self.steps).held.get_mut(&key(token)) {
            step.until = step.until.max(Instant::now() + lease);
        }
    }

    /// Takes what has ended, and now and then what nobody here has ended in time.
    fn take(&self, tokens: &[Token]) -> Vec<(Provider, Receipt)> {
        let now = Instant::now();
        let mut steps = locked(&self.steps);
        let mut taken: Vec<Step> = tokens.iter().filter_map(|token| steps.held.remove(&key(token))).collect();
        if *steps.swept.get_or_insert(now) + SWEEP < now {
            steps.swept = Some(now);
            taken.extend(steps.held.extract_if(|_, step| step.until < now).map(|(_, step)| step));
        }
        taken.into_iter().map(|step| (step.provider, step.receipt)).collect()
    }
}

impl Providers {
    /// Steps have ended, and that is committed: their messages are acked soon.
    pub(crate) fn ended(self: &Arc<Self>, tokens: &[Token]) {
        self.ack_soon(self.held.take(tokens));
    }

    /// Acks messages in the background, many at a time.
    pub(crate) fn ack_soon(self: &Arc<Self>, receipts: Vec<(Provider, Receipt)>) {
        if receipts.is_empty() {
            return;
        }
        let mut ended = locked(&self.held.ended);
        ended.receipts.extend(receipts);
        if ended.acking.as_ref().is_none_or(JoinHandle::is_finished) {
            ended.acking = Some(tokio::spawn(ack(self.clone())));
        }
    }

    /// Puts messages back in the background.
    pub(crate) fn release_soon(self: &Arc<Self>, provider: Provider, receipts: Vec<Receipt>) {
        if receipts.is_empty() {
            return;
        }
        let providers = self.clone();
        tokio::spawn(async move {
            let Ok(queue) = providers.get(provider) else { return };
            if let Err(error) = queue.release(None, receipts).await {
                tracing::debug!(
                    error = reveille_pg::causes(&error),
                    "messages were not put back; they come back by themselves"
                );
            }
        });
    }
}

async fn ack(providers: Arc<Providers>) {
    loop {
        let receipts = {
            let mut ended = locked(&providers.held.ended);
            if ended.receipts.is_empty() {
                ended.acking = None;
                return;
            }
            std::mem::take(&mut ended.receipts)
        };
        let mut by_provider: HashMap<Provider, Vec<Receipt>> = HashMap::new();
        for (provider, receipt) in receipts {
            by_provider.entry(provider).or_default().push(receipt);
        }
        for (provider, receipts) in by_provider {
            let Ok(queue) = providers.get(provider) else { continue };
            if let Err(error) = queue.ack(receipts).await {
                tracing::debug!(
                    error = reveille_pg::causes(&error),
                    "messages were not acked; they will come again, in vain"
                );
            }
        }
    }
}
