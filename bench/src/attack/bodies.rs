//! Bodies that are large, slow, compressed or deep.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::raw;
use super::victim::Victim;
use crate::Result;

/// A push of about `bytes` bytes, in items as small as possible.
fn small_items_body(bytes: usize) -> Vec<u8> {
    const ITEM: &str = r#"{"queue":"q","payload":1},"#;
    let mut body = String::from(r#"{"items":["#);
    body += &ITEM.repeat(bytes / ITEM.len());
    body.pop();
    body += "]}";
    body.into_bytes()
}

/// Eight concurrent pushes of 9 MB of tiny items each.
pub(super) async fn small_items(victim: &Victim) -> Result<String> {
    push_at_once(victim, 8, 9_000_000).await
}

/// A thousand concurrent pushes of 1 MB of tiny items each.
pub(super) async fn crowd(victim: &Victim) -> Result<String> {
    push_at_once(victim, 1_000, 1_000_000).await
}

async fn push_at_once(victim: &Victim, clients: usize, bytes: usize) -> Result<String> {
    let body: Arc<[u8]> = small_items_body(bytes).into();
    let mut requests = JoinSet::new();
    for _ in 0..clients {
        let (address, body) = (victim.address(), body.clone());
        requests.spawn(async move {
            let json = [("content-type", "application/json")];
            Ok(raw::ask(address, "POST", "/api/v1/push", &json, &body).await?.status)
        });
    }
    Ok(raw::tally(requests).await)
}

/// 200 connections announce a body of 9 MB and do not send it; meanwhile other clients push.
pub(super) async fn announced(victim: &Victim) -> Result<String> {
    let head =
        raw::head(victim.address(), "POST", "/api/v1/push", &[("content-type", "application/json")], Some(9_000_000));
    let mut silent = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(victim.address()).await?;
        stream.write_all(head.as_bytes()).await?;
        silent.push(stream);
    }
    sleep(Duration::from_millis(500)).await;
    let honest = push_at_once(victim, 50, 10_000).await?;
    drop(silent);
    Ok(format!("other pushes meanwhile: {honest}"))
}

/// 200 workers wait with requests whose bodies are chunked; none may be rejected.
pub(super) async fn compressed_waiters(victim: &Victim) -> Result<String> {
    let claim = r#"{"worker":"w","namespaces":["attack"],"max_steps":1,"wait_ms":3000}"#;
    let request = format!(
        "POST /v1/workers/claim HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n{:x}\r\n{claim}\r\n0\r\n\r\n",
        victim.address(),
        claim.len()
    );
    let request: Arc<str> = request.into();
    let mut requests = JoinSet::new();
    for _ in 0..200 {
        let (address, request) = (victim.address(), request.clone());
        requests.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(request.as_bytes()).await?;
            Ok(timeout(Duration::from_secs(30), raw::answer(&mut stream)).await.map_err(|_| "no answer")??.status)
        });
    }
    sleep(Duration::from_millis(500)).await;
    let honest = push_at_once(victim, 20, 10_000).await?;
    Ok(format!("waiters: {}; other pushes meanwhile: {honest}", raw::tally(requests).await))
}

/// Eight gzip bodies of a few MB, each of which inflates to 1 GB of zeros.
pub(super) async fn inflating(victim: &Victim) -> Result<String> {
    let body = gzip_of_spaces();
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let mut requests = JoinSet::new();
    let body: Arc<[u8]> = body?.into();
    for _ in 0..8 {
        let (address, body) = (victim.address(), body.clone());
        requests.spawn(async move { Ok(raw::ask(address, "POST", "/api/v1/push", &headers, &body).await?.status) });
    }
    Ok(raw::tally(requests).await)
}

/// Runs the system's `gzip`.
fn gzip_of_spaces() -> Result<Vec<u8>> {
    let made = std::process::Command::new("sh").args(["-c", "head -c 1000000000 /dev/zero | gzip -1"]).output()?;
    if made.stdout.is_empty() {
        return Err("gzip wrote nothing".into());
    }
    Ok(made.stdout)
}

/// Payloads, contexts and templates that are nested arrays, 100 000 deep.
pub(super) async fn deep(victim: &Victim) -> Result<String> {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let push = format!(r#"{{"items":[{{"queue":"q","payload":{nested}}}]}}"#);
    let task = format!(r#"{{"namespace":"attack","name":"t","version":"1.0.0","context":{{"a":{nested}}}}}"#);
    let pushed = victim.ask("POST", "/api/v1/push", push.as_bytes()).await?;
    let submitted = victim.ask("POST", "/v1/tasks", task.as_bytes()).await?;
    let registered = victim.ask("POST", "/v1/templates", nested.as_bytes()).await?;
    Ok(format!("push {}; task {}; template {}", pushed.brief(), submitted.status, registered.status))
}
