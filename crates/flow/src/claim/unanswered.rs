//! Claims whose answers nobody heard: what they took is given back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Wake, WakeUp};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::claim::ClaimedStep;
use crate::name::{of_namespace, of_step};

/// Claims without an answer that are remembered until they are given back; those beyond it last as long as their leases.
const LOST_MAX: usize = 1_000;

/// Gives steps back, those of claims that were not heard included.
pub(crate) struct UnansweredClaims {
    channel: Channel,
    fences: Mutex<Vec<i64>>,
    unanswered_claims: Sql,
    report: Sql,
}

impl UnansweredClaims {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> UnansweredClaims {
        UnansweredClaims {
            channel,
            fences: Mutex::default(),
            unanswered_claims: schema.sql(reveille_pg::statement!("unanswered_claims")),
            report: schema.sql(reveille_pg::statement!("complete_steps")),
        }
    }

    /// A claim that is about to be sent.
    pub(crate) fn unheard(&self) -> PendingClaim<'_> {
        PendingClaim { lost: self, fence: random_fence(), heard: false }
    }

    /// Gives back what was claimed by looks whose answers nobody heard.
    pub(crate) async fn give_back_unanswered(&self, conn: &mut PgConnection) -> reveille_pg::Result<()> {
        let fences = std::mem::take(&mut *locked(&self.fences));
        if fences.is_empty() {
            return Ok(());
        }
        let unheard = |fence: &i64| PendingClaim { lost: self, fence: *fence, heard: false };
        let unheard = fences.iter().map(unheard).collect::<Vec<_>>();
        let found = sqlx::query_as(&self.unanswered_claims).bind(fences).fetch_all(&mut *conn).await?;
        self.unclaim(conn, found, self.channel.wake_up()).await?;
        unheard.into_iter().for_each(PendingClaim::heard);
        Ok(())
    }

    /// Gives back steps that nobody took.
    pub(crate) async fn give_back(&self, conn: &mut PgConnection, steps: &[ClaimedStep]) -> reveille_pg::Result<()> {
        // Whoever waits for one of them may belong to another group than who had it.
        let keys: Vec<String> = steps
            .iter()
            .flat_map(|step| [of_step(&step.namespace, &step.definition), of_namespace(&step.namespace)])
            .collect();
        let wake_up = self.channel.wake_up_keys(keys.iter().map(String::as_str));
        let claims = steps.iter().map(|step| (step.token.task, step.token.ordinal, step.token.fence));
        self.unclaim(conn, claims.collect(), wake_up).await
    }

    /// Gives steps back, as tasks, ordinals and fences.
    async fn unclaim(
        &self,
        conn: &mut PgConnection,
        claims: Vec<(Uuid, i32, i64)>,
        wake_up: WakeUp,
    ) -> reveille_pg::Result<()> {
        let (channels, payloads) = Wake::notifications(&[wake_up]);
        sqlx::query(&self.report)
            .bind(None::<Uuid>)
            .bind(channels)
            .bind(payloads)
            .bind(true)
            .bind(claims.iter().map(|(task, ..)| *task).collect::<Vec<_>>())
            .bind(claims.iter().map(|(_, ordinal, _)| *ordinal).collect::<Vec<_>>())
            .bind(claims.iter().map(|(.., fence)| *fence).collect::<Vec<_>>())
            .bind(claims.iter().map(|_| "given_back").collect::<Vec<_>>())
            .bind(claims.iter().map(|_| None::<&str>).collect::<Vec<_>>())
            .bind(claims.iter().map(|_| None::<i64>).collect::<Vec<_>>())
            // These tokens are the engine's own.
            .bind(None::<Vec<i32>>)
            .bind(None::<Vec<i32>>)
            .bind(None::<Vec<i32>>)
            .bind(None::<Vec<i32>>)
            .bind(None::<Vec<i32>>)
            .bind(None::<Vec<String>>)
            .execute(conn)
            .await?;
        Ok(())
    }
}

/// A claim whose answer has not been heard yet. Dropped, what it claimed is to be given back: it failed, or took too long.
pub(crate) struct PendingClaim<'a> {
    lost: &'a UnansweredClaims,
    /// The number of the claim.
    pub(crate) fence: i64,
    heard: bool,
}

impl PendingClaim<'_> {
    /// Its answer is there.
    pub(crate) fn heard(mut self) {
        self.heard = true;
    }
}

impl Drop for PendingClaim<'_> {
    fn drop(&mut self) {
        let mut fences = locked(&self.lost.fences);
        if !self.heard && fences.len() < LOST_MAX {
            fences.push(self.fence);
        }
    }
}

/// A number that no other claim has: above zero, and so large that nobody meets it twice.
pub(crate) fn random_fence() -> i64 {
    (Uuid::new_v4().as_u128() >> 66) as i64
}

/// Lets those begin who are anywhere in the order: nobody is behind the others for ever.
pub(crate) fn rotate_randomly<T>(all: &mut [T]) {
    if !all.is_empty() {
        all.rotate_left(random_fence() as usize % all.len());
    }
}

/// What is behind a lock, whoever panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
