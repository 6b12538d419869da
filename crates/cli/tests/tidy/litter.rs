//! Nothing lies about: no left-over files, no notes to self, no history in comments, no output from libraries.

use crate::repository::{File, Offence, files, places, report};

/// How the names of left-overs end.
const LEFT_OVERS: &[&str] =
    &[".orig", ".rej", ".log", ".bak", ".tmp", ".swp", ".patch", ".diff", ".proptest-regressions", "~", ".DS_Store"];

/// Files that tell what happened instead of what is.
const DIARIES: &[&str] = &["plan", "notes", "progress", "summary", "status", "prompt", "journal", "scratch"];

/// Words that put off, put together so that this file is not an offence itself.
const PUT_OFF: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Words that mean something only to who was there, followed by a number.
const TICKETS: &[&str] =
    &[concat!("phase", " "), concat!("issue", " #"), concat!("ticket", " "), concat!("milestone", " ")];

/// Folders of somebody's own machine.
const MACHINES: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

/// Crates that other programs use: what they have to say goes through `tracing` or into an answer.
const LIBRARIES: &[&str] = &[
    "crates/pg/src/",
    "crates/wake/src/",
    "crates/web/src/",
    "crates/durable/src/",
    "crates/queue/src/",
    "crates/flow/src/",
    "crates/console/src/",
];

/// Where a test talks to whoever runs it.
const TALKATIVE: &str = "crates/pg/src/testing/";

/// Of the languages comments are written in.
const WRITTEN: &[&str] = &["rs", "sql", "sh", "toml", "md", "yml", "yaml", ""];

fn check(files: &[File]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files {
        let (name, stem) = (file.name(), file.stem().to_ascii_lowercase());
        if LEFT_OVERS.iter().any(|end| name.ends_with(end)) || file.path.contains("proptest-regressions") {
            offences.push(file.offence(1, "a left-over: remove it"));
            continue;
        }
        if matches!(file.extension(), "md" | "txt") && DIARIES.contains(&stem.as_str()) {
            offences.push(file.offence(1, "a diary: keep what is still true in docs/, remove the rest"));
        }
        if WRITTEN.contains(&file.extension()) {
            offences.extend(file.lines().filter_map(|(at, line)| Some(file.offence(at, fault(file, line)?))));
        }
    }
    offences
}

/// What is wrong with a line, if anything.
fn fault(file: &File, line: &str) -> Option<&'static str> {
    if PUT_OFF.iter().any(|word| has_word(line, word)) {
        return Some("a note to self: do it, or say what is true now");
    }
    let lower = line.to_lowercase();
    let numbered = |start: &str| {
        lower.match_indices(start).any(|(at, _)| lower[at + start.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    if TICKETS.iter().any(|start| numbered(start)) {
        return Some("history: say why in words that stay true without it");
    }
    if MACHINES.iter().any(|folder| line.contains(folder)) {
        return Some("a path of one machine: say it so that it is true on every other");
    }
    let library = LIBRARIES.iter().any(|library| file.path.starts_with(library));
    if library && calls(line, "println!") {
        return Some("a library prints: use tracing, or answer it");
    }
    if library && calls(line, "eprintln!") && !file.path.starts_with(TALKATIVE) {
        return Some("a library prints: use tracing, or answer it");
    }
    if file.extension() == "rs" && calls(line, concat!("dbg", "!")) {
        return Some("debugging: remove it");
    }
    None
}

/// Whether a macro is called, and not one whose name only ends like it.
fn calls(line: &str, name: &str) -> bool {
    line.find(name).is_some_and(|at| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '"'))
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// Every file and every line of the repository.
#[test]
fn nothing_lies_about() {
    report(check(files()));
}

/// One of each kind, made up; and what only looks like it.
#[test]
fn litter_is_an_offence() {
    let put_off = PUT_OFF[0];
    let made = [
        File::new("a/b.rs.orig", ""),
        File::new("a/proptest-regressions/b.txt", ""),
        File::new("PROGRESS.md", "All done.\n"),
        File::new(
            "crates/wake/src/a.rs",
            &format!("fine();\n// {put_off}: later\nprintln!(\"x\");\neprintln!(\"x\");\n"),
        ),
        File::new("crates/pg/src/testing/a.rs", "eprintln!(\"skipped\");\n"),
        File::new("crates/cli/src/a.rs", &format!("println!();\n{}!(x);\n", "dbg")),
        File::new("docs/a.md", &format!("As of {}2 it works.\nThe last phase of the moon.\n", TICKETS[0])),
        File::new("scripts/a.sh", &format!("mktemp making-XXXXXX\ncd {}x\n", MACHINES[0])),
    ];
    let expected = [
        ("a/b.rs.orig", 1),
        ("a/proptest-regressions/b.txt", 1),
        ("PROGRESS.md", 1),
        ("crates/wake/src/a.rs", 2),
        ("crates/wake/src/a.rs", 3),
        ("crates/wake/src/a.rs", 4),
        ("crates/cli/src/a.rs", 2),
        ("docs/a.md", 1),
        ("scripts/a.sh", 2),
    ];
    assert_eq!(places(&check(&made)), expected);
}
