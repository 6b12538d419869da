//! Every test says what it is for, and every test runs.

use crate::repository::{File, Offence, files, places, report};

// Put together so that this file is not an offence itself.
const IGNORED: &str = concat!("#[", "ignore");

fn check(files: &[File]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            if line.starts_with(IGNORED) {
                offences.push(file.offence(index + 1, "a test that does not run: make it run, or remove it"));
            }
            let opens = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let above = lines[..index].iter().rev().find(|above| !above.starts_with("#["));
            if opens && !above.is_some_and(|above| above.starts_with("///")) {
                offences.push(
                    file.offence(index + 1, "a test without a word: say its goal and its method in a doc comment"),
                );
            }
        }
    }
    offences
}

/// Every test of the repository opens with a doc comment, and none is switched off.
#[test]
fn tests_say_their_goal_and_run() {
    report(check(files()));
}

/// Made-up tests: one with a comment and an attribute between, one without, one that does not run.
#[test]
fn a_silent_or_sleeping_test_is_an_offence() {
    let text =
        format!("/// Goal.\n#[cfg(unix)]\n#[test]\nfn a() {{}}\n\n#[tokio::test]\nasync fn b() {{}}\n{IGNORED}]\n");
    let made = [File::new("a.rs", &text), File::new("a.md", &text)];
    assert_eq!(places(&check(&made)), [("a.rs", 6), ("a.rs", 8)]);
}
