//! Preparing every SQL text against the real schema, without running it.
//!
//! A mistake in a statement that is sent once a day, or only after a failure, may stay unnoticed for a long time.
//! PREPARE finds a misspelt column, a missing function or a parameter of the wrong type.

use std::path::Path;

use sqlx::{Executor as _, SqlSafeStr as _};

use crate::{Database, Schema};

/// The `.sql` files of a folder as pairs of name and text, by name. Read at run time, so that no file is missed.
///
/// # Panics
/// If there is none, or one cannot be read.
pub fn sql_files(folder: impl AsRef<Path>) -> Vec<(String, String)> {
    let folder = folder.as_ref();
    let cannot = |error: std::io::Error| -> ! { panic!("cannot read {}: {error}", folder.display()) };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| cannot(error)) {
        let path = entry.unwrap_or_else(|error| cannot(error)).path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, std::fs::read_to_string(&path).unwrap_or_else(|error| cannot(error))));
        }
    }
    assert!(!files.is_empty(), "there is no .sql file in {}", folder.display());
    files.sort();
    files
}

/// Prepares each of `statements`, pairs of a name and a text with `{schema}` in it, and runs none. Bodies of `plpgsql`
/// functions are not checked.
///
/// # Panics
/// If any cannot be prepared, with the name and PostgreSQL's reason for each; or if `statements` is empty.
pub async fn prepare_all<N: AsRef<str>, T: AsRef<str>>(database: &Database, schema: &Schema, statements: &[(N, T)]) {
    assert!(!statements.is_empty(), "there is no statement to prepare");
    let mut session = database.session().await.expect("a session to prepare in");
    let mut faults = Vec::new();
    for (name, text) in statements {
        let sql = schema.sql(text.as_ref());
        if let Err(error) = session.prepare(sql.into_sql_str()).await {
            faults.push(format!("{}: {error}", name.as_ref()));
        }
    }
    assert!(faults.is_empty(), "PostgreSQL cannot prepare:\n{}", faults.join("\n"));
    session.finish().await.expect("finish the session");
}
