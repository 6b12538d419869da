//! Reconstructs the public history of a task from its rows, without a database.
//!
//! The tables hold one row per ended attempt and the current state of every step. The public states and their times
//! follow from these; `task/state.rs` has those that are passed within one transaction. Every transition shown is
//! legal, and none is shown before its cause.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::query::audit::Outcome;
use crate::query::transition::{Subject, Transition, TransitionId};
use crate::task::state::{StepState, TaskState};
use crate::task::status::StepCounts;

/// The row of a task.
#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) id: Uuid,
    /// The state in which it ended; `None`: it is open.
    pub(crate) ended: Option<TaskState>,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) ended_at: Option<OffsetDateTime>,
    /// When the rows were read, by the database's clock.
    pub(crate) read_at: OffsetDateTime,
}

/// The row of a step with its attempts.
#[derive(Debug)]
pub(crate) struct StepRow {
    pub(crate) ordinal: i32,
    pub(crate) name: String,
    /// The task continues if this step fails.
    pub(crate) spared: bool,
    pub(crate) state: StepState,
    /// When it was created; `None`: with its task.
    pub(crate) came_at: Option<OffsetDateTime>,
    pub(crate) ready_at: Option<OffsetDateTime>,
    pub(crate) since: OffsetDateTime,
    pub(crate) due_at: Option<OffsetDateTime>,
    pub(crate) attempt: i32,
    pub(crate) worker: Option<String>,
    /// The ended attempts, in order.
    pub(crate) attempts: Vec<AttemptRow>,
}

/// An ended attempt, or a manual operation.
#[derive(Debug)]
pub(crate) struct AttemptRow {
    pub(crate) outcome: Outcome,
    /// Negative for manual operations.
    pub(crate) fence: i64,
    pub(crate) attempt: i32,
    pub(crate) worker: Option<String>,
    pub(crate) ready_at: Option<OffsetDateTime>,
    pub(crate) claimed_at: Option<OffsetDateTime>,
    pub(crate) ended_at: OffsetDateTime,
    /// The lease ended without a report, and the end was not noticed at the time.
    pub(crate) silent: bool,
}

/// All transitions of a task and its steps, in order.
pub(crate) fn history(task: &TaskRow, steps: &[StepRow]) -> Vec<Transition> {
    let mut moves: Vec<Transition> = steps.iter().flat_map(|step| of_step(task, step)).collect();
    moves.sort_by_key(|one| one.id);
    let of_task = of_task(task, steps, &moves);
    moves.extend(of_task);
    moves.sort_by_key(|one| one.id);
    for (nth, one) in moves.iter_mut().enumerate() {
        one.id.nth = nth as u32 + 1;
    }
    moves
}

/// The transitions of one task or step. Times never decrease.
struct Chain<'a, S> {
    task: &'a TaskRow,
    step: Option<&'a StepRow>,
    at: Option<S>,
    last: Option<TransitionId>,
    moves: Vec<Transition>,
}

impl<'a, S: Copy + PartialEq> Chain<'a, S>
where
    Subject: From<S>,
{
    fn new(task: &'a TaskRow, step: Option<&'a StepRow>) -> Self {
        Chain { task, step, at: None, last: None, moves: Vec::new() }
    }

    fn push(&mut self, to: S, time: OffsetDateTime, by: Option<&AttemptRow>) {
        let index = self.step.map_or(0, |step| step.ordinal as u32 + 1);
        let subject = Subject::from(to);
        let id = TransitionId::next(self.last, time, subject.phase(self.at.is_none() && !self.was_added()), index);
        self.last = Some(id);
        self.moves.push(Transition {
            id,
            task_uuid: self.task.id,
            step: self.step.map(|step| step.name.clone()),
            from: self.at.map(|from| Subject::from(from).name()),
            to: subject.name(),
            at: id.time(),
            attempt: by.map(|by| by.attempt as u32),
            worker: by.and_then(|by| by.worker.clone()),
        });
        self.at = Some(to);
    }

    fn was_added(&self) -> bool {
        self.step.is_some_and(|step| step.came_at.is_some())
    }
}

