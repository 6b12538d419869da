//! `reveille template check` and `register`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{
    client::{self, Answer, Method, Route},
    commands::{input, remote::Remote},
    error::Error,
    terminal::{Style, count_of, printable},
};

#[derive(Deserialize)]
struct Summary {
    namespace: String,
    name: String,
    version: String,
    steps: u64,
}

/// What is wrong with a template.
#[derive(Deserialize)]
struct Faulty {
    error: String,
    #[serde(default)]
    faults: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    line: u64,
    column: u64,
    message: String,
}

/// Checks or registers each file. One with faults does not keep the others from being read.
pub(super) async fn run(remote: &Remote, files: &[PathBuf], only_check: bool) -> Result<(), Error> {
    let mut faulty = 0;
    for file in files {
        match send(remote, file, only_check).await {
            Ok(answer) => print(remote, &answer, only_check)?,
            Err(Error::Client(client::Error::Rejected { status: 400, message, body })) => {
                faulty += 1;
                explain(remote, file, &message, &body)?;
            }
            Err(error) => return Err(error),
        }
    }
    match faulty {
        0 => Ok(()),
        faulty => {
            let what = format!("{} of {} with faults", faulty, count_of(files.len() as u64, "template"));
            Err(Error::Incomplete { what })
        }
    }
}

async fn send(remote: &Remote, file: &Path, only_check: bool) -> Result<Answer, Error> {
    let text = input::read_file(file).await?;
    let route = Route::new("/v1/templates").maybe("validate", only_check.then_some(true));
    let body = ("application/yaml", text.into_bytes().into());
    Ok(remote.client.request(Method::POST, &route, Some(body)).await?)
}

fn print(remote: &Remote, answer: &Answer, only_check: bool) -> Result<(), Error> {
    if remote.screen.is_json() {
        return remote.screen.json_line(answer.text());
    }
    let Summary { namespace, name, version, steps } = answer.json()?;
    let done = match answer.status().as_u16() {
        201 => "registered",
        _ if only_check => "no faults",
        _ => "registered already",
    };
    let line = format!("{namespace}/{name} {version}: {done}, {}", count_of(steps, "step"));
    remote.screen.line(printable(&line))
}

/// Every fault, with its position as compilers write it.
fn explain(remote: &Remote, file: &Path, message: &str, body: &str) -> Result<(), Error> {
    if remote.screen.is_json() {
        return remote.screen.json_line(body);
    }
    let file = file.display();
    let faulty: Faulty = serde_json::from_str(body).unwrap_or(Faulty { error: message.to_owned(), faults: Vec::new() });
    if faulty.faults.is_empty() {
        return fault(remote, &format!("{file}"), &faulty.error);
    }
    for Fault { line, column, message } in &faulty.faults {
        let position = if *line == 0 { format!("{file}") } else { format!("{file}:{line}:{column}") };
        fault(remote, &position, message)?;
    }
    Ok(())
}

fn fault(remote: &Remote, position: &str, message: &str) -> Result<(), Error> {
    let position = remote.screen.styled(&printable(position), Style::Bad);
    remote.screen.line(format_args!("{position}: {}", printable(message)))
}
