//! How items reach their waiters, and how they are given back.
//!
//! Items whose waiter has gone are handed to the next waiter they fit, or given back to the table with a wake-up, so
//! that they do not stay leased until the lease ends.

use std::sync::Arc;

use reveille_pg::retry::{Policy, retry};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Error;
use crate::in_progress::InProgressGuard;
use crate::notify::channel::{Topic, WakeUp};
use crate::wait::claim::{Claim, Claimed};
use crate::wait::consumer::{Inner, Reply, Request};
use crate::wait::group::Dismissed;

/// Items, and where to send them.
pub(crate) type Delivery<C> = (oneshot::Sender<Reply<C>>, Vec<<C as Claim>::Item>);

impl<C: Claim> Inner<C> {
    /// Sends items to their waiters. Items of a waiter that has gone are given back, which takes the lock: never call
    /// this under the lock.
    pub(crate) fn deliver(self: &Arc<Self>, key: &C::Key, deliveries: Vec<Delivery<C>>) {
        for (reply, items) in deliveries {
            drop(reply.send(Ok(Some(Claimed::new(self.clone(), key.clone(), items)))));
        }
    }

    pub(crate) fn dismiss(&self, dismissed: impl IntoIterator<Item = Dismissed<Request<C>>>) {
        for Dismissed { request, failure } in dismissed {
            let unavailable = |source| Err(Error::Unavailable { what: self.name.clone(), source });
            drop(request.reply.send(failure.map_or(Ok(None), unavailable)));
        }
    }

    /// Gives back items whose waiter has gone: to the next waiter they fit, or to the table.
    pub(crate) fn give_back(self: &Arc<Self>, key: C::Key, items: Vec<C::Item>) {
        self.metrics.given_back.add(items.len() as u64);
        let now = Instant::now();
        let (mut deliveries, mut unwanted) = (Vec::new(), Vec::new());
        {
            let mut state = self.state.lock();
            let id = state.ids.get(&key).copied();
            for item in items {
                let entry = id.and_then(|id| state.groups.get_mut(&id));
                let fits = |request: &Request<C>| self.claim.fits(&item, &request.args);
                match entry.and_then(|entry| entry.group.take_idle_waiter(now, fits)) {
                    Some(request) => deliveries.push((request.reply, vec![item])),
                    None => unwanted.push(item),
                }
            }
            state.waiters -= deliveries.len();
            if let Some(id) = id {
                self.group_changed(&mut state, id);
            }
        }
        self.deliver(&key, deliveries);
        if !unwanted.is_empty() {
            let in_progress = self.in_progress.begin();
            self.runtime.spawn(self.clone().return_to_table(key, unwanted, in_progress));
        }
    }

    async fn return_to_table(self: Arc<Self>, key: C::Key, items: Vec<C::Item>, _in_progress: InProgressGuard) {
        let wake_ups: Vec<WakeUp> = self.claim.topics(&key).into_iter().map(Topic::into_wake_up).collect();
        let (channels, payloads) = crate::Wake::notifications(&wake_ups);
        let notify = self.dispatcher.schema.sql(reveille_pg::statement!("notify"));
        let policy = Policy::default();
        // This is rare, so it notifies in its own transaction: the wake-up cannot be lost.
        let returned = retry(&policy, "give_back", |_| {
            self.within_timeout(async {
                let mut transaction = self.db.begin().await?;
                self.claim.give_back(&mut transaction, &items).await?;
                sqlx::query(&notify).bind(&channels).bind(&payloads).execute(&mut *transaction).await?;
                Ok(transaction.commit().await?)
            })
        });
        if let Err(error) = returned.await {
            let items = items.len();
            tracing::warn!(consumer = &*self.name, %error, items, "cannot give back claimed items; they stay leased");
            return;
        }
        self.claim.given_back();
        self.dispatcher.wake_local(&wake_ups, Instant::now());
    }
}
