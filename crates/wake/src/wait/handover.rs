//! How items reach their waiters, and how they come back.
//!
//! What was claimed for somebody who is gone goes to the next waiter it fits, or to the table, with a ring: it must not sit out a lease.

use std::sync::Arc;

use pg::retry::{Policy, retry};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Error;
use crate::notify::channel::{Topic, WakeUp};
use crate::underway::Passage;
use crate::wait::claim::{Claim, Claimed};
use crate::wait::consumer::{Inner, Reply, WaitHandle};
use crate::wait::group::Dismissed;

/// Items, and whom they are for.
pub(crate) type Delivery<C> = (oneshot::Sender<Reply<C>>, Vec<<C as Claim>::Item>);

impl<C: Claim> Inner<C> {
    /// Sends answers. What cannot be delivered any more comes back and is given back, which takes the lock: never call it
    /// under the lock.
    pub(crate) fn deliver(self: &Arc<Self>, key: &C::Key, deliveries: Vec<Delivery<C>>) {
        for (reply, items) in deliveries {
            drop(reply.send(Ok(Some(Claimed::new(self.clone(), key.clone(), items)))));
        }
    }

    pub(crate) fn dismiss(&self, dismissed: impl IntoIterator<Item = Dismissed<WaitHandle<C>>>) {
        for Dismissed { waiter, failure } in dismissed {
            let unavailable = |source| Err(Error::Unavailable { what: self.name.clone(), source });
            drop(waiter.reply.send(failure.map_or(Ok(None), unavailable)));
        }
    }

    /// Gives items back whose waiter is gone: to the next waiter they fit, or to the table.
    pub(crate) fn give_back(self: &Arc<Self>, key: C::Key, items: Vec<C::Item>) {
        self.metrics.given_back.add(items.len() as u64);
        let now = Instant::now();
        let (mut deliveries, mut homeless) = (Vec::new(), Vec::new());
        {
            let mut state = self.state();
            let id = state.ids.get(&key).copied();
            for item in items {
                let entry = id.and_then(|id| state.groups.get_mut(&id));
                let fits = |waiter: &WaitHandle<C>| self.claim.fits(&item, &waiter.args);
                match entry.and_then(|entry| entry.group.take_idle(now, fits)) {
                    Some(waiter) => deliveries.push((waiter.reply, vec![item])),
                    None => homeless.push(item),
                }
            }
            state.waiters -= deliveries.len();
            if let Some(id) = id {
                self.settled(&mut state, id);
            }
        }
        self.deliver(&key, deliveries);
        if !homeless.is_empty() {
            let passage = self.underway.begin();
            self.runtime.spawn(self.clone().return_to_table(key, homeless, passage));
        }
    }

    /// Gives back what was taken ahead and nobody came for, what belongs together by one statement. Never call it under the lock.
    pub(crate) fn return_kept(self: &Arc<Self>, kept: Vec<(C::Key, Vec<Claimed<C>>)>) {
        for (key, claimed) in kept {
            let items: Vec<C::Item> = claimed.into_iter().flat_map(Claimed::accept).collect();
            if !items.is_empty() {
                self.give_back(key, items);
            }
        }
    }

    async fn return_to_table(self: Arc<Self>, key: C::Key, items: Vec<C::Item>, _underway: Passage) {
        let wake_ups: Vec<WakeUp> = self.claim.topics(&key).into_iter().map(Topic::into_wake_up).collect();
        let (channels, payloads) = crate::Wake::notifications(&wake_ups);
        let wake_up = self.dispatcher.schema.sql(pg::statement!("notify"));
        let policy = Policy::default();
        // It is rare, so it rings in its own transaction, and cannot be lost.
        let returned = retry(&policy, "give_back", |_| {
            self.within_time(async {
                let mut transaction = self.db.begin().await?;
                self.claim.give_back(&mut transaction, &items).await?;
                sqlx::query(&wake_up).bind(&channels).bind(&payloads).execute(&mut *transaction).await?;
                Ok(transaction.commit().await?)
            })
        });
        if let Err(error) = returned.await {
            let items = items.len();
            tracing::warn!(consumer = &*self.name, %error, items, "could not be given back; their leases end by themselves");
            return;
        }
        self.claim.given_back();
        self.dispatcher.wake_local(&wake_ups, Instant::now());
    }
}
