//! No file is longer than a reader's patience.
//!
//! A long file is two things under one name. Those that are one thing, and long, are listed with the reason; an entry that is no
//! longer needed is an offence too, so that the list stays as short as it can be.

use crate::repository::{File, Offence, files, places, report};

/// Lines per file, by what it is. Tests are lists of cases and may be longer; a query that fills a screen is two.
const LIMITS: &[(Kind, usize)] =
    &[(Kind::Rust, 400), (Kind::Test, 600), (Kind::Sql, 120), (Kind::Script, 150), (Kind::Prose, 400)];

/// Files that are longer, up to where, and why.
const LONGER: &[Longer] = &[
    Longer { path: "ARCHITECTURE.md", limit: 430, because: "the modules of every crate, and what they never do" },
    Longer { path: "docs/http-api.md", limit: 440, because: "every route, in one table per product" },
    Longer { path: "crates/flow/src/http/report.rs", limit: 420, because: "the five reports of a worker share a list" },
    Longer {
        path: "crates/queue/src/admin/messages.rs",
        limit: 410,
        because: "one message, from its row to its states",
    },
    Longer { path: "crates/wake/src/wait/group.rs", limit: 550, because: "one state machine, tested as a whole" },
    Longer { path: "crates/wake/src/wait/consumer.rs", limit: 500, because: "one registry under one lock" },
    Longer { path: "crates/wake/src/notify/dispatcher.rs", limit: 480, because: "one dispatcher under one lock" },
    Longer {
        path: "crates/durable/db/functions/ack_instances.sql",
        limit: 410,
        because: "one turn in ten steps, applied whole or not at all",
    },
    Longer {
        path: "crates/durable/db/functions/claim_instances.sql",
        limit: 290,
        because: "one decision under one lock",
    },
    Longer { path: "crates/durable/db/functions/claim_work.sql", limit: 240, because: "one decision under one lock" },
    Longer {
        path: "crates/flow/db/functions/claim_steps.sql",
        limit: 260,
        because: "one poll, in the order of its locks",
    },
    Longer { path: "crates/flow/db/migrations/0001_types.sql", limit: 130, because: "every type with its meaning" },
    Longer { path: "crates/flow/db/migrations/0002_templates.sql", limit: 130, because: "tables with their columns" },
    Longer { path: "crates/flow/db/migrations/0003_tasks.sql", limit: 140, because: "tables with their columns" },
    Longer {
        path: "crates/queue/db/migrations/0001_queues_and_messages.sql",
        limit: 160,
        because: "tables with their columns",
    },
    Longer { path: "crates/queue/src/produce/append.rs", limit: 440, because: "one push, from its hashes to its rows" },
    Longer { path: "crates/flow/src/claim/mod.rs", limit: 420, because: "one claim, from its request to its steps" },
    Longer { path: "crates/flow/src/complete/mod.rs", limit: 440, because: "one report, from its call to its outcome" },
    Longer { path: "docs/flow.md", limit: 450, because: "one page for the whole product" },
    Longer { path: "crates/flow/src/query/task.rs", limit: 420, because: "one task, read as the API shows it" },
    Longer {
        path: "crates/flow/db/functions/load_claimed_steps.sql",
        limit: 160,
        because: "one answer, read by its keys",
    },
    Longer { path: "crates/flow/db/functions/complete_steps.sql", limit: 210, because: "one decision under one lock" },
    Longer { path: "crates/flow/db/functions/operate_step.sql", limit: 160, because: "one decision under one lock" },
    Longer { path: "crates/queue/db/functions/ack.sql", limit: 210, because: "one decision under one lock" },
    Longer { path: "crates/queue/db/functions/claim.sql", limit: 280, because: "one decision under one lock" },
    Longer { path: "crates/queue/db/functions/push.sql", limit: 190, because: "one decision under one lock" },
    Longer {
        path: "crates/queue/db/functions/lease_partitions.sql",
        limit: 240,
        because: "one decision under one lock",
    },
];

struct Longer {
    path: &'static str,
    limit: usize,
    because: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rust,
    Test,
    Sql,
    Script,
    Prose,
}

fn kind(file: &File) -> Option<Kind> {
    // It grows by a line per change, for ever.
    if file.name() == "CHANGELOG.md" {
        return None;
    }
    match file.extension() {
        "rs" if file.is_test() => Some(Kind::Test),
        "rs" => Some(Kind::Rust),
        // The snapshot of a whole schema is generated.
        "sql" if file.name() != "schema.sql" => Some(Kind::Sql),
        "sh" => Some(Kind::Script),
        "md" => Some(Kind::Prose),
        _ => None,
    }
}

fn limit(file: &File) -> Option<usize> {
    let kind = kind(file)?;
    LIMITS.iter().find(|(limited, _)| *limited == kind).map(|(_, limit)| *limit)
}

fn check(files: &[File], longer: &[Longer]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files {
        let Some(limit) = limit(file) else { continue };
        let lines = file.text.lines().count();
        let allowed = longer.iter().find(|entry| entry.path == file.path);
        match allowed {
            Some(entry) if lines > entry.limit => {
                let what =
                    format!("{lines} lines, {} are allowed because it is {}: split it", entry.limit, entry.because);
                offences.push(file.offence(entry.limit + 1, what));
            }
            Some(_) if lines <= limit => {
                offences.push(file.offence(1, format!("{lines} lines are within {limit}: remove its entry in LONGER")));
            }
            Some(_) => {}
            None if lines > limit => {
                let what = format!("{lines} lines, the limit is {limit}: split it, or give its reason in LONGER");
                offences.push(file.offence(limit + 1, what));
            }
            None => {}
        }
    }
    for entry in longer.iter().filter(|entry| files.iter().all(|file| file.path != entry.path)) {
        offences.push(Offence { path: entry.path.into(), line: 1, what: "is gone: remove its entry in LONGER".into() });
    }
    offences
}

/// Every file of the repository against its limit.
#[test]
fn files_are_short() {
    report(check(files(), LONGER));
}

/// Made-up files just within and just beyond each way to be wrong.
#[test]
fn a_long_file_and_a_needless_exception_are_offences() {
    let file = |path: &str, lines: usize| File::new(path, &"x\n".repeat(lines));
    let made = [
        file("src/short.rs", 400),
        file("src/long.rs", 401),
        file("tests/long.rs", 401),
        file("a/tests/it/longer.rs", 601),
        file("sql/long.sql", 121),
        file("src/excused.rs", 450),
        file("src/needless.rs", 400),
        file("src/beyond.rs", 451),
        file("CHANGELOG.md", 5_000),
    ];
    let entry = |path| Longer { path, limit: 450, because: "made up" };
    let longer = [entry("src/excused.rs"), entry("src/needless.rs"), entry("src/beyond.rs"), entry("src/gone.rs")];
    let expected = [
        ("src/long.rs", 401),
        ("tests/long.rs", 401),
        ("a/tests/it/longer.rs", 601),
        ("sql/long.sql", 121),
        ("src/needless.rs", 1),
        ("src/beyond.rs", 451),
        ("src/gone.rs", 1),
    ];
    assert_eq!(places(&check(&made, &longer)), expected);
}
