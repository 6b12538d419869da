//! `reveille template list` and `show`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    client::Route,
    commands::{
        remote::Remote,
        task::graph::{Steps, step_lines},
    },
    config::remote::template::{List, Show},
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, printable},
};

#[derive(Deserialize)]
struct Page {
    templates: Vec<Listed>,
    next: Option<u64>,
}

#[derive(Deserialize)]
struct Listed {
    namespace: String,
    name: String,
    version: String,
    description: String,
    step_count: u64,
    created_at: String,
}

#[derive(Deserialize)]
struct Template {
    name: String,
    namespace_name: String,
    version: String,
    description: String,
    identity_strategy: String,
    lifecycle: BTreeMap<String, Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: String,
    r#type: String,
    handler: Handler,
    dependencies: Vec<String>,
    retry: Retry,
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct Handler {
    callable: String,
}

#[derive(Deserialize)]
struct Retry {
    retryable: bool,
    max_attempts: u64,
}

fn route() -> Route {
    Route::new("/v1/templates")
}

pub(super) async fn list(remote: &Remote, args: List) -> Result<(), Error> {
    let route = route().maybe("namespace", args.namespace).maybe("name", args.name);
    let answer = remote.client.get(&route.query("limit", args.limit).maybe("after", args.after)).await?;
    remote.show(&answer, |page: Page| {
        let mut table = Table::new([
            Column::id("namespace"),
            Column::id("name"),
            Column::id("version"),
            Column::number("steps"),
            Column::text("registered"),
            Column::text("description"),
        ]);
        for listed in &page.templates {
            table.row([
                listed.namespace.as_str().into(),
                listed.name.as_str().into(),
                listed.version.as_str().into(),
                Cell::count(listed.step_count),
                ago(&listed.created_at).into(),
                listed.description.as_str().into(),
            ]);
        }
        remote.screen.table(&table, "no templates")?;
        remote.next(page.next.map(|next| next.to_string()).as_deref());
        Ok(())
    })
}

pub(super) async fn one(remote: &Remote, args: Show) -> Result<(), Error> {
    let version = match args.version {
        Some(version) => version,
        None => highest(remote, &args.namespace, &args.name).await?,
    };
    let answer = remote.client.get(&route().name(&args.namespace).name(&args.name).name(version)).await?;
    remote.show(&answer, |template: Template| {
        let screen = &remote.screen;
        let lifecycle = template.lifecycle.iter().map(|(name, value)| format!("{name}={value}"));
        screen.properties(&[
            ("template", printable(&format!("{}/{}", template.namespace_name, template.name)).into_owned()),
            ("version", printable(&template.version).into_owned()),
            ("description", printable(&template.description).into_owned()),
            ("identity", template.identity_strategy),
            ("lifecycle", printable(&lifecycle.collect::<Vec<_>>().join(" ")).into_owned()),
        ])?;
        screen.line("")?;
        screen.table(&steps(&template.steps), "no steps")
    })
}

/// The highest version of a template, by semantic versioning; versions that are none are below.
async fn highest(remote: &Remote, namespace: &str, name: &str) -> Result<String, Error> {
    let mut found: Vec<String> = Vec::new();
    let mut after = None;
    loop {
        let route = route().query("namespace", namespace).query("name", name).query("limit", 1_000);
        let page: Page = remote.client.get(&route.maybe("after", after)).await?.json()?;
        found.extend(page.templates.into_iter().map(|listed| listed.version));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let key = |version: &String| (semver::Version::parse(version).ok(), version.clone());
    let none = || Error::NothingNamed { what: format!("no template {namespace}/{name}") };
    found.into_iter().max_by_key(key).ok_or_else(none)
}

fn steps(steps: &[Step]) -> Table {
    let mut table = Table::new([
        Column::id("step"),
        Column::text("type"),
        Column::text("callable"),
        Column::number("attempts"),
        Column::number("timeout"),
        Column::text("after"),
    ]);
    let named: Vec<_> = steps.iter().map(|step| (step.name.as_str(), step.dependencies.as_slice())).collect();
    let lines = step_lines(&Steps(&named), |_| '●');
    let is_graph = lines.is_graph;
    for line in lines.lines {
        let Some(at) = line.node else {
            table.row([
                line.text.into(),
                Cell::default(),
                Cell::default(),
                Cell::default(),
                Cell::default(),
                Cell::default(),
            ]);
            continue;
        };
        let step = &steps[at];
        let attempts = if step.retry.retryable { step.retry.max_attempts } else { 1 };
        table.row([
            line.text.into(),
            Cell::styled(&step.r#type, if step.r#type == "standard" { Style::Dim } else { Style::Plain }),
            step.handler.callable.as_str().into(),
            attempts.to_string().into(),
            Cell::maybe(step.timeout_seconds.map(|seconds| format!("{seconds}s"))),
            step.dependencies.join(", ").into(),
        ]);
    }
    if is_graph { table.without("after") } else { table }
}
