//! Releasing claimed steps: those whose waiter has gone, and those of unanswered claims.

use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, SentClaims, UnansweredClaims, Wake, WakeUp};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::claim::ClaimedStep;
use crate::name::{of_namespace, of_step};

/// Releases steps. A claim is named by the fence that it writes: see [`UnansweredClaims`].
pub(crate) struct Releases {
    channel: Channel,
    unanswered: UnansweredClaims<i64>,
    unanswered_claims: Sql,
    report: Sql,
}

impl Releases {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Releases {
        Releases {
            channel,
            unanswered: UnansweredClaims::new(),
            unanswered_claims: schema.sql(reveille_pg::statement!("unanswered_claims")),
            report: schema.sql(reveille_pg::statement!("complete_steps")),
        }
    }

    /// The fence of a claim that is about to be sent.
    pub(crate) fn sent(&self) -> (i64, SentClaims<i64>) {
        let fence = random_fence();
        (fence, self.unanswered.sent([fence]))
    }

    /// Releases the steps of unanswered claims.
    pub(crate) async fn release_unanswered(&self, conn: &mut PgConnection) -> reveille_pg::Result<()> {
        let lost = self.unanswered.take();
        if lost.names().is_empty() {
            return Ok(());
        }
        let claims: Vec<_> = sqlx::query_as(&self.unanswered_claims).bind(lost.names()).fetch_all(&mut *conn).await?;
        if !claims.is_empty() {
            self.send(conn, claims, self.channel.wake_up()).await?;
        }
        lost.answered();
        Ok(())
    }

    /// Releases steps that no waiter accepted.
    pub(crate) async fn release(&self, conn: &mut PgConnection, steps: &[ClaimedStep]) -> reveille_pg::Result<()> {
        // Other groups may wait for these steps, too.
        let keys: Vec<String> = steps
            .iter()
            .flat_map(|step| [of_step(&step.namespace, &step.definition), of_namespace(&step.namespace)])
            .collect();
        let wake_up = self.channel.wake_up_keys(keys.iter().map(String::as_str));
        let claims = steps.iter().map(|step| (step.token.task, step.token.ordinal, step.token.fence));
        self.send(conn, claims.collect(), wake_up).await
    }

    /// Releases steps, given by task, ordinal and fence.
    async fn send(
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
            // These tokens are the engine's own, so their templates need no check.
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

/// A random number above zero, of 62 bits: no two claims have the same.
pub(crate) fn random_fence() -> i64 {
    (Uuid::new_v4().as_u128() >> 66) as i64
}

/// Rotates a list by a random number, so that each element comes first as often as the others.
pub(crate) fn rotate_randomly<T>(all: &mut [T]) {
    if !all.is_empty() {
        all.rotate_left(random_fence() as usize % all.len());
    }
}
