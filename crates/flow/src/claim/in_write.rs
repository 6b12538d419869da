//! Claims that the statement of a write batch makes, for workers of the same process that wait: a completed step comes
//! back with its successor, a submitted task with its first steps.

use reveille_wake::{AttachedPoll, BatchResult, BatchedWrite, PollResult, WriteBatch};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use crate::claim::response_size::ClaimResponse;
use crate::claim::{ClaimedStep, Claims};
use crate::template::{StepKind, Template};

/// The most parents of a step for which the completion of one of them claims: all but the last claim for nothing, and a
/// claim that finds nothing costs about a third of what one in a write saves.
const PARENTS_MAX: usize = 3;

/// Whether the completion of a step will probably make others ready.
pub(crate) fn completion_readies(template: &Template, step: usize) -> bool {
    let step = &template.steps[step];
    match step.kind {
        StepKind::Decision | StepKind::Batchable => true,
        // One of many parts.
        StepKind::BatchWorker => false,
        _ => step.children.iter().any(|child| template.steps[*child].parents.len() <= PARENTS_MAX),
    }
}

/// Sends the statement of a batch. With a poll it is one that also claims: its last arguments, which are bound here, are
/// those of the claim, and its last row has the outcomes.
///
/// # Errors
/// Only those of the statement. The writes have committed, whatever becomes of what was claimed.
pub(crate) async fn send<B: BatchedWrite>(
    kind: &B,
    conn: &mut PgConnection,
    batch: &WriteBatch<'_, B::Write>,
    query: Query<'_, Postgres, PgArguments>,
    poll: Option<AttachedPoll<Claims>>,
) -> reveille_pg::Result<BatchResult<B::Outcome>> {
    let Some(poll) = poll else { return batch.result(kind, &query.fetch_one(conn).await?) };
    let (claims, request) = (poll.claim(), poll.request());
    let begun = claims.begin(&request.key, true);
    let (fence, sent) = claims.releases.sent();
    poll.keep_sent(sent);
    let rows = begun.bind(query, request, fence).fetch(conn);
    let response = ClaimResponse::read(rows, request.waiters.len(), begun.began).await?;
    let result = batch.result(kind, &response.last)?;
    Ok(match claims.claimed(&request.key, begun, response) {
        Ok((claimed, oversized)) if oversized.is_empty() => result.with_claims(poll, claimed),
        Ok((claimed, oversized)) => result.with_claims_later(poll.clone(), without(oversized, claimed, poll)),
        Err(error) => {
            let error = reveille_pg::causes(&error);
            tracing::warn!(error, "cannot read what a write has claimed; its steps are released");
            result
        }
    })
}

/// The result of a claim when the steps that do not fit into it are released.
async fn without(
    oversized: Vec<ClaimedStep>,
    claimed: PollResult<ClaimedStep>,
    poll: AttachedPoll<Claims>,
) -> reveille_pg::Result<PollResult<ClaimedStep>> {
    let mut session = poll.session().await?;
    poll.claim().releases.release(&mut session, &oversized).await?;
    session.finish().await?;
    Ok(claimed)
}
