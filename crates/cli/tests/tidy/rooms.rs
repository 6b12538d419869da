//! Files lie in the folder of their job.
//!
//! A reader who knows what a crate does finds the file by its folder. So the folders of a crate's `src` and `db` are a
//! closed list; a new folder is a decision and gets an entry here.

use std::collections::BTreeSet;

use crate::repository::{File, Offence, files, places, report};

/// The folders directly below a folder.
struct Rooms {
    folder: &'static str,
    rooms: &'static [&'static str],
    /// Files directly in `folder`; everything else lies in a room. `None`: any.
    files: Option<&'static [&'static str]>,
}

const DB: &[&str] = &["functions", "migrations", "statements"];
const SNAPSHOT: Option<&[&str]> = Some(&["schema.sql"]);

const ROOMS: &[Rooms] = &[
    Rooms {
        folder: "crates/wake/src",
        rooms: &["notify", "wait", "write"],
        files: Some(&[
            "changes.rs",
            "error.rs",
            "in_progress.rs",
            "lib.rs",
            "metrics.rs",
            "options.rs",
            "server_state.rs",
            "snapshot.rs",
        ]),
    },
    Rooms { folder: "crates/wake/db", rooms: DB, files: SNAPSHOT },
    Rooms {
        folder: "crates/queue/src",
        rooms: &["admin", "consume", "groups", "http", "produce", "storage"],
        files: Some(&["error.rs", "id.rs", "lib.rs", "message.rs", "name.rs", "queues.rs", "transaction.rs"]),
    },
    Rooms {
        folder: "crates/console/src",
        rooms: &["durable", "graph", "overview", "parts", "queues", "tasks", "wake"],
        files: None,
    },
    Rooms { folder: "crates/durable/db", rooms: DB, files: SNAPSHOT },
    Rooms { folder: "crates/queue/db", rooms: DB, files: SNAPSHOT },
    Rooms {
        folder: "crates/flow/src",
        rooms: &[
            "claim",
            "complete",
            "events",
            "http",
            "namespace",
            "operate",
            "provider",
            "query",
            "schedule",
            "task",
            "template",
            "worker",
        ],
        files: Some(&["error.rs", "flow.rs", "json.rs", "lib.rs", "name.rs", "queries.rs"]),
    },
    Rooms { folder: "crates/flow/db", rooms: DB, files: SNAPSHOT },
];

fn check(files: &[File], rooms: &[Rooms]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for Rooms { folder, rooms, files: allowed } in rooms {
        let mut used = BTreeSet::new();
        for file in files {
            let Some(rest) = file.path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else { continue };
            match rest.split_once('/') {
                Some((room, _)) if rooms.contains(&room) => drop(used.insert(room)),
                Some((room, _)) => {
                    let what = format!("{folder} has no folder `{room}`: it has {}", rooms.join(", "));
                    offences.push(file.offence(1, what));
                }
                None if allowed.is_some_and(|allowed| !allowed.contains(&rest)) => {
                    offences.push(file.offence(1, format!("belongs into one of the folders {}", rooms.join(", "))));
                }
                None => {}
            }
        }
        for room in rooms.iter().filter(|room| !used.contains(**room)) {
            let path = format!("{folder}/{room}");
            offences.push(Offence { path, line: 1, what: "is empty or gone: remove its entry in ROOMS".into() });
        }
    }
    offences
}

/// Every folder of the list against the files in it.
#[test]
fn files_lie_in_their_rooms() {
    report(check(files(), ROOMS));
}

/// Made-up files in a room, in an unknown folder, beside the rooms, and a room without files.
#[test]
fn a_file_outside_its_room_is_an_offence() {
    let file = |path: &str| File::new(path, "");
    let made = [
        file("a/src/lib.rs"),
        file("a/src/wait/poll.rs"),
        file("a/src/wait/deep/poll.rs"),
        file("a/src/misc/poll.rs"),
        file("a/src/poll.rs"),
        file("b/src/poll.rs"),
    ];
    let rooms = [Rooms { folder: "a/src", rooms: &["wait", "write"], files: Some(&["lib.rs"]) }];
    let expected = [("a/src/misc/poll.rs", 1), ("a/src/poll.rs", 1), ("a/src/write", 1)];
    assert_eq!(places(&check(&made, &rooms)), expected);
}
