//! `reveille down` and `reveille psql`: the private PostgreSQL without its server.

use std::{fs, os::unix::fs::symlink};

use tokio::process::Command;

use crate::process::{DataDir, Reveille, command, run, runs, up};
use crate::serve::stop;

/// A command on the private PostgreSQL of a directory.
fn on(dir: &DataDir, args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("REVEILLE_DATA_DIR", dir.path());
    command
}

/// Runs it, checks its exit code, and returns its output.
async fn expect(command: Command, code: i32) -> String {
    let ended = run(command).await;
    assert_eq!(ended.status.code(), Some(code), "{}", ended.output);
    ended.output
}

/// `down` must fail while `up` runs, stop what a killed `up` left running, and find nothing the second time.
/// Kills `up` with SIGKILL in between. A directory that was never used is not created.
#[tokio::test]
async fn down_stops_what_a_killed_up_left_running() {
    let Some(dir) = DataDir::new() else { return };
    let output = expect(on(&dir, &["down"]), 0).await;
    assert!(output.contains("nothing to stop") && !dir.path().exists(), "{output}");

    let reveille = Reveille::start(up(&dir).await);
    reveille.line("Ctrl-C stops both").await;
    let output = expect(on(&dir, &["down"]), 1).await;
    assert!(output.contains(&format!("(process {})", reveille.pid())), "{output}");
    let postgres = dir.postgres().expect("PostgreSQL runs");

    reveille.signal("KILL").await;
    reveille.ended().await;
    assert!(runs(postgres).await, "PostgreSQL went with its owner");
    let output = expect(on(&dir, &["down"]), 0).await;
    assert!(output.contains(&format!("stopped PostgreSQL (process {postgres})")), "{output}");
    assert!(!runs(postgres).await && dir.postgres().is_none());
    assert!(expect(on(&dir, &["down"]), 0).await.contains("no PostgreSQL runs in"));
}

/// `psql` must run psql on the private PostgreSQL with the given arguments; without psql it must print the address, and
/// without PostgreSQL how to start it.
/// Lists the tables that `up` has created; then again with a folder of programs without psql.
#[tokio::test]
async fn psql_opens_the_private_postgresql() {
    let Some(dir) = DataDir::new() else { return };
    let output = expect(on(&dir, &["psql"]), 1).await;
    assert!(output.contains("reveille up"), "{output}");

    let start = up(&dir).await;
    let programs = start.as_std().get_envs().find(|(name, _)| *name == "REVEILLE_PG_BIN").and_then(|it| it.1);
    let programs = match programs {
        Some(programs) => programs.into(),
        None => reveille_pg::testing::installation_to_start().await.expect("PostgreSQL is installed").bin,
    };
    let reveille = Reveille::start(start);
    reveille.line("Ctrl-C stops both").await;
    let pg_bin = ["--pg-bin", programs.to_str().expect("a plain path")];
    if programs.join("psql").is_file() {
        let query = "select 'tables: ' || (count(*) > 0) from reveille.migration";
        let output = expect(on(&dir, &["psql", pg_bin[0], pg_bin[1], "-AtXc", query]), 0).await;
        assert!(output.contains("tables: true"), "{output}");
        // The output of psql is the output of the command.
        expect(on(&dir, &["psql", pg_bin[0], pg_bin[1], "-X", "-c", "select from nowhere"]), 1).await;
    }

    let without = dir.path().with_extension("bin");
    fs::create_dir(&without).expect("made");
    for program in ["initdb", "pg_ctl", "postgres"] {
        symlink(programs.join(program), without.join(program)).expect("linked");
    }
    let output = expect(on(&dir, &["psql", "--pg-bin", without.to_str().expect("a plain path")]), 1).await;
    fs::remove_dir_all(&without).expect("removed");
    assert!(output.contains("psql is not installed") && output.contains("postgres://reveille:"), "{output}");
    stop(reveille).await;
}
