//! The examples print what their documentation says.

use reveille_pg::testing::{TestDb, example, printed};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::fixture::PATIENCE;

fn promised(name: &str) -> Vec<String> {
    reveille_pg::testing::promised(env!("CARGO_MANIFEST_DIR"), "reveille-durable", name)
}

/// The output of an example must be the documented one.
/// Runs those that end by themselves and compares the output exactly with the text at their top.
#[tokio::test]
async fn examples_print_the_documented_output() {
    let db = TestDb::new().await;
    for name in ["hello_world", "timers_and_events", "saga", "transactional_start"] {
        let said = promised(name);
        assert!(!said.is_empty(), "{name}");
        assert_eq!(printed(&db, name, &[]).await, said, "{name}");
    }
}

/// Every example is tested.
/// Compares the folder with what the tests of this file run.
#[test]
fn every_example_is_run() {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).expect("the folder");
    let mut names: Vec<_> = folder.filter_map(|file| file.expect("a file").file_name().into_string().ok()).collect();
    names.sort();
    let run = ["client", "fan_out", "hello_world", "saga", "timers_and_events", "transactional_start", "worker"];
    assert_eq!(names, run.map(|name| format!("{name}.rs")));
}

/// The code of the README must be that of an example that runs.
/// Every line of the README's example is a line of `hello_world.rs`, and its output the one promised there.
#[test]
fn the_readme_shows_the_example() {
    let read = |path: &str| std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect("a text");
    let (readme, source) = (read("../../README.md"), read("examples/hello_world.rs"));
    let shown = readme.split("```rust\n").find(|block| block.contains("PostgresProvider")).expect("the example");
    let (code, rest) = shown.split_once("```\n").expect("its end");
    for line in code.lines() {
        assert!(source.lines().any(|real| real.trim() == line.trim()), "{line:?} is not in the example");
    }
    let output =
        format!("$ cargo run -p reveille-durable --example hello_world\n{}\n", promised("hello_world").join("\n"));
    assert!(rest.contains(&output), "{output}");
}

/// The fan-out decides over all answers; how long it takes differs from run to run.
/// Compares what comes before the time.
#[tokio::test]
async fn a_fan_out_takes_the_best_offer() {
    let db = TestDb::new().await;
    let before_the_time =
        |lines: Vec<String>| lines.iter().map(|line| line.split(';').next().map(str::to_owned)).collect::<Vec<_>>();
    let said = promised("fan_out");
    assert!(said[0].starts_with("5 offers, the best: Cy for 17; after "), "{said:?}");
    assert_eq!(before_the_time(printed(&db, "fan_out", &[]).await), before_the_time(said));
}

/// A worker, until it is dropped.
struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    async fn start(db: &TestDb) -> Worker {
        let mut child = example(db, "worker").arg(db.schema().name()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Worker { child, lines }
    }

    async fn line(&mut self) -> Option<String> {
        timeout(PATIENCE, self.lines.next_line()).await.expect("it says something").expect("text")
    }

    /// As Ctrl-C does.
    async fn interrupt(&self) {
        let pid = self.child.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().await.expect("kill runs");
        assert!(sent.success());
    }
}

/// Two processes that share only the database: the worker executes what the client starts, and the client is woken at
/// every step.
/// Runs both on one schema, compares what both print with what they promise, and ends the worker in order.
#[tokio::test]
async fn a_worker_and_a_client_are_processes_apart() {
    let db = TestDb::new().await;
    let mut worker = Worker::start(&db).await;
    assert_eq!(worker.line().await.as_deref(), Some("ready"));
    let client = printed(&db, "client", &[db.schema().name()]).await;
    let (last, steps) = client.split_last().expect("it printed");
    assert_eq!(last, "done: 3 pictures");
    // Two steps may come so close that one poll sees only the second.
    assert!(steps.is_sorted() && steps.iter().all(|step| promised("client").contains(step)), "{client:?}");
    assert_eq!(steps.last().map(String::as_str), Some("3 of 3"));
    for expected in promised("worker").into_iter().skip(1) {
        assert_eq!(worker.line().await, Some(expected));
    }
    worker.interrupt().await;
    assert_eq!(worker.line().await.as_deref(), Some("bye"));
    assert_eq!(worker.line().await, None);
    assert!(worker.child.wait().await.expect("it was a child").success());
}
