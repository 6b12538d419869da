//! What `deploy` names exists: metrics in alerts and plots, settings in units and manifests, a page of the runbook and a
//! test for every alert.

use std::collections::BTreeSet;

use crate::repository::{File, Offence, file, files, places, report};

/// What a histogram is scraped as.
const PARTS: &[&str] = &["_bucket", "_sum", "_count"];

/// Variables that are no settings: the file of settings, the token, and the password of the compose file's database.
const VARIABLES: &[&str] = &["REVEILLE_CONFIG", "REVEILLE_TOKEN", "REVEILLE_DB_PASSWORD"];

/// The words of a line that begin like this and go on with the characters of a name.
fn words<'a>(line: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    line.split(move |letter| !is_part(letter)).filter(move |word| word.starts_with(start))
}

fn names(files: &[&File], start: &str, is_known: impl Fn(&str) -> bool, what: &str) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files {
        for (at, line) in file.lines() {
            let unknown = words(line, start).filter(|word| !is_known(word));
            offences.extend(unknown.map(|word| file.offence(at, format!("`{word}` is no {what}: correct it"))));
        }
    }
    offences
}

/// The names behind a key, with their lines: `- alert: ReveilleNotReady`.
fn named<'a>(file: &'a File, key: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    file.lines().filter_map(move |(at, line)| Some((at, words(line.split_once(key)?.1, "Reveille").next()?)))
}

/// Every alert has a page of the runbook that it links, and a case; no page and no case is without an alert.
fn alerts(rules: &File, cases: &File, runbook: &File) -> Vec<Offence> {
    let alerts: BTreeSet<&str> = named(rules, "alert: ").map(|(_, name)| name).collect();
    let pages: BTreeSet<&str> = named(runbook, "## ").map(|(_, name)| name).collect();
    let tested: BTreeSet<&str> = named(cases, "alertname: ").map(|(_, name)| name).collect();
    let mut offences = Vec::new();
    for (at, name) in named(rules, "alert: ") {
        let link = format!("runbook: docs/runbook.md#{}", name.to_lowercase());
        if !rules.text.contains(&link) {
            offences.push(rules.offence(at, format!("{name} has no annotation `{link}`: add it")));
        }
        if !pages.contains(name) {
            offences.push(rules.offence(at, format!("{name} has no heading in {}: add one", runbook.path)));
        }
        if !tested.contains(name) {
            offences.push(rules.offence(at, format!("{name} has no case in {}: add one", cases.path)));
        }
    }
    for (at, name) in named(runbook, "## ").filter(|(_, name)| !alerts.contains(name)) {
        offences.push(runbook.offence(at, format!("there is no alert {name}: remove the page")));
    }
    offences
}

/// Every metric, setting and alert that the files for deployments name exists.
#[test]
fn deployments_name_what_exists() {
    let deployed: Vec<&File> = files().iter().filter(|file| file.path.starts_with("deploy/")).collect();
    assert!(deployed.len() > 5, "the folder has files");
    let metrics: BTreeSet<&str> = reveille_wake::METRICS
        .iter()
        .chain(reveille_durable::METRICS)
        .chain(reveille_queue::METRICS)
        .chain(reveille_flow::METRICS)
        .chain(reveille::http::METRICS)
        .chain(reveille::statistics::METRICS)
        .map(|metric| metric.name)
        .collect();
    let is_metric = |word: &str| {
        let whole = PARTS.iter().find_map(|part| word.strip_suffix(part));
        metrics.contains(word) || whole.is_some_and(|name| metrics.contains(name))
    };
    let keys = reveille::config::keys();
    let is_variable = |word: &str| VARIABLES.contains(&word) || keys.iter().any(|key| key.env == word);
    let mut offences = names(&deployed, "reveille_", is_metric, "metric");
    offences.extend(names(&deployed, "REVEILLE_", is_variable, "variable of a setting"));
    let [rules, cases, runbook] = ["deploy/alerts.yaml", "deploy/alerts_test.yaml", "docs/runbook.md"].map(file);
    offences.extend(alerts(rules, cases, runbook));
    report(offences);
}

/// A made-up metric, and an alert without a page, a link and a case.
#[test]
fn a_made_up_name_is_an_offence() {
    let rules =
        File::new("deploy/a.yaml", "- alert: ReveilleX\n  expr: reveille_a_total + reveille_b_sum + reveille_c\n");
    let is_metric = |word: &str| ["reveille_a_total", "reveille_b_sum"].contains(&word);
    assert_eq!(places(&names(&[&rules], "reveille_", is_metric, "metric")), [("deploy/a.yaml", 2)]);
    let (cases, runbook) = (File::new("t.yaml", ""), File::new("r.md", "# Runbook\n\n## ReveilleY\n"));
    let found = alerts(&rules, &cases, &runbook);
    assert_eq!(places(&found), [("deploy/a.yaml", 1), ("deploy/a.yaml", 1), ("deploy/a.yaml", 1), ("r.md", 3)]);
}
