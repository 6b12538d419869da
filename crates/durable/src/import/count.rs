//! Counts of what an import copies.

use std::fmt;

use super::error::{Error, Result};

/// How much was copied, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Orchestration instances.
    pub instances: u64,
    /// Their executions.
    pub executions: u64,
    /// Events of their histories.
    pub events: u64,
    /// Messages to instances, including timers and starts of orchestrations.
    pub messages: u64,
    /// Activities to execute.
    pub activities: u64,
    /// Sessions, all expired.
    pub sessions: u64,
    /// Keys of instances, and key changes.
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

    /// Compares the counts named in `of` with those of the source.
    ///
    /// # Errors
    /// [`Error::Changed`] for the first that differs.
    pub(super) fn compare(&self, held: &Imported, of: impl Iterator<Item = &'static str>, schema: &str) -> Result<()> {
        let of: Vec<&str> = of.collect();
        let mut pairs = self.named().into_iter().zip(held.named()).filter(|((name, _), _)| of.contains(name));
        match pairs.find(|((_, copied), (_, held))| copied != held) {
            None => Ok(()),
            Some(((what, copied), (_, held))) => Err(Error::Changed { schema: schema.to_owned(), what, copied, held }),
        }
    }
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, count)) in self.named().into_iter().enumerate() {
            let before = if position == 0 { "" } else { ", " };
            write!(f, "{before}{count} {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::stage::{DONE, FIRST, copied_before};
    use super::*;

    /// The error names the first difference with both counts. Stages that have not run may differ.
    #[test]
    fn the_error_names_the_first_difference() {
        let held = Imported::of([1, 2, 3, 4, 5, 6, 7]);
        assert!(held.compare(&held, copied_before(DONE), "s").is_ok());
        let copied = Imported { events: 2, messages: 0, ..held.clone() };
        assert!(copied.compare(&held, copied_before(FIRST), "s").is_ok());
        let said = copied.compare(&held, copied_before("sessions"), "s").expect_err("two differ").to_string();
        assert!(said.contains("2 events were copied and schema \"s\" holds 3"), "{said}");
        let copied = Imported { messages: 0, ..held.clone() };
        assert!(copied.compare(&held, copied_before("messages"), "s").is_ok());
        assert!(copied.compare(&held, copied_before(DONE), "s").is_err());
    }

    /// Every count belongs to a stage, so that every count is compared when the import is done.
    #[test]
    fn every_count_is_compared() {
        let mut compared: Vec<&str> = copied_before(DONE).collect();
        let mut counted: Vec<&str> = Imported::default().named().map(|(name, _)| name).to_vec();
        compared.sort_unstable();
        counted.sort_unstable();
        assert_eq!(compared, counted);
    }

    /// The counts are displayed in one line.
    #[test]
    fn counts_are_one_line() {
        let line = "1 instances, 2 executions, 3 events, 4 messages, 5 activities, 6 sessions, 7 keys";
        assert_eq!(Imported::of([1, 2, 3, 4, 5, 6, 7]).to_string(), line);
    }
}
