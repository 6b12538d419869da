//! SQL says what it is, is used, and names its schema.
//!
//! A statement begins with its own name as a comment, because that is what `pg_stat_statements` and a server's log show of it; in a crate that
//! fulfils somebody else's contract it may be the contract's words, as long as they are one statement's alone. A
//! table without `{schema}` would be looked for on the `search_path`, which is session state and not ours. Beside migrations
//! lies `schema.sql`, which says what they lead to; a test writes and compares it, so it is not held to what people write.

use std::collections::BTreeSet;

use crate::repository::{File, Offence, files, places, report, resolve};

/// The snapshot of a schema.
const SNAPSHOT: &str = "schema.sql";

/// What the name of a table follows. What a `select` puts something `into` is a variable.
const BEFORE_A_TABLE: &[&str] = &["from", "join", "insert_into", "update", "table", "on"];

/// Where statements are called by the words of a contract: duroxide's.
const CONTRACTS: &[&str] = &["crates/durable/db/statements"];

fn check(files: &[File]) -> Vec<Offence> {
    let sql: Vec<&File> = files.iter().filter(|file| file.extension() == "sql" && file.name() != SNAPSHOT).collect();
    let tables: BTreeSet<&str> = sql.iter().flat_map(|file| created(&file.text)).collect();
    let included = included(files);
    let mut called: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut offences = Vec::new();
    for file in sql {
        if let Some(owner) = file.folder().strip_suffix("migrations") {
            let snapshot = format!("{owner}{SNAPSHOT}");
            if files.iter().all(|file| file.path != snapshot) {
                offences.push(file.offence(1, format!("{snapshot} is missing: let a test make it, by check_snapshot")));
            }
        }
        let first = file.text.lines().next().unwrap_or_default();
        if !first.starts_with("--") && !first.starts_with("/*") {
            offences.push(
                file.offence(1, "opens without a comment: say what it does, its parameters, rows, locks and index"),
            );
        }
        if is_statement(file) {
            let name = first.strip_prefix("/* ").and_then(|rest| rest.strip_suffix(" */")).unwrap_or_default();
            let word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let words = name.split(", ").all(word);
            if name != file.stem() && !(words && CONTRACTS.contains(&file.folder())) {
                offences
                    .push(file.offence(1, format!("is a statement: its first line must be `/* {} */`", file.stem())));
            } else if !called.insert((file.folder(), name)) {
                offences.push(
                    file.offence(1, format!("`{name}` is another statement's name: they would be counted as one")),
                );
            }
        }
        if !included.contains(&file.path) {
            offences.push(file.offence(1, "nothing includes it: use it by include_str!, or remove it"));
        }
        for (at, line) in file.lines() {
            let code = line.split("--").next().unwrap_or_default().to_lowercase();
            let code = code.replace("insert into", "insert_into");
            let words: Vec<&str> = code.split_whitespace().collect();
            let bare = words.windows(2).find(|pair| {
                BEFORE_A_TABLE.contains(&pair[0]) && tables.contains(pair[1].trim_end_matches([',', ';', ')', '(']))
            });
            if let Some(pair) = bare {
                offences.push(
                    file.offence(at, format!("`{}` without its schema: write `{{schema}}.{}`", pair[1], pair[1])),
                );
            }
        }
    }
    offences
}

/// Tables that a text creates.
fn created(text: &str) -> impl Iterator<Item = &str> {
    text.split("create table ").skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix("if not exists ").unwrap_or(rest).strip_prefix("{schema}.")?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

/// Whether it is one statement that a program sends, as opposed to something applied once: those create.
fn is_statement(file: &File) -> bool {
    let code = file.text.lines().find(|line| !line.starts_with("--") && !line.starts_with("/*") && !line.is_empty());
    let folder = file.folder();
    (folder.ends_with("/sql") || folder.ends_with("/statements"))
        && !code.is_some_and(|code| code.trim_start().starts_with("create "))
}

/// The paths that Rust files include: one by one, as a statement of their crate, or by a macro over a list of `field = "name"`.
fn included(files: &[File]) -> BTreeSet<String> {
    let mut included = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        let strings = |before: &str| {
            let rests = file.text.split(before).skip(1).filter_map(|rest| rest.split('"').next());
            rests.map(str::to_owned).collect::<Vec<_>>()
        };
        included.extend(strings("include_str!(\"").iter().map(|target| resolve(file.folder(), target)));
        let statements = format!("{}/db/statements", file.path.split("/src/").next().unwrap_or_default());
        let mut names = strings("statement!(\"");
        if file.text.contains("statement!($") {
            names.extend(strings(" = \""));
        }
        included.extend(names.iter().map(|name| format!("{statements}/{name}.sql")));
    }
    included
}

/// Every `.sql` file of the repository.
#[test]
fn sql_says_what_it_is_and_where() {
    report(check(files()));
}

/// One of each fault, made up, beside what is right.
#[test]
fn sloppy_sql_is_an_offence() {
    let made = [
        File::new(
            "a/src/lib.rs",
            "include_str!(\"../sql/good.sql\"), include_str!(\"../sql/bare.sql\"),\ninclude_str!(\"../m.sql\")\n\
             include_str!(\"../migrations/1.sql\"), include_str!(\"../../b/migrations/1.sql\")",
        ),
        File::new("a/migrations/1.sql", "-- No snapshot.\n"),
        File::new("b/migrations/1.sql", "-- With one.\n"),
        File::new("b/schema.sql", "CREATE INDEX i ON job;\n"),
        File::new("a/m.sql", "-- Jobs.\ncreate table {schema}.job (\n"),
        File::new(
            "a/sql/good.sql",
            "/* good */\n-- What it does, from job to job.\nselect 1 from {schema}.job j, unnest($1) job\n",
        ),
        File::new("a/sql/bare.sql", "/* bare */\nselect 1\nfrom job\n"),
        File::new("a/sql/orphan.sql", "select 1\n"),
        File::new("a/sql/misnamed.sql", "/* something */\nselect 1\n"),
        File::new("a/f.sql", "-- A variable, and a table.\nselect 1 into job;\ninsert into job values (1)\n"),
        File::new(
            "crates/durable/src/q.rs",
            "$(reveille_pg::statement!($file))\nqueries! { a = \"a\", b = \"b\", both = \"both\", c = \"c\" }\ninclude_str!(\"../../../a/f.sql\")",
        ),
        File::new("crates/durable/db/statements/a.sql", "/* fetch_it */\nselect 1\n"),
        File::new("crates/durable/db/statements/both.sql", "/* ack_it, send_it */\nselect 1\n"),
        File::new("crates/durable/db/statements/b.sql", "/* fetch_it */\nselect 1\n"),
        File::new("crates/durable/db/statements/c.sql", "/* two words */\nselect 1\n"),
        File::new("crates/durable/db/statements/d.sql", "/* d */\nselect 1\n"),
    ];
    let expected = [
        ("a/migrations/1.sql", 1),
        ("a/sql/bare.sql", 3),
        ("a/sql/orphan.sql", 1),
        ("a/sql/orphan.sql", 1),
        ("a/sql/orphan.sql", 1),
        ("a/sql/misnamed.sql", 1),
        ("a/sql/misnamed.sql", 1),
        ("a/f.sql", 3),
        ("crates/durable/db/statements/b.sql", 1),
        ("crates/durable/db/statements/c.sql", 1),
        ("crates/durable/db/statements/d.sql", 1),
    ];
    assert_eq!(places(&check(&made)), expected);
}
