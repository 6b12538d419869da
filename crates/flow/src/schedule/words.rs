//! The times of a schedule in words, for people: "at 09:00, on weekdays (Europe/Berlin)".

use super::ticks::Ticks;
use super::{Schedule, tick_text};

/// The days from Monday to Friday, as the description of an expression lists them.
const WEEKDAYS: &str = "on Monday, Tuesday, Wednesday, Thursday, and Friday";

impl Schedule {
    /// When it runs, in words; its expression, if that cannot be described.
    pub(super) fn in_words(&self) -> String {
        let zone = self.time_zone.as_deref().unwrap_or("UTC");
        match self.ticks() {
            Ok(Ticks::Once(at)) => format!("once, at {}", tick_text(&at)),
            Ok(Ticks::Cron { cron, .. }) => format!("{} ({zone})", phrase(&cron.describe())),
            Err(_) => self.cron.clone().unwrap_or_default(),
        }
    }
}

/// A description as part of a sentence.
fn phrase(described: &str) -> String {
    let text = described.trim().trim_end_matches('.').replace(WEEKDAYS, "on weekdays");
    // An interval is described as "At every 15 minutes".
    let text = text.strip_prefix("At ").filter(|rest| rest.starts_with("every ")).unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::schedule::Missed;

    fn words(cron: &str) -> String {
        let schedule = Schedule {
            namespace: "shop".to_owned(),
            name: "s".to_owned(),
            template: "t".to_owned(),
            version: "1.0.0".to_owned(),
            context: Json::default(),
            priority: 0,
            tags: Vec::new(),
            cron: Some(cron.to_owned()),
            time_zone: Some("Europe/Berlin".to_owned()),
            at: None,
            missed: Missed::Skip,
            grace_seconds: 60,
            paused: None,
        };
        schedule.in_words()
    }

    /// Usual expressions read like a sentence, with the time zone.
    #[test]
    fn expressions_are_described() {
        assert_eq!(words("0 9 * * 1-5"), "at 09:00, on weekdays (Europe/Berlin)");
        assert_eq!(words("*/15 * * * *"), "every 15 minutes (Europe/Berlin)");
        assert_eq!(words("@daily"), "at 00:00 (Europe/Berlin)");
        assert_eq!(words("nonsense"), "nonsense");
    }
}
