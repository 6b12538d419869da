//! How much one claim answers.
//!
//! A worker may ask for a thousand steps, and each may come with a context and results of megabytes. An answer is bounded in bytes: what does not fit goes back at once, uncharged,
//! and is claimed next.

use futures_util::stream::{Stream, StreamExt as _};
use serde_json::value::RawValue;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::claim::token::Token;
use crate::claim::{ClaimedStep, read};
use crate::complete::{AttemptResult, StepReport};
use crate::flow::Flow;

/// Bytes of contexts, results, inputs and checkpoints in one answer. The first element of an answer is given whatever its size; what a claim has no room for goes back, uncharged, and what a page
/// has no room for is on the next one.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a claim answered. Rows are read one by one, so that no more than what is given is held in memory.
pub(crate) struct Answered {
    /// The row that says how it goes on.
    pub(crate) last: PgRow,
    /// What is given, by seats.
    pub(crate) steps: Vec<(usize, ClaimedStep)>,
    /// What does not fit into an answer, without what makes it large.
    pub(crate) too_much: Vec<ClaimedStep>,
}

impl Answered {
    pub(crate) async fn read(
        mut rows: impl Stream<Item = sqlx::Result<PgRow>> + Unpin,
        waiters: usize,
    ) -> pg::Result<Answered> {
        let mut held = vec![0; waiters];
        let (mut last, mut steps, mut too_much) = (None, Vec::new(), Vec::new());
        while let Some(row) = rows.next().await.transpose()? {
            let Some(row) = last.replace(row) else { continue };
            let step = read(&row)?;
            let waiter = row.try_get::<i32, _>("waiter")? as usize;
            let (bytes, first) = (step.bytes(), held[waiter] == 0);
            if first || held[waiter] + bytes <= ANSWER_BYTES_MAX {
                held[waiter] += bytes;
                steps.push((waiter, step));
            } else {
                // Whatever comes behind it waits for it.
                held[waiter] = ANSWER_BYTES_MAX;
                too_much.push(step.emptied());
            }
        }
        Ok(Answered { last: last.ok_or(sqlx::Error::RowNotFound)?, steps, too_much })
    }
}

impl ClaimedStep {
    /// Bytes in an answer, roughly; never 0.
    fn bytes(&self) -> usize {
        let rest = [&self.input, &self.checkpoint].into_iter().flatten().map(|json| json.get().len());
        let json = [&self.context, &self.results, &self.initialization].map(|json| json.get().len());
        1 + json.iter().sum::<usize>() + rest.sum::<usize>()
    }

    /// To be given back: only its token counts.
    fn emptied(mut self) -> ClaimedStep {
        let null = || RawValue::NULL.to_owned();
        (self.context, self.results, self.initialization) = (null(), null(), null());
        (self.input, self.checkpoint) = (None, None);
        self
    }
}

impl Flow {
    /// Gives back what does not fit into one answer. Of what the table hands out nothing is left to give back; a broker's messages have sizes that only the steps tell.
    pub(crate) fn give_back_too_much(&self, claimed: &mut Vec<ClaimedStep>) {
        let mut bytes = 0;
        let fits = |step: &ClaimedStep| {
            let first = bytes == 0;
            bytes += step.bytes();
            first || bytes <= ANSWER_BYTES_MAX
        };
        let fitting = claimed.iter().map(fits).take_while(|fits| *fits).count();
        let too_much: Vec<Token> = claimed.drain(fitting..).map(|step| step.token).collect();
        if too_much.is_empty() {
            return;
        }
        let flow = self.clone();
        // Not part of the claim, which may be dropped: they would sit out their leases.
        tokio::spawn(async move {
            let ended = too_much.into_iter().map(|token| StepReport { token, result: AttemptResult::GivenBack });
            if let Err(error) = flow.report(ended.collect()).await {
                tracing::debug!(error = pg::causes(&error), "steps were not given back; they come back by themselves");
            }
        });
    }
}
