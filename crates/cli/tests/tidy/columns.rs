//! SQL fits into 120 columns, one clause a line.

use crate::repository::{File, Offence, files, places, report};

/// Columns of a line.
const WIDTH: usize = 120;

/// The generated snapshot of a schema, written as PostgreSQL writes it.
const SNAPSHOT: &str = "schema.sql";

/// Files of other projects, kept as they are.
const FOREIGN: &[&str] = &["crates/durable/tests/it/duroxide_pg.sql"];

fn check(files: &[File], unchecked: &[&str]) -> Vec<Offence> {
    let is_checked = |file: &&File| {
        file.extension() == "sql"
            && file.name() != SNAPSHOT
            && !unchecked.iter().any(|path| file.path == *path || path.ends_with('/') && file.path.starts_with(path))
    };
    let mut offences = Vec::new();
    for file in files.iter().filter(is_checked) {
        for (at, line) in file.lines() {
            let columns = line.chars().count();
            if columns > WIDTH {
                offences.push(file.offence(at, format!("{columns} columns, the limit is {WIDTH}: break the line")));
            }
        }
    }
    offences
}

/// Every SQL file of the repository against the limit.
#[test]
fn sql_fits_the_columns() {
    report(check(files(), FOREIGN));
}

/// Made-up files at the limit, above it, above it in characters of several bytes, and not checked.
#[test]
fn a_wide_line_is_an_offence() {
    let file = |path: &str, line: String| File::new(path, &format!("-- short\n{line}\n"));
    let made = [
        file("a/db/fits.sql", "x".repeat(WIDTH)),
        file("a/db/wide.sql", "x".repeat(WIDTH + 1)),
        file("a/db/fits_too.sql", "é".repeat(WIDTH)),
        file("a/db/schema.sql", "x".repeat(WIDTH + 1)),
        file("a/foreign.sql", "x".repeat(WIDTH + 1)),
        file("b/db/pending.sql", "x".repeat(WIDTH + 1)),
        file("a/src/wide.rs", "x".repeat(WIDTH + 1)),
    ];
    assert_eq!(places(&check(&made, &["a/foreign.sql", "b/"])), [("a/db/wide.sql", 2)]);
}
