//! The statements that idle workers send, in a few namespaces and in many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use reveille_flow::{Flow, NamespaceChange, Worker};
use tasks::{Outcome, Progress, Round};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::arena::{Arena, Played};
use super::contender::{Entry, Http, Library};
use super::http::work;
use super::library::{self, telling};
use super::piece::Piece;
use crate::Result;
use crate::comparison::{Comparison, Named as _};
use crate::connection::Connection;
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const TITLE: &str = "idle";
const NAMESPACES: [usize; 2] = [10, 1_000];
/// The number of workers; the namespaces are divided among them.
const WORKERS: usize = 10;
/// After this long without work all workers are idle: the polls that follow work have ended.
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// Measures Reveille.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let seconds = arena.choose(5, 60);
    let mut entries = Vec::new();
    for namespaces in NAMESPACES {
        for contender in [Library, Http] {
            let workload = Piece::Park { namespaces, seconds };
            entries.push(Entry { title: title(namespaces), contender, workload });
        }
    }
    let play = async |entry: &Entry| {
        let Played { outcome, cost, processor } = arena.play(entry.contender, &entry.workload).await?;
        let seconds = outcome.figure("seconds");
        Ok(vec![
            ("statements", cost.statements),
            ("wal_bytes", cost.wal_bytes),
            ("database_cpu_share", processor / seconds),
            ("seconds", seconds),
        ])
    };
    let comparison = Comparison::run(entries, 1, play).await;
    comparison.report(report);
    for namespaces in NAMESPACES {
        for contender in [Library, Http] {
            let title = title(namespaces);
            let statements = comparison.rounds(&title, contender, "statements").median();
            report.target(&format!("{title}, {}: statements", contender.name()), Goal::AtMost(0.0), statements);
        }
    }
    Ok(())
}

fn title(namespaces: usize) -> String {
    format!("{TITLE}, {namespaces} namespaces")
}

/// Workers that wait.
pub(super) struct Parked {
    seconds: usize,
    _in_process: Option<(library::Library, Arc<Progress>)>,
    _over_http: JoinSet<Result<()>>,
}

fn names(namespaces: usize) -> Vec<String> {
    (0..namespaces).map(|number| format!("namespace-{number}")).collect()
}

/// The namespaces of each worker.
fn shares(names: &[String]) -> Vec<Vec<String>> {
    names.chunks(names.len().div_ceil(WORKERS)).map(<[String]>::to_vec).collect()
}

impl Parked {
    pub(super) async fn in_process(flow: Flow, namespaces: usize, seconds: usize) -> Result<Parked> {
        let names = names(namespaces);
        for name in &names {
            flow.put_namespace(name, &NamespaceChange::default()).await?;
        }
        let progress = Arc::new(Progress::default());
        let start = |share: Vec<String>| {
            let worker = share.into_iter().fold(flow.worker("idler"), |worker, name| worker.namespace(name));
            telling(worker, &progress).start()
        };
        let workers = shares(&names).into_iter().map(start).collect::<reveille_flow::Result<Vec<Worker>>>()?;
        let library = library::Library::with(flow, "", workers);
        sleep(IDLE_AFTER).await;
        Ok(Parked { seconds, _in_process: Some((library, progress)), _over_http: JoinSet::new() })
    }

    pub(super) async fn over_http(server: SocketAddr, namespaces: usize, seconds: usize) -> Result<Parked> {
        let mut connection = Connection::open(server).await?;
        let names = names(namespaces);
        for name in &names {
            connection.ask(Method::PUT, &format!("/v1/namespaces/{name}"), Some(b"{}".to_vec())).await?;
        }
        let mut workers = JoinSet::new();
        for (number, share) in shares(&names).into_iter().enumerate() {
            let connection = Connection::open(server).await?;
            workers.spawn(async move { work(connection, number, &share, 1, &Progress::default()).await });
        }
        sleep(IDLE_AFTER).await;
        Ok(Parked { seconds, _in_process: None, _over_http: workers })
    }
}

impl Round for Parked {
    async fn measure(&mut self) -> Result<Outcome> {
        sleep(Duration::from_secs(self.seconds as u64)).await;
        Ok(Outcome::of([("seconds", self.seconds as f64)]))
    }
}
