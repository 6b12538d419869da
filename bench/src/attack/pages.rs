//! What a web page in a browser on this machine can send.

use super::raw;
use super::victim::Victim;
use crate::Result;

/// Method, path, headers, body.
type Sent = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [u8]);

/// The message that is pushed first, and that the page tries to push again.
const ITEM: &[u8] = br#"{"items":[{"queue":"page","payload":1}]}"#;

/// Requests that a page can make a browser send, with the headers that the browser adds.
const REQUESTS: [Sent; 9] = [
    ("GET", "/api/v1/pop/queue/page?autoAck=true", &[("sec-fetch-site", "cross-site")], b""),
    ("GET", "/api/v1/pop/queue/page?autoAck=true", &[("origin", "https://attacker.example")], b""),
    ("GET", "/api/v1/pop/queue/page?autoAck=true", &[("host", "attacker.example")], b""),
    // Addresses of loopback to which a browser sends no Sec-Fetch-Site.
    ("GET", "/api/v1/pop/queue/page?autoAck=true", &[("host", "0.0.0.0:6632")], b""),
    ("GET", "/api/v1/pop/queue/page?autoAck=true", &[("host", "[::ffff:127.0.0.1]:6632")], b""),
    ("POST", "/api/v1/push", &[("content-type", "text/plain")], ITEM),
    ("POST", "/api/v1/push", &[], ITEM),
    ("POST", "/v1/templates", &[("content-type", "text/plain")], b"name: x"),
    ("POST", "/api/v1/push", &[("content-type", "application/json"), ("origin", "null")], ITEM),
];

/// Sends the requests of a foreign page. None may push or pop anything.
pub(super) async fn foreign(victim: &Victim) -> Result<String> {
    victim.ask("POST", "/api/v1/push", ITEM).await?;
    let mut statuses = Vec::new();
    for (method, path, headers, body) in REQUESTS {
        statuses.push(raw::ask(victim.address(), method, path, headers, body).await?.status.to_string());
    }
    let left = victim.ask("GET", "/api/v1/pop/queue/page?autoAck=true&batch=100", b"").await?;
    let kept = String::from_utf8_lossy(&left.body).matches("\"transactionId\"").count();
    Ok(format!("responses {}; messages left {kept} of 1", statuses.join(" ")))
}
