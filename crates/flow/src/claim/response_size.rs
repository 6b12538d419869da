//! The size limit of responses.
//!
//! A worker may claim a thousand steps, each with megabytes of context and results. A response is limited in bytes:
//! steps that do not fit are released at once, without counting an attempt, and claimed next.

use futures_util::stream::{Stream, StreamExt as _};
use serde_json::value::RawValue;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use tokio::time::Instant;

use crate::claim::token::Token;
use crate::claim::{ClaimedStep, read};
use crate::complete::{AttemptResult, StepReport};
use crate::flow::Flow;

/// Bytes of contexts, results, inputs and checkpoints in one response. The first element is always included. Steps that
/// do not fit into the response of a claim are released; elements that do not fit into a page are on the next one.
pub(crate) const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// The rows of a claim, read one by one so that only the steps that fit are held in memory.
pub(crate) struct ClaimResponse {
    /// The last row, which has no step but the state of the poll.
    pub(crate) last: PgRow,
    /// The steps, or why one of them cannot be read.
    pub(crate) found: reveille_pg::Result<FoundSteps>,
}

/// The steps of a claim.
#[derive(Default)]
pub(crate) struct FoundSteps {
    /// The steps that fit, with the index of their waiter.
    pub(crate) fitting: Vec<(usize, ClaimedStep)>,
    /// The steps that do not fit, without their large fields.
    pub(crate) oversized: Vec<ClaimedStep>,
    /// Bytes held for each waiter.
    held: Vec<usize>,
}

impl ClaimResponse {
    /// Reads all rows. An error is one of the statement.
    pub(crate) async fn read(
        mut rows: impl Stream<Item = sqlx::Result<PgRow>> + Unpin,
        waiters: usize,
        sent_at: Instant,
    ) -> reveille_pg::Result<ClaimResponse> {
        let mut last = None;
        let mut found = Ok(FoundSteps { held: vec![0; waiters], ..FoundSteps::default() });
        while let Some(row) = rows.next().await.transpose()? {
            let Some(row) = last.replace(row) else { continue };
            if let Ok(steps) = &mut found
                && let Err(error) = steps.add(&row, sent_at)
            {
                found = Err(error);
            }
        }
        Ok(ClaimResponse { last: last.ok_or(sqlx::Error::RowNotFound)?, found })
    }
}

impl FoundSteps {
    fn add(&mut self, row: &PgRow, sent_at: Instant) -> reveille_pg::Result<()> {
        let step = read(row, sent_at)?;
        let waiter = row.try_get::<i32, _>("waiter")? as usize;
        let (bytes, held) = (step.bytes(), &mut self.held[waiter]);
        if *held == 0 || *held + bytes <= RESPONSE_BYTES_MAX {
            *held += bytes;
            self.fitting.push((waiter, step));
        } else {
            // Later steps must not overtake it.
            *held = RESPONSE_BYTES_MAX;
            self.oversized.push(step.emptied());
        }
        Ok(())
    }
}

impl ClaimedStep {
    /// The approximate size in a response; never 0.
    fn bytes(&self) -> usize {
        let rest = [&self.input, &self.checkpoint].into_iter().flatten().map(|json| json.get().len());
        let json = [&self.context, &self.results, &self.initialization].map(|json| json.get().len());
        1 + json.iter().sum::<usize>() + rest.sum::<usize>()
    }

    /// The step without its large fields: releasing it needs only the token.
    fn emptied(mut self) -> ClaimedStep {
        let null = || RawValue::NULL.to_owned();
        (self.context, self.results, self.initialization) = (null(), null(), null());
        (self.input, self.checkpoint) = (None, None);
        self
    }
}

impl Flow {
    /// Releases steps that do not fit into one response. Claims from the table are limited already; the size of steps
    /// that a broker delivers is known only after they are loaded.
    pub(crate) fn release_oversized(&self, claimed: &mut Vec<ClaimedStep>) {
        let mut bytes = 0;
        let fits = |step: &ClaimedStep| {
            let first = bytes == 0;
            bytes += step.bytes();
            first || bytes <= RESPONSE_BYTES_MAX
        };
        let fitting = claimed.iter().map(fits).take_while(|fits| *fits).count();
        let oversized: Vec<Token> = claimed.drain(fitting..).map(|step| step.token).collect();
        if oversized.is_empty() {
            return;
        }
        let flow = self.clone();
        // A task of its own: if the claim is dropped, the steps must not wait for the end of their leases.
        tokio::spawn(async move {
            let ended = oversized.into_iter().map(|token| StepReport { token, result: AttemptResult::GivenBack });
            if let Err(error) = flow.report(ended.collect()).await {
                tracing::debug!(
                    error = reveille_pg::causes(&error),
                    "oversized steps were not released; they return when their leases end"
                );
            }
        });
    }
}