impl Chain<'_, StepState> {
    /// Moves to a state as the engine would, if it is not there yet.
    fn go(&mut self, to: StepState, time: OffsetDateTime, by: Option<&AttemptRow>) {
        let path = self.at.map_or_else(|| vec![to], |from| from.path(to));
        path.into_iter().for_each(|to| self.push(to, time, by));
    }

    /// Moves to a state in one transition if that is legal: without a report, or by an operator.
    fn leap(&mut self, to: StepState, time: OffsetDateTime, by: Option<&AttemptRow>) {
        let path = self.at.map_or_else(|| vec![to], |from| from.path_by_operator(to));
        path.into_iter().for_each(|to| self.push(to, time, by));
    }
}

fn of_step(task: &TaskRow, step: &StepRow) -> Vec<Transition> {
    use StepState::*;
    let mut chain: Chain<'_, StepState> = Chain::new(task, Some(step));
    chain.go(Pending, step.came_at.unwrap_or(task.created_at), None);
    for (index, tried) in step.attempts.iter().enumerate() {
        let next = step.attempts.get(index + 1);
        if tried.fence >= 0 {
            if let (Some(ready_at), Some(claimed_at)) = (tried.ready_at, tried.claimed_at) {
                chain.go(Enqueued, ready_at, None);
                chain.go(InProgress, claimed_at, Some(tried));
            }
            let by = Some(tried);
            match tried.outcome {
                Outcome::Complete => chain.go(Complete, tried.ended_at, by),
                Outcome::Failed => chain.go(WaitingForRetry, tried.ended_at, by),
                Outcome::FailedForGood => chain.go(Error, tried.ended_at, by),
                // It took too long: no report came.
                Outcome::TimedOut => chain.leap(WaitingForRetry, tried.ended_at, by),
                Outcome::TimedOutForGood => chain.leap(Error, tried.ended_at, by),
                // It is ready again at once, unless its task has failed meanwhile.
                Outcome::GivenBack | Outcome::Yielded => chain.go(Pending, tried.ended_at, by),
                Outcome::LeaseEnded => lapse(&mut chain, step, tried, next),
                // Ended by an operator: the manual operation follows.
                _ => {}
            }
        } else {
            let before = index.checked_sub(1).and_then(|before| step.attempts.get(before));
            was_ready(&mut chain, step, before, tried.ended_at);
            match tried.outcome {
                Outcome::CompletedManually => chain.leap(Complete, tried.ended_at, Some(tried)),
                Outcome::ResolvedManually => chain.leap(ResolvedManually, tried.ended_at, Some(tried)),
                Outcome::Reset => chain.leap(Pending, tried.ended_at, Some(tried)),
                // The task took too long, and was resumed later.
                Outcome::Cancelled => chain.leap(Cancelled, tried.ended_at, None),
                _ => {}
            }
        }
    }
    arrive(&mut chain, task, step);
    chain.moves
}

/// A lease that ended. The next claim of the step notices it, and the transition has that time: the end itself may lie
/// before transitions that were read since.
fn lapse(chain: &mut Chain<'_, StepState>, step: &StepRow, tried: &AttemptRow, next: Option<&AttemptRow>) {
    let claimed_at = match next {
        Some(next) => next.claimed_at,
        None => (step.state == StepState::InProgress).then_some(step.since),
    };
    let noticed_at = claimed_at.filter(|_| tried.silent).unwrap_or(tried.ended_at);
    let is_over = match next {
        // Operators act on failed steps.
        Some(next) => next.fence < 0 && next.outcome != Outcome::Cancelled,
        None => matches!(step.state, StepState::Error | StepState::ResolvedManually | StepState::Complete),
    };
    let to = if is_over { StepState::Error } else { StepState::WaitingForRetry };
    chain.leap(to, noticed_at, Some(tried));
}

/// An unclaimed step was ready before an operator changed it or its task: its row still has the time.
fn was_ready(chain: &mut Chain<'_, StepState>, step: &StepRow, before: Option<&AttemptRow>, until: OffsetDateTime) {
    let ready_at = match before {
        Some(before) if matches!(before.outcome, Outcome::GivenBack | Outcome::Yielded) => Some(before.ended_at),
        _ => step.ready_at,
    };
    let last = chain.last.map(|last| last.time());
    if let Some(ready_at) = ready_at.filter(|at| Some(*at) >= last && *at <= until)
        && chain.at == Some(StepState::Pending)
    {
        chain.go(StepState::Enqueued, ready_at, None);
    }
}

