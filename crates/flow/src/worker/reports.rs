//! The reports of a worker whose outcome is not known yet.
//!
//! A report is prepared, which includes the validation of its result, then submitted to the write batch, and then
//! answered. Reports are prepared concurrently and submitted in the order in which their handlers ended. A report that
//! needs longer than [`TURN_MAX`] to be prepared is overtaken: the validation of a large result may take seconds, in
//! which another step could exceed its timeout.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use futures_util::{FutureExt, StreamExt};
use tokio::task::unconstrained;
use tokio::time::{sleep, timeout};

use crate::claim::token::Token;
use crate::complete::{AttemptResult, Refused, ReportAnswer, StepReport, Write};
use crate::error::Result;
use crate::flow::Flow;

/// How long later reports wait for one that is being prepared: longer than reading a template or a usual validation
/// takes, and shorter than the reserve before a timeout.
const TURN_MAX: Duration = Duration::from_millis(100);

/// A report, and its write unless it is rejected before it is sent.
type Prepared = (StepReport, Result<std::result::Result<Write, Refused>>);
/// A report, and its outcome.
pub(super) type Answered = (StepReport, Result<ReportAnswer>);

/// What has happened to reports.
#[derive(Default)]
pub(super) struct Progress {
    /// Those that were handed to the write batch in their turn, with the approximate sizes of their results in memory.
    pub(super) submitted: Vec<(Token, usize)>,
    /// Those whose outcome is known, or that have failed.
    pub(super) answered: Vec<Answered>,
}

/// The reports without an outcome.
pub(super) struct Reports {
    flow: Flow,
    prepared: InOrder<Prepared>,
    submitted: FuturesUnordered<BoxFuture<'static, Answered>>,
}

impl Reports {
    pub(super) fn new(flow: Flow) -> Reports {
        Reports { flow, prepared: InOrder::default(), submitted: FuturesUnordered::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.prepared.len() + self.submitted.len()
    }

    /// Sends a report after those that were sent before.
    pub(super) fn send(&mut self, report: StepReport) {
        self.prepared.push(Box::pin(prepare(self.flow.clone(), report)));
    }

    /// Sends a report again after a pause. Others do not wait for it, and its submission is not noted.
    pub(super) fn send_again(&mut self, report: StepReport, pause: Duration) {
        let flow = self.flow.clone();
        self.prepared.push_late(Box::pin(async move {
            sleep(pause).await;
            prepare(flow, report).await
        }));
    }

    /// Waits for progress, and returns all there is: the slots of one batch are filled by one claim. Waits forever if
    /// there is no report.
    ///
    /// # Cancel safety
    /// No report is lost.
    pub(super) async fn next(&mut self) -> Progress {
        let mut progress = Progress::default();
        tokio::select! {
            biased;
            prepared = self.prepared.next() => self.submit(prepared, &mut progress).await,
            Some(answered) = self.submitted.next() => progress.answered.push(answered),
        }
        // Nothing waits from here on.
        while let Some(prepared) = self.prepared.next().now_or_never() {
            self.submit(prepared, &mut progress).await;
        }
        while let Some(Some(answered)) = self.submitted.next().now_or_never() {
            progress.answered.push(answered);
        }
        progress
    }

    /// Hands a report to the write batch. Returns at once.
    async fn submit(&mut self, (turn, (report, write)): (Turn, Prepared), progress: &mut Progress) {
        let write = match write {
            Ok(write) => write,
            Err(error) => return progress.answered.push((report, Err(error))),
        };
        let (token, bytes, flow) = (report.token, bytes(&report.result), self.flow.clone());
        // Unconstrained: the runtime's budget of this task must not keep the first poll from adding the write to the
        // batch, before any later report is submitted.
        let mut submitting: BoxFuture<'static, Answered> = Box::pin(unconstrained(async move {
            let answer = flow.submitted(write).await;
            (report, answer)
        }));
        match poll_fn(|context| Poll::Ready(submitting.as_mut().poll(context))).await {
            Poll::Ready(answered) => return progress.answered.push(answered),
            Poll::Pending => self.submitted.push(submitting),
        }
        if turn == Turn::InOrder {
            progress.submitted.push((token, bytes));
        }
    }
}

