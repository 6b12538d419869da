//! Sessions: which worker the items of a session go to.
//!
//! A session belongs to the owner that claimed an item of it last, until its lock ends. Locks end by time alone, which
//! no index of work items can see; so expired locks are collected at every claim, and only then does the owner of the
//! session change.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::clock::Time;

#[derive(Debug)]
struct Session {
    owner: String,
    until: Time,
    last_activity: Time,
    /// Whether the end of its lock has yet to be collected.
    held: bool,
}

/// All sessions, and when their locks end.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: HashMap<String, Session>,
    ends: BTreeSet<(Time, String)>,
}

impl Sessions {
    /// The owner of a session; `None` if it has none.
    pub(crate) fn owner(&self, id: &str) -> Option<&str> {
        self.by_id.get(id).filter(|session| session.held).map(|session| session.owner.as_str())
    }

    /// The owner of a session by the clock, collected or not; `None` if it has none.
    #[cfg(test)]
    pub(crate) fn owner_at(&self, id: &str, now: Time) -> Option<&str> {
        self.by_id.get(id).filter(|session| session.until > now).map(|session| session.owner.as_str())
    }

    /// One session whose lock has ended and has not been collected, with its owner until now.
    pub(crate) fn collect(&mut self, now: Time) -> Option<(String, String)> {
        self.ends.first().filter(|(until, _)| *until <= now)?;
        let (_, id) = self.ends.pop_first()?;
        let session = self.by_id.get_mut(&id).expect("a session with an end is stored");
        session.held = false;
        Some((id, session.owner.clone()))
    }

    /// When the next lock ends.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// Makes `owner`, which has just claimed an item of the session, its owner.
    pub(crate) fn hold(&mut self, id: &str, owner: &str, now: Time, until: Time) {
        let session = Session { owner: owner.to_owned(), until, last_activity: now, held: true };
        if let Some(before) = self.by_id.insert(id.to_owned(), session) {
            self.ends.remove(&(before.until, id.to_owned()));
        }
        self.ends.insert((until, id.to_owned()));
    }

    /// Its owner has done something for a session. After the lock has ended this says nothing about the next owner.
    pub(crate) fn touch(&mut self, id: &str, now: Time) {
        if let Some(session) = self.by_id.get_mut(id).filter(|session| session.until > now) {
            session.last_activity = now;
        }
    }

    /// Moves the end of every lock of these owners that has not ended, unless the session is idle. How many.
    pub(crate) fn renew(&mut self, owners: &[&str], now: Time, hold_for: Duration, idle_after: Duration) -> usize {
        let until = now.after(hold_for);
        let mut renewed = 0;
        for (id, session) in &mut self.by_id {
            let alive = session.until > now && session.last_activity.after(idle_after) > now;
            if alive && owners.contains(&session.owner.as_str()) {
                self.ends.remove(&(session.until, id.clone()));
                self.ends.insert((until, id.clone()));
                session.until = until;
                renewed += 1;
            }
        }
        renewed
    }

    /// Forgets the sessions whose lock has ended, except those that are `needed`. How many.
    pub(crate) fn sweep(&mut self, now: Time, needed: impl Fn(&str) -> bool) -> usize {
        let before = self.by_id.len();
        self.by_id.retain(|id, session| {
            let keep = session.until >= now || needed(id);
            if !keep {
                self.ends.remove(&(session.until, id.clone()));
            }
            keep
        });
        before - self.by_id.len()
    }
}
