//! The receipts of claimed steps, kept until the steps end.
//!
//! A message is acked when its step has ended. If the ack is lost, or never sent because the step ended through another
//! server, the message is delivered again; the claim finds that the step is not ready and drops the message.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Providers, Receipt};
use crate::claim::token::Token;
use crate::namespace::Provider;

/// How often receipts are searched for expired leases.
const SWEEP: Duration = Duration::from_secs(60);

type Key = (Uuid, i32, i64);

#[derive(Default)]
pub(crate) struct Held {
    steps: Mutex<Steps>,
    pending: Mutex<PendingAcks>,
}

/// Receipts to ack. One task acks them while there are any: in each round all that were added during the one before.
#[derive(Default)]
struct PendingAcks {
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
    /// Keeps the receipt of a claimed step.
    pub(crate) fn hold(&self, provider: Provider, token: &Token, receipt: Receipt, lease: Duration) {
        let step = Step { provider, receipt, until: Instant::now() + lease };
        self.steps.lock().held.insert(key(token), step);
    }

    /// The lease of a step was extended.
    pub(crate) fn extend(&self, token: &Token, lease: Duration) {
        if let Some(step) = self.steps.lock().held.get_mut(&key(token)) {
            step.until = step.until.max(Instant::now() + lease);
        }
    }

    /// Takes the receipts of ended steps, and at intervals those of expired leases.
    fn take(&self, tokens: &[Token]) -> Vec<(Provider, Receipt)> {
        let now = Instant::now();
        let mut steps = self.steps.lock();
        let mut taken: Vec<Step> = tokens.iter().filter_map(|token| steps.held.remove(&key(token))).collect();
        if *steps.swept.get_or_insert(now) + SWEEP < now {
            steps.swept = Some(now);
            taken.extend(steps.held.extract_if(|_, step| step.until < now).map(|(_, step)| step));
        }
        taken.into_iter().map(|step| (step.provider, step.receipt)).collect()
    }
}

impl Providers {
    /// Acks the messages of steps that have ended, after the commit.
    pub(crate) fn ended(self: &Arc<Self>, tokens: &[Token]) {
        self.ack_soon(self.held.take(tokens));
    }

    /// Acks messages in the background, in batches.
    pub(crate) fn ack_soon(self: &Arc<Self>, receipts: Vec<(Provider, Receipt)>) {
        if receipts.is_empty() {
            return;
        }
        let mut pending = self.held.pending.lock();
        pending.receipts.extend(receipts);
        if pending.acking.as_ref().is_none_or(JoinHandle::is_finished) {
            pending.acking = Some(tokio::spawn(ack(self.clone())));
        }
    }

    /// Releases messages in the background.
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
                    "releasing messages failed; they become visible again by themselves"
                );
            }
        });
    }
}

async fn ack(providers: Arc<Providers>) {
    loop {
        let receipts = {
            let mut pending = providers.held.pending.lock();
            if pending.receipts.is_empty() {
                pending.acking = None;
                return;
            }
            std::mem::take(&mut pending.receipts)
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
                    "acking messages failed; they will be delivered again and dropped"
                );
            }
        }
    }
}
