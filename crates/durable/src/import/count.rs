//! How many of everything.

use std::fmt;

use super::error::{Error, Result};

/// How many of everything were carried over, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Orchestration instances that have begun.
    pub instances: u64,
    /// Their executions.
    pub executions: u64,
    /// Events of their histories.
    pub events: u64,
    /// Messages to instances: timers among them, and starts of orchestrations that have not begun.
    pub messages: u64,
    /// Activities to execute.
    pub activities: u64,
    /// Sessions, all of them ended.
    pub sessions: u64,
    /// Keys of instances, and changes of keys.
    pub keys: u64,
}

impl Imported {
    /// By their names, in the order of the statements.
    pub(super) fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("instances", self.instances),
            ("executions", self.executions),
            ("events", self.events),
            ("messages", self.messages),
            ("activities", self.activities),
            ("sessions", self.sessions),
            ("keys", self.keys),
        ]
    }

    /// From the same order.
    pub(super) fn of([instances, executions, events, messages, activities, sessions, keys]: [i64; 7]) -> Imported {
        let count = |count: i64| count.unsigned_abs();
        Imported {
            instances: count(instances),
            executions: count(executions),
            events: count(events),
            messages: count(messages),
            activities: count(activities),
            sessions: count(sessions),
            keys: count(keys),
        }
    }

    /// Compares what was carried over, of what is named in `of`, with what the source holds.
    ///
    /// # Errors
    /// [`Error::Changed`] for the first that differs.
    pub(super) fn compare(&self, held: &Imported, of: impl Iterator<Item = &'static str>, schema: &str) -> Result<()> {
        let of: Vec<&str> = of.collect();
        let mut pairs = self.named().into_iter().zip(held.named()).filter(|((name, _), _)| of.contains(name));
        match pairs.find(|((_, carried), (_, held))| carried != held) {
            None => Ok(()),
            Some(((what, carried), (_, held))) => {
                Err(Error::Changed { schema: schema.to_owned(), what, carried, held })
            }
        }
    }
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, count)) in self.named().into_iter().enumerate() {
            let before = if place == 0 { "" } else { ", " };
            write!(f, "{before}{count} {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::stage::{DONE, FIRST, carried_before};
    use super::*;

    /// What differs is named with both numbers, so that somebody can look for it. What is still to come may differ.
    #[test]
    fn the_first_difference_is_named() {
        let held = Imported::of([1, 2, 3, 4, 5, 6, 7]);
        assert!(held.compare(&held, carried_before(DONE), "s").is_ok());
        let carried = Imported { events: 2, messages: 0, ..held.clone() };
        assert!(carried.compare(&held, carried_before(FIRST), "s").is_ok());
        let said = carried.compare(&held, carried_before("sessions"), "s").expect_err("two differ").to_string();
        assert!(said.contains("2 events were carried over and schema \"s\" holds 3"), "{said}");
        let carried = Imported { messages: 0, ..held.clone() };
        assert!(carried.compare(&held, carried_before("messages"), "s").is_ok());
        assert!(carried.compare(&held, carried_before(DONE), "s").is_err());
    }

    /// Everything that is counted is compared in the end: a count that no stage brings would never be noticed.
    #[test]
    fn every_count_is_compared_in_the_end() {
        let mut compared: Vec<&str> = carried_before(DONE).collect();
        let mut counted: Vec<&str> = Imported::default().named().map(|(name, _)| name).to_vec();
        compared.sort_unstable();
        counted.sort_unstable();
        assert_eq!(compared, counted);
    }

    /// One line says it all.
    #[test]
    fn counts_are_one_line() {
        let line = "1 instances, 2 executions, 3 events, 4 messages, 5 activities, 6 sessions, 7 keys";
        assert_eq!(Imported::of([1, 2, 3, 4, 5, 6, 7]).to_string(), line);
    }
}
