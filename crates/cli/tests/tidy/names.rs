//! No file, folder or module has a name that says nothing.
//!
//! Whatever belongs nowhere ends up in a file called like these, and then everything depends on it.

use crate::repository::{File, Offence, files, places, report};

/// Names that fit anything.
const EMPTY: &[&str] = &[
    "shared",
    "common",
    "core",
    "util",
    "utils",
    "type",
    "types",
    "model",
    "models",
    "manager",
    "service",
    "processor",
    "helper",
    "helpers",
    "misc",
    "stuff",
];

/// A word of flow's users for their own code, and of nobody else.
const HANDLER: &str = "handler";

fn says_nothing(path: &str, name: &str) -> bool {
    EMPTY.contains(&name) || name == HANDLER && !path.starts_with("crates/flow/")
}

fn check(files: &[File]) -> Vec<Offence> {
    let advice = |name: &str| format!("`{name}` fits anything: name it after the one thing that it is for");
    let mut offences = Vec::new();
    for file in files {
        let parts = file.folder().split('/').chain([file.stem()]);
        offences.extend(parts.filter(|name| says_nothing(&file.path, name)).map(|name| file.offence(1, advice(name))));
        if file.extension() != "rs" {
            continue;
        }
        for (at, line) in file.lines() {
            let Some((_, rest)) = line.split_once("mod ").filter(|(before, _)| is_visibility(before)) else { continue };
            let name = rest.trim_end_matches([';', '{', ' ']);
            if says_nothing(&file.path, name) {
                offences.push(file.offence(at, advice(name)));
            }
        }
    }
    offences
}

fn is_visibility(before: &str) -> bool {
    matches!(before.trim(), "" | "pub") || before.trim().starts_with("pub(")
}

/// Every path and every `mod` of the repository.
#[test]
fn names_say_something() {
    report(check(files()));
}

/// Made-up names in a folder, a file and a module; words that only contain them are fine.
#[test]
fn an_empty_name_is_an_offence() {
    let made = [
        File::new("crates/a/src/utils/text.rs", ""),
        File::new("crates/a/src/manager.rs", ""),
        File::new("crates/a/src/lib.rs", "mod counting;\npub(crate) mod common;\n// the core of it\nmod core {\n"),
        File::new("crates/a/src/handler.rs", ""),
        File::new("crates/flow/src/handler.rs", ""),
        File::new("crates/a/src/typesetting.rs", ""),
    ];
    let expected = [
        ("crates/a/src/utils/text.rs", 1),
        ("crates/a/src/manager.rs", 1),
        ("crates/a/src/lib.rs", 2),
        ("crates/a/src/lib.rs", 4),
        ("crates/a/src/handler.rs", 1),
    ];
    assert_eq!(places(&check(&made)), expected);
}
