//! The newest version of a template, for submissions without a version.
//!
//! Versions are compared as semantic versions. Any other text is older than every semantic version; of two such texts
//! the one that was registered later is newer.

use std::cmp::Ordering;

use sqlx::Row;

use crate::error::{Error, Result};
use crate::flow::Inner;

/// The most versions that are compared: those that were registered last.
const VERSIONS_MAX: i64 = 1_000;

/// A semantic version without its build metadata, which does not affect the order.
#[derive(Debug, PartialEq, Eq)]
struct Semantic<'a> {
    numbers: [u64; 3],
    /// The identifiers of a pre-release; `None`: it is a release.
    pre_release: Option<Vec<&'a str>>,
}

impl<'a> Semantic<'a> {
    /// Parses `1.2.3`, `v1.2.3`, `1.2.3-rc.1`; missing numbers are zero, as in `1.2`.
    fn read(text: &'a str) -> Option<Semantic<'a>> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(text, _)| text);
        let (release, pre_release) =
            text.split_once('-').map_or((text, None), |(text, pre_release)| (text, Some(pre_release)));
        let mut numbers = [0; 3];
        let mut parts = release.split('.');
        for (index, part) in parts.by_ref().take(3).enumerate() {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            numbers[index] = part.parse().ok().filter(|_| digits)?;
        }
        parts
            .next()
            .is_none()
            .then(|| Semantic { numbers, pre_release: pre_release.map(|text| text.split('.').collect()) })
    }
}

impl Ord for Semantic<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let pre_releases = match (&self.pre_release, &other.pre_release) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(one), Some(other)) => {
                let parts = one.iter().zip(other).map(|(one, other)| identifiers(one, other));
                parts.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
            }
        };
        self.numbers.cmp(&other.numbers).then(pre_releases)
    }
}

impl PartialOrd for Semantic<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers are compared by value, and are less than texts.
fn identifiers(one: &str, other: &str) -> Ordering {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => one.cmp(other),
    }
}

/// The newest of some versions, given in the order of registration.
fn newest(versions: &[String]) -> Option<&String> {
    // `max_by` returns the last of equal elements.
    versions.iter().max_by(|one, other| Semantic::read(one).cmp(&Semantic::read(other)))
}

impl Inner {
    /// The newest version of a template.
    pub(crate) async fn newest_version(&self, namespace: &str, name: &str) -> Result<String> {
        let missing = || Error::NoTemplate {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: "any version".to_owned(),
        };
        if [namespace, name].iter().any(|part| part.contains('\0')) {
            return Err(missing());
        }
        let query = || sqlx::query(&self.sql.versions).bind(namespace).bind(name).bind(VERSIONS_MAX);
        let rows = self.db.ask("find the versions of a template", query).await?;
        let versions = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<String>>>()?;
        newest(&versions).cloned().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Semantic versions are ordered by their specification, whatever the order of registration; any other text is
    /// older.
    #[test]
    fn the_newest_version_is_the_highest() {
        let newest = |versions: &[&str]| {
            let versions: Vec<String> = versions.iter().map(|version| (*version).to_owned()).collect();
            newest(&versions).cloned().unwrap_or_default()
        };
        assert_eq!(newest(&["1.10.0", "1.9.0"]), "1.10.0");
        assert_eq!(newest(&["2.0.0-rc.1", "1.9.9"]), "2.0.0-rc.1");
        assert_eq!(newest(&["2.0.0", "2.0.0-rc.2", "2.0.0-rc.10"]), "2.0.0");
        assert_eq!(newest(&["1.0.0-rc.10", "1.0.0-rc.9", "1.0.0-alpha"]), "1.0.0-rc.10");
        assert_eq!(newest(&["0.1", "monday", "tuesday"]), "0.1");
        assert_eq!(newest(&["monday", "sunday", "autumn"]), "autumn");
        assert_eq!(newest(&["1.0.0+a", "1.0.0+b"]), "1.0.0+b");
        assert_eq!(newest(&[]), "");
        assert_eq!(Semantic::read("1..2"), None);
        assert_eq!(Semantic::read("1.2.3.4"), None);
    }
}