/// Moves the step to its current state, if its attempts have not done so.
fn arrive(chain: &mut Chain<'_, StepState>, task: &TaskRow, step: &StepRow) {
    use StepState::*;
    let current = AttemptRow {
        outcome: Outcome::InProgress,
        fence: 0,
        attempt: step.attempt,
        worker: step.worker.clone(),
        ready_at: step.ready_at,
        claimed_at: Some(step.since),
        ended_at: step.since,
        silent: false,
    };
    let ready_at = step.ready_at.unwrap_or(step.since);
    match step.state {
        // It was ready when another step failed.
        Pending if chain.at == Some(Pending) && step.attempts.is_empty() && step.ready_at.is_some() => {
            chain.go(Enqueued, ready_at, None);
            chain.go(Pending, step.since, None);
        }
        Enqueued => chain.go(Enqueued, ready_at, None),
        InProgress => {
            chain.go(Enqueued, ready_at, None);
            chain.go(InProgress, step.since, Some(&current));
        }
        WaitingForRetry => {
            if let Some(due_at) = step.due_at.filter(|due_at| *due_at <= task.read_at) {
                chain.go(Enqueued, due_at, None);
            }
        }
        Complete if chain.at != Some(Complete) => chain.leap(Complete, step.since, None),
        Error if chain.at != Some(Error) => chain.leap(Error, step.since, None),
        Cancelled => {
            was_ready(chain, step, step.attempts.last(), step.since);
            chain.leap(Cancelled, step.since, None);
        }
        ResolvedManually if chain.at != Some(ResolvedManually) => chain.leap(ResolvedManually, step.since, None),
        _ => {}
    }
}

/// The states of a task after every transition of its steps, and its end.
fn of_task(task: &TaskRow, steps: &[StepRow], moves: &[Transition]) -> Vec<Transition> {
    let mut chain: Chain<'_, TaskState> = Chain::new(task, None);
    chain.push(TaskState::Pending, task.created_at, None);
    let spared: std::collections::HashMap<u32, bool> =
        steps.iter().map(|step| (step.ordinal as u32 + 1, step.spared)).collect();
    let mut counts = StepCounts::default();
    let mut cancelled = 0;
    for simultaneous in moves.chunk_by(|one, other| one.id.micros == other.id.micros) {
        for one in simultaneous {
            let Some(to) = StepState::named(one.to) else { continue };
            let spared = spared.get(&one.id.index).copied().unwrap_or_default();
            cancelled += i32::from(to == StepState::Cancelled);
            cancelled -= i32::from(one.from == Some(StepState::Cancelled.name()));
            match one.from.and_then(StepState::named) {
                None => counts.add(to, spared),
                Some(from) => counts.shift(from, to, spared),
            }
        }
        let time = simultaneous[0].id.time();
        let is_over = counts.complete + counts.dropped == counts.total;
        // Steps were cancelled, and the task continued after that.
        let went_on = cancelled > 0 && task.ended_at.is_none_or(|at| at > time);
        let now = match () {
            () if counts.failed > 0 && counts.in_progress == 0 => TaskState::Error,
            // The row of the task has its final state.
            () if is_over && task.ended.is_some() && !went_on => continue,
            // It took too long, and was resumed later.
            () if is_over && went_on => TaskState::Error,
            () => counts.open_state(),
        };
        chain.reach(now, time);
    }
    if let (Some(ended), Some(ended_at)) = (task.ended, task.ended_at) {
        chain.reach(ended, ended_at);
    }
    chain.moves
}

impl Chain<'_, TaskState> {
    fn reach(&mut self, to: TaskState, time: OffsetDateTime) {
        let path = self.at.map_or_else(|| vec![to], |from| from.path_by_operator(to));
        path.into_iter().for_each(|to| self.push(to, time, None));
    }
}
