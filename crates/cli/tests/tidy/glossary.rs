//! One word, one meaning: words that were retired stay away, and the words that remain are explained.
//!
//! Private words keep readers out. [`RETIRED`] lists those that were replaced by the field's word; none may come back as
//! a word of a comment, a document or SQL, or as a part of an identifier. A few have a meaning of their own that has
//! nothing to do with the retired one: their phrases are in [`ALLOWED`], with the reason. The glossary of
//! `docs/concepts.md` explains every domain word once.

use std::collections::BTreeMap;

use crate::repository::{File, Offence, file, files, places, report};

/// Words that must not appear, and what to write instead. The plural with `s` counts, too.
const RETIRED: &[(&str, &str)] = &[
    ("passenger", "pending write"),
    ("boarded", "write batch"),
    ("ahead", "earlier, or in front"),
    ("anybody", "the consumer, the client, the process"),
    ("bell", "wake target"),
    ("boarding", "pending writes"),
    ("claimant", "worker"),
    ("deaf", "disconnected"),
    ("doubt", "needs recheck"),
    ("echo", "own notification"),
    ("everybody", "every consumer, every client, every process"),
    ("fate", "outcome"),
    ("flight", "write batch"),
    ("floor", "scan lower bound"),
    ("hearing", "connected"),
    ("hub", "dispatcher"),
    ("intention", "waiter"),
    ("landed", "batch result"),
    ("lane", "step queue, tag queue, partition batch"),
    ("looked", "poll result"),
    ("margin", "slack"),
    ("moment", "timestamp, or the event that is meant"),
    ("newcomer", "waiter"),
    ("news", "task events"),
    ("nobody", "no consumer, no client, no process"),
    ("pace", "notify rate"),
    ("place", "partition ref"),
    ("plane", "batch sender"),
    ("refusal", "API error"),
    ("ring", "wake-up"),
    ("ringer", "notifier"),
    ("rung", "woken up"),
    ("seat", "waiter"),
    ("settle", "complete, apply, release"),
    ("settled", "completed, applied, released"),
    ("shelve", "buffer"),
    ("sight", "visibility key"),
    ("somebody", "a consumer, a client, a process"),
    ("standing", "status"),
    ("stranger", "unhandled step"),
    ("told", "reported"),
    ("wade", "skip dead tuples"),
    ("whoever", "the consumer, the client, the process"),
    ("wish", "claim request"),
];

/// A phrase in which a retired word means something else.
struct Allowed {
    phrase: &'static str,
    #[expect(dead_code, reason = "for readers")]
    because: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed { phrase: "floor()", because: "the function of f64" },
    Allowed { phrase: "floor_char_boundary", because: "the function of str" },
    Allowed { phrase: "time zone standing", because: "the term of calendars" },
    Allowed { phrase: "tls-rustls-ring", because: "the crate `ring`" },
    Allowed { phrase: "rustls--ring", because: "the crate `ring`" },
    Allowed { phrase: "crypto::ring", because: "the crate `ring`" },
    Allowed { phrase: "use ring::", because: "the crate `ring`" },
    Allowed { phrase: "ring::rsa", because: "the crate `ring`" },
    Allowed { phrase: "ring buffer", because: "the data structure" },
    Allowed { phrase: "in place", because: "idiom" },
    Allowed { phrase: "in the place of", because: "idiom" },
    Allowed { phrase: "take place", because: "idiom" },
    Allowed { phrase: "takes place", because: "idiom" },
    Allowed { phrase: "ahead of", because: "idiom" },
    Allowed { phrase: "write-ahead", because: "PostgreSQL's write-ahead log" },
    Allowed { phrase: "\"nobody\"", because: "the user `nobody` of Unix" },
    Allowed { phrase: "`nobody`", because: "the user `nobody` of Unix" },
    Allowed { phrase: "dead letters", because: "the field's term" },
    Allowed { phrase: "the moment the", because: "idiom" },
    Allowed { phrase: "the moment it", because: "idiom" },
    Allowed { phrase: "floor(base_ms", because: "the function of SQL" },
    Allowed { phrase: "the crate `ring`", because: "its name" },
    Allowed { phrase: "pinned_version_when_told", because: "a test of duroxide" },
    Allowed { phrase: "sh echo", because: "the shell's command" },
];

/// Words that the glossary must explain.
const DOMAIN: &[&str] = &[
    "channel",
    "claim",
    "consumer",
    "due",
    "lease",
    "listener",
    "ack",
    "batch sender",
    "cursor",
    "dispatcher",
    "notifier",
    "partition",
    "poll",
    "scan lower bound",
    "segment",
    "slack",
    "visibility key",
    "waiter",
    "wake-up",
    "write batch",
];