async fn prepare(flow: Flow, report: StepReport) -> Prepared {
    let write = flow.write(&report).await;
    (report, write)
}

fn bytes(result: &AttemptResult) -> usize {
    match result {
        AttemptResult::Complete(result) => result.get().len(),
        AttemptResult::Failed(failure) => {
            failure.message.len() + failure.context.as_ref().map_or(0, |context| context.get().len())
        }
        AttemptResult::Yielded(checkpoint) => checkpoint.get().len(),
        AttemptResult::GivenBack => 0,
    }
}

/// Whether a future was in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    InOrder,
    Late,
}

/// Runs futures concurrently and returns their outputs in the order in which they were added. One that takes longer than
/// [`TURN_MAX`] is late: it is overtaken.
struct InOrder<T> {
    /// Each with its output, or itself if it is late.
    turns: FuturesOrdered<BoxFuture<'static, std::result::Result<T, BoxFuture<'static, T>>>>,
    late: FuturesUnordered<BoxFuture<'static, T>>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        InOrder { turns: FuturesOrdered::new(), late: FuturesUnordered::new() }
    }
}

impl<T: Send + 'static> InOrder<T> {
    fn len(&self) -> usize {
        self.turns.len() + self.late.len()
    }

    fn push(&mut self, mut future: BoxFuture<'static, T>) {
        self.turns.push_back(Box::pin(async move {
            let output = timeout(TURN_MAX, &mut future).await;
            output.map_err(|_| future)
        }));
    }

    /// Adds a future that is late already.
    fn push_late(&mut self, future: BoxFuture<'static, T>) {
        self.late.push(future);
    }

    /// Waits for the next output; forever if there is none. Dropping the future loses none.
    async fn next(&mut self) -> (Turn, T) {
        loop {
            tokio::select! {
                biased;
                Some(turn) = self.turns.next() => match turn {
                    Ok(output) => return (Turn::InOrder, output),
                    Err(late) => self.late.push(late),
                },
                Some(output) = self.late.next() => return (Turn::Late, output),
                else => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn ready(output: char) -> BoxFuture<'static, char> {
        Box::pin(std::future::ready(output))
    }

    fn when(released: oneshot::Receiver<()>, output: char) -> BoxFuture<'static, char> {
        Box::pin(async move {
            released.await.expect("the sender lives");
            output
        })
    }

    /// Outputs come in the order of the futures, whichever is ready first. The second is ready at once, the first when
    /// it is released.
    #[tokio::test(start_paused = true)]
    async fn outputs_come_in_order() {
        let mut in_order = InOrder::default();
        let (release, released) = oneshot::channel();
        in_order.push(when(released, 'a'));
        in_order.push(ready('b'));
        assert!(timeout(TURN_MAX / 2, in_order.next()).await.is_err(), "b waits for a");
        release.send(()).expect("it waits");
        assert_eq!(in_order.next().await, (Turn::InOrder, 'a'));
        assert_eq!(in_order.next().await, (Turn::InOrder, 'b'));
        assert_eq!(in_order.len(), 0);
        assert!(timeout(TURN_MAX, in_order.next()).await.is_err(), "there is none");
    }

    /// A future that takes long delays the others once, for a bounded time, and its output is not lost. One that was
    /// added as late delays none.
    #[tokio::test(start_paused = true)]
    async fn a_late_one_is_overtaken() {
        let mut in_order = InOrder::default();
        let ((release, released), (again, sent_again)) = (oneshot::channel(), oneshot::channel());
        in_order.push_late(when(sent_again, 'x'));
        in_order.push(when(released, 'a'));
        in_order.push(ready('b'));
        let since = tokio::time::Instant::now();
        assert_eq!(in_order.next().await, (Turn::InOrder, 'b'));
        assert!(since.elapsed() < 2 * TURN_MAX, "{:?}", since.elapsed());
        in_order.push(ready('c'));
        assert_eq!(in_order.next().await, (Turn::InOrder, 'c'));
        release.send(()).expect("it waits");
        assert_eq!(in_order.next().await, (Turn::Late, 'a'));
        again.send(()).expect("it waits");
        assert_eq!(in_order.next().await, (Turn::Late, 'x'));
    }
}
