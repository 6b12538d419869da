//! A browser as far as logins need one: it keeps cookies, and says where its requests come from.

use std::{collections::BTreeMap, net::SocketAddr};

use reveille_pg::testing::TestDb;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    http::{Answer, eventually, exchange, parse, send},
    process::{PATIENCE, Reveille},
    serve::serve,
};

/// The token of the administrator of the servers under test.
pub(crate) const ADMIN: &str = "the-admin-token-of-a-test";

/// Starts a server that requires authentication, with more command-line options.
pub(crate) async fn start(db: &TestDb, more: &[&str]) -> (Reveille, SocketAddr) {
    let options = [&["--require-authentication", "--admin-token", ADMIN], more].concat();
    let reveille = Reveille::start(serve(db, &options));
    let address = reveille.address().await;
    eventually(address, "/health", |answer| answer.status == 200).await;
    (reveille, address)
}

/// Sends a request with a token.
pub(crate) async fn with_token(address: SocketAddr, token: &str, method: &str, path: &str, body: &Value) -> Answer {
    let authorization = format!("authorization: Bearer {token}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    send(address, method, path, &[&authorization, "content-type: application/json"], body.as_bytes()).await
}

/// Creates a token; returns its id and its text.
pub(crate) async fn create_token(address: SocketAddr, name: &str, role: &str) -> (String, String) {
    let request = json!({"name": name, "grants": [{"role": role}]});
    let created = with_token(address, ADMIN, "POST", "/v1/tokens", &request).await;
    assert_eq!(created.status, 201, "{created:?}");
    let text = |key: &str| created.json()[key].as_str().expect("text").to_owned();
    (text("id"), text("token"))
}

/// A browser. Cloning it is another window of the same one.
#[derive(Clone, Default)]
pub(crate) struct Browser {
    pub(crate) cookies: BTreeMap<String, String>,
}

/// A response, with the headers as they were sent.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Shown {
    /// The first header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

impl Browser {
    /// Sends a request with these headers and its cookies; keeps the cookies of the response.
    pub(crate) async fn send(
        &mut self,
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> Shown {
        let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|header| header.starts_with("host:")) {
            text += &format!("host: {address}\r\n");
        }
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            text += &format!("cookie: {}\r\n", cookies.join("; "));
        }
        for header in headers {
            text += &format!("{header}\r\n");
        }
        text += &format!("\r\n{body}");
        let answer = timeout(PATIENCE, exchange(address, &text)).await.expect("in time").expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        for line in head.lines() {
            let Some(("set-cookie", cookie)) = line.split_once(": ") else { continue };
            let (name, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            match cookie.contains("Max-Age=0") {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
        Shown { status: parse(&answer).status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Opens a page by its address.
    pub(crate) async fn open(&mut self, address: SocketAddr, path: &str) -> Shown {
        let headers =
            ["accept: text/html", "sec-fetch-site: none", "sec-fetch-mode: navigate", "sec-fetch-dest: document"];
        self.send(address, "GET", path, &headers, "").await
    }

    /// Follows a link of another site.
    pub(crate) async fn follow(&mut self, address: SocketAddr, path: &str) -> Shown {
        let headers =
            ["accept: text/html", "sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"];
        self.send(address, "GET", path, &headers, "").await
    }

    /// What a script of a page of this server requests.
    pub(crate) async fn fetch(&mut self, address: SocketAddr, method: &str, path: &str) -> Shown {
        let origin = format!("origin: http://{address}");
        let headers = ["content-type: application/json", "sec-fetch-site: same-origin", &origin];
        self.send(address, method, path, if method == "GET" { &headers[1..2] } else { &headers }, "").await
    }

    /// Sends the form of the login page.
    pub(crate) async fn log_in(&mut self, address: SocketAddr, token: &str, next: &str) -> Shown {
        let origin = format!("origin: http://{address}");
        let headers = ["content-type: application/x-www-form-urlencoded", &origin, "accept: text/html"];
        self.send(address, "POST", "/console/login", &headers, &format!("token={token}&next={next}")).await
    }

    /// The status and the name of its user.
    pub(crate) async fn me(&mut self, address: SocketAddr) -> (u16, String) {
        let shown = self.fetch(address, "GET", "/v1/me").await;
        let body: Value = serde_json::from_str(&shown.body).expect("JSON");
        (shown.status, body["name"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until its session has ended on a server.
    pub(crate) async fn is_logged_out(&mut self, address: SocketAddr) {
        let ended = async { while self.me(address).await.0 != 401 {} };
        timeout(PATIENCE, ended).await.expect("the session ends");
    }
}
