//! `reveille namespace`: namespaces of task graphs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::remote::Remote;
use crate::{
    client::{Answer, Route},
    config::remote::namespace::{Command, Limit, NumberOrNone, Set, Show},
    error::Error,
    terminal::{Cell, Column, Table, ago, duration, printable, when},
};

#[derive(Deserialize)]
struct Page {
    namespaces: Vec<Namespace>,
}

#[derive(Deserialize)]
struct Namespace {
    name: String,
    description: String,
    mode: String,
    poll_ms: u64,
    fallback_enabled: bool,
    provider: String,
    announces: bool,
    retention_seconds: Option<u64>,
    failed_retention_seconds: Option<u64>,
    created_at: String,
}

#[derive(Deserialize)]
struct Limits {
    limits: Vec<StepLimit>,
}

#[derive(Deserialize)]
struct StepLimit {
    step: Option<String>,
    in_progress: u64,
    max_in_progress: u64,
}

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::List => list(remote).await,
        Command::Show(args) => show(remote, args).await,
        Command::Set(args) => set(remote, args).await,
        Command::Limit(args) => limit(remote, args).await,
    }
}

fn route() -> Route {
    Route::new("/v1/namespaces")
}

async fn list(remote: &Remote) -> Result<(), Error> {
    let answer = remote.client.get(&route()).await?;
    remote.show(&answer, |page: Page| {
        let mut table = Table::new([
            Column::id("namespace"),
            Column::text("mode"),
            Column::text("provider"),
            Column::text("kept"),
            Column::text("created"),
            Column::text("description"),
        ]);
        for namespace in &page.namespaces {
            table.row([
                namespace.name.as_str().into(),
                namespace.mode.as_str().into(),
                namespace.provider.as_str().into(),
                kept(namespace.retention_seconds).into(),
                ago(&namespace.created_at).into(),
                namespace.description.as_str().into(),
            ]);
        }
        remote.screen.table(&table, "no namespaces")
    })
}

async fn show(remote: &Remote, args: Show) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        namespaces: Vec<&'a RawValue>,
    }
    let answer = remote.client.get(&route()).await?;
    let (page, raw): (Page, Raw<'_>) = (answer.json()?, answer.json()?);
    let found = page.namespaces.iter().zip(raw.namespaces).find(|(namespace, _)| namespace.name == args.namespace);
    let none = || Error::NothingNamed { what: format!("there is no namespace {:?}", args.namespace) };
    let (namespace, raw) = found.ok_or_else(none)?;
    if remote.screen.is_json() {
        return remote.screen.json(raw.get());
    }
    properties(remote, namespace)?;
    let limits = remote.client.get(&Route::new("/v1/limits").query("namespace", &args.namespace)).await?;
    let Limits { limits } = limits.json()?;
    if limits.is_empty() {
        return Ok(());
    }
    remote.screen.line("")?;
    remote.screen.table(&limit_table(&limits), "")
}

fn properties(remote: &Remote, namespace: &Namespace) -> Result<(), Error> {
    remote.screen.properties(&[
        ("namespace", printable(&namespace.name).into_owned()),
        ("description", printable(&namespace.description).into_owned()),
        ("mode", namespace.mode.clone()),
        ("poll_ms", namespace.poll_ms.to_string()),
        ("fallback_enabled", namespace.fallback_enabled.to_string()),
        ("provider", namespace.provider.clone()),
        ("announces", namespace.announces.to_string()),
        ("retention", kept(namespace.retention_seconds)),
        ("failed retention", kept(namespace.failed_retention_seconds)),
        ("created", when(&namespace.created_at)),
    ])
}

fn limit_table(limits: &[StepLimit]) -> Table {
    let mut table = Table::new([Column::id("step"), Column::number("running"), Column::number("limit")]);
    for limit in limits {
        table.row([
            limit.step.as_deref().unwrap_or("all together").into(),
            Cell::count(limit.in_progress),
            limit.max_in_progress.to_string().into(),
        ]);
    }
    table
}

async fn set(remote: &Remote, args: Set) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Change<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        template: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        poll_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        fallback_enabled: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        announces: Option<bool>,
        /// Null: forever.
        #[serde(skip_serializing_if = "Option::is_none")]
        retention_seconds: Option<Option<u64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_retention_seconds: Option<Option<u64>>,
    }
    let change = Change {
        template: args.template.as_deref(),
        description: args.description.as_deref(),
        mode: args.mode.as_deref(),
        poll_ms: args.poll_ms,
        fallback_enabled: args.fallback_enabled,
        provider: args.provider.as_deref(),
        announces: args.announces,
        retention_seconds: args.retention_seconds.map(|NumberOrNone(seconds)| seconds),
        failed_retention_seconds: args.failed_retention_seconds.map(|NumberOrNone(seconds)| seconds),
    };
    let answer: Answer = remote.client.put(&route().name(&args.namespace), &change).await?;
    remote.show(&answer, |namespace: Namespace| properties(remote, &namespace))
}

async fn limit(remote: &Remote, args: Limit) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Request<'a> {
        namespace: &'a str,
        step: Option<&'a str>,
        max_in_progress: Option<u64>,
    }
    let NumberOrNone(max_in_progress) = args.limit;
    let request = Request { namespace: &args.namespace, step: args.step.as_deref(), max_in_progress };
    let answer = remote.client.put(&Route::new("/v1/limits"), &request).await?;
    remote.show(&answer, |Limits { limits }| remote.screen.table(&limit_table(&limits), "no limits"))
}

/// How long something is kept.
fn kept(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "forever".to_owned(), |seconds| duration(std::time::Duration::from_secs(seconds)))
}