/// Whether the rule applies: sources and SQL of the crates, and the documents.
fn is_checked(file: &File) -> bool {
    let in_crate = |part: &str| {
        let rest = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/')).map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(part))
    };
    match file.extension() {
        "rs" => in_crate("src/"),
        "sql" => in_crate("db/"),
        "md" => {
            file.path.starts_with("docs/") || ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&&*file.path)
        }
        _ => false,
    }
}

/// The words of a line in lower case: identifiers are split at `_` and at changes of case.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in line.chars() {
        if letter.is_alphabetic() {
            let begins = !before.is_alphabetic() || letter.is_uppercase() && before.is_lowercase();
            if begins {
                words.push(String::new());
            }
            words.last_mut().expect("a word has begun").extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

fn check(files: &[File], retired: &[(&str, &str)], allowed: &[Allowed]) -> Vec<Offence> {
    let instead: BTreeMap<&str, &str> = retired.iter().copied().collect();
    let find = |word: &str| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        instead.get_key_value(word).or_else(|| instead.get_key_value(singular))
    };
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| is_checked(file)) {
        for (at, line) in file.lines() {
            let rest = allowed.iter().fold(line.to_owned(), |line, allowed| line.replace(allowed.phrase, " "));
            if let Some((word, instead)) = words(&rest).iter().find_map(|word| find(word)) {
                offences.push(file.offence(at, format!("`{word}` is a retired word: write {instead}")));
            }
        }
    }
    offences
}

/// The words that the glossary explains, with their lines.
fn explained(document: &File) -> Vec<(usize, String)> {
    let row = |(at, line): (usize, &str)| {
        let word = line.strip_prefix("| **")?.split_once("**")?.0;
        Some((at, word.to_lowercase()))
    };
    document.lines().filter_map(row).collect()
}

fn check_glossary(document: &File, domain: &[&str], retired: &[(&str, &str)]) -> Vec<Offence> {
    let mut offences = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (at, word) in explained(document) {
        if retired.iter().any(|(retired, _)| *retired == word) {
            offences.push(document.offence(at, format!("`{word}` is a retired word: remove its row")));
        }
        if let Some(first) = seen.insert(word.clone(), at) {
            offences.push(document.offence(at, format!("`{word}` is explained already at line {first}: one meaning")));
        }
    }
    for word in domain.iter().filter(|word| !seen.contains_key(**word)) {
        offences.push(document.offence(1, format!("`{word}` is not explained: add a row `| **{word}** | … |`")));
    }
    offences
}

/// Every source, SQL file and document of the repository against the retired words.
#[test]
fn retired_words_stay_away() {
    report(check(files(), RETIRED, ALLOWED));
}

/// The glossary of the repository against the domain words.
#[test]
fn the_glossary_explains_every_domain_word_once() {
    report(check_glossary(file("docs/concepts.md"), DOMAIN, RETIRED));
}

/// Identifiers are split, plurals count, and a word within another word does not.
#[test]
fn a_retired_word_is_an_offence() {
    let made = [
        File::new("crates/a/src/a.rs", "let old_flight = 1;\nstruct FlightPlan;\n// No flights.\nlet inflight = 2;\n"),
        File::new("crates/a/src/b.rs", "let x = y.floor();\nlet floor = 1;\nlet FLOOR_MAX = 2;\n"),
        File::new("crates/a/db/statements/a.sql", "-- A flight.\n"),
        File::new("crates/a/tests/it/a.rs", "let flight = 1;\n"),
        File::new("docs/a.md", "In the air: flight.\n"),
        File::new("NOTES.md", "flight\n"),
    ];
    let retired = [("flight", "write batch"), ("floor", "lower bound")];
    let allowed = [Allowed { phrase: "floor()", because: "the function of f64" }];
    let expected = [
        ("crates/a/src/a.rs", 1),
        ("crates/a/src/a.rs", 2),
        ("crates/a/src/a.rs", 3),
        ("crates/a/src/b.rs", 2),
        ("crates/a/src/b.rs", 3),
        ("crates/a/db/statements/a.sql", 1),
        ("docs/a.md", 1),
    ];
    assert_eq!(places(&check(&made, &retired, &allowed)), expected);
}

/// A glossary with a word twice, a retired word, and a domain word that is missing.
#[test]
fn a_glossary_with_gaps_is_an_offence() {
    let text = "| word | meaning |\n|---|---|\n| **claim** | x |\n| **claim** | y |\n| **flight** | z |\n";
    let document = File::new("docs/concepts.md", text);
    let offences = check_glossary(&document, &["claim", "lease"], &[("flight", "write batch")]);
    assert_eq!(places(&offences), [("docs/concepts.md", 4), ("docs/concepts.md", 5), ("docs/concepts.md", 1)]);
}
