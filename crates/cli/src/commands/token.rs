//! `reveille token` and `reveille whoami`.

use reveille_web::Grant;
use serde::{Deserialize, Serialize};

use super::remote::Remote;
use crate::{
    client::Route,
    config::remote::token::{Command, Create, Revoke},
    error::Error,
    terminal::{Cell, Column, Table, ago, printable, when},
};

/// Seconds of a day.
const DAY: f64 = 86_400.0;

#[derive(Deserialize)]
struct Page {
    tokens: Vec<Token>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    id: String,
    name: String,
    grants: Vec<Grant>,
    payloads: bool,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    expired: bool,
}

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::Create(args) => create(remote, args).await,
        Command::List => list(remote).await,
        Command::Revoke(args) => revoke(remote, args).await,
    }
}

/// `reveille whoami`.
pub(super) async fn whoami(remote: &Remote) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Me {
        name: String,
        credentials: String,
        grants: Vec<Grant>,
        payloads: bool,
    }
    let answer = remote.client.get(&Route::new("/v1/me")).await?;
    remote.show(&answer, |me: Me| {
        remote.screen.properties(&[
            ("name", printable(&me.name).into_owned()),
            ("credentials", me.credentials.clone()),
            ("grants", written(&me.grants)),
            ("payloads", yes(me.payloads).to_owned()),
        ])
    })
}

async fn create(remote: &Remote, args: Create) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Request<'a> {
        name: &'a str,
        grants: &'a [Grant],
        payloads: bool,
        expires_in_seconds: Option<f64>,
    }
    #[derive(Deserialize)]
    struct Created {
        token: String,
    }
    let Create { name, grants, payloads, expires_in_days } = args;
    let expires_in_seconds = expires_in_days.map(|days| f64::from(days) * DAY);
    let request = Request { name: &name, grants: &grants, payloads, expires_in_seconds };
    let answer = remote.client.post(&Route::new("/v1/tokens"), &request).await?;
    remote.show(&answer, |created: Created| {
        remote.screen.note("the token is shown only now; keep it in REVEILLE_TOKEN or in a file");
        remote.screen.line(created.token)
    })
}

async fn list(remote: &Remote) -> Result<(), Error> {
    if remote.screen.is_json() {
        let answer = remote.client.get(&Route::new("/v1/tokens").query("limit", 1_000)).await?;
        return remote.show(&answer, |_: Page| Ok(()));
    }
    let mut table = Table::new([
        Column::id("name"),
        Column::text("grants"),
        Column::text("payloads"),
        Column::text("created"),
        Column::text("expires"),
        Column::text("last used"),
    ]);
    for token in all(remote).await? {
        let expires = match &token.expires_at {
            Some(_) if token.expired => "expired".to_owned(),
            Some(at) => when(at),
            None => "never".to_owned(),
        };
        table.row([
            token.name.as_str().into(),
            written(&token.grants).into(),
            yes(token.payloads).into(),
            ago(&token.created_at).into(),
            expires.into(),
            Cell::maybe(token.last_used_at.as_deref().map(ago)),
        ]);
    }
    remote.screen.table(&table, "no tokens")
}

async fn revoke(remote: &Remote, args: Revoke) -> Result<(), Error> {
    let found = all(remote).await?.into_iter().find(|token| token.name == args.name);
    let none = || Error::NothingNamed { what: format!("there is no token {:?}", args.name) };
    let token = found.ok_or_else(none)?;
    let touches = format!("the token {:?} ({}) is revoked on every server", token.name, written(&token.grants));
    remote.screen.confirm(printable(&touches), args.confirmation.yes).await?;
    remote.client.delete(&Route::new("/v1/tokens").name(&token.id)).await?;
    if remote.screen.is_json() { Ok(()) } else { remote.screen.line("revoked") }
}

/// All tokens, page by page.
async fn all(remote: &Remote) -> Result<Vec<Token>, Error> {
    let (mut tokens, mut after) = (Vec::new(), None);
    loop {
        let route = Route::new("/v1/tokens").query("limit", 1_000).maybe("after", after);
        let page: Page = remote.client.get(&route).await?.json()?;
        tokens.extend(page.tokens);
        after = page.next;
        if after.is_none() {
            return Ok(tokens);
        }
    }
}

fn written(grants: &[Grant]) -> String {
    grants.iter().map(Grant::to_string).collect::<Vec<_>>().join("; ")
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
