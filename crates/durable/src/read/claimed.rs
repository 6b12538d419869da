//! The read that follows the claim of an activity.
//!
//! duroxide's runtime reads the history of the instance after every claim of an activity, only to tell the activity the
//! name and version of its orchestration. That is a statement per activity, and it can be answered from the history
//! cache: name and version are in the first event, which never changes while the execution lasts.
//!
//! The danger is to answer other reads in this way, which must see what other processes have written. The runtime's read
//! is recognized by three things: it is made by the task that claimed the activity, it is the next call of that task, and
//! it reads the instance of that activity. The activity itself runs in another task. So a client's read is never answered
//! from memory, and a program that fetches and reads in one task gets the history as of its claim.

use std::collections::HashMap;

use duroxide::Event;
use parking_lot::Mutex;
use tokio::task;

use crate::provider::PostgresProvider;
use crate::text::escape;

/// At most this many tasks are remembered: those that ended after a claim leave theirs behind.
const TASKS_MAX: usize = 10_000;

/// The activity that each task has claimed, until its next call.
#[derive(Debug, Default)]
pub(crate) struct ClaimedActivities(Mutex<HashMap<task::Id, Claimed>>);

#[derive(Debug)]
struct Claimed {
    instance: Box<str>,
    execution: i64,
}

impl ClaimedActivities {
    /// This task has claimed an activity.
    pub(crate) fn claimed(&self, instance: &str, execution: i64) {
        let Some(task) = task::try_id() else { return };
        let mut tasks = self.0.lock();
        if tasks.len() >= TASKS_MAX {
            tasks.clear();
        }
        tasks.insert(task, Claimed { instance: instance.into(), execution });
    }

    /// This task makes another call.
    pub(crate) fn forget(&self) {
        self.take();
    }

    fn take(&self) -> Option<Claimed> {
        self.0.lock().remove(&task::try_id()?)
    }
}

impl PostgresProvider {
    /// The cached history of an instance, if this task has just claimed an activity of that instance and the cached
    /// execution is that of the activity.
    pub(crate) fn history_of_claimed(&self, instance: &str) -> Option<Vec<Event>> {
        let claimed = self.inner.claimed_activities.take()?;
        if *claimed.instance != *instance {
            return None;
        }
        let (head, history) = self.inner.histories.get_any(&escape(instance))?;
        let is_same = head.execution == claimed.execution && history.events.first().is_some_and(|e| e.event_id == 1);
        is_same.then(|| history.events.to_vec())
    }
}
