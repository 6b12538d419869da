//! Creation, verification, expiry and revocation of tokens.

use std::time::Duration;

use reveille_access::{Error, NewToken, Tokens};
use reveille_pg::testing::TestDb;
use reveille_web::{Grant, Role};
use tokio::time::timeout;

use crate::schema::migrated;

/// Only a failure reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(db: &TestDb) -> Tokens {
    Tokens::start(db.database(), db.schema(), reveille_wake::Options::default())
}

fn token(name: &str) -> NewToken {
    let grants = vec!["producer:queues=orders.*".parse::<Grant>().expect("a grant")];
    NewToken { name: name.to_owned(), grants, payloads: false, expires_in: None }
}

/// A token is verified as it was created; after its revocation it is not valid, and its requests end.
/// The revocation is awaited as a request awaits it.
#[tokio::test]
async fn a_token_is_valid_until_it_is_revoked() {
    let db = migrated().await;
    let tokens = start(&db);
    let (secret, stored) = tokens.create(token("shop"), "admin").await.expect("a token");
    let principal = tokens.verify(secret.reveal()).await.expect("a database").expect("a valid token");
    assert_eq!((principal.name(), principal.sees_payloads()), ("shop", false));
    assert!(principal.may_queue(Role::Producer, "orders.eu") && !principal.may_queue(Role::Producer, "mail"));
    assert_eq!(tokens.revoke(stored.id).await.expect("revoked").as_deref(), Some("shop"));
    timeout(PATIENCE, principal.ended()).await.expect("its requests end");
    assert!(tokens.verify(secret.reveal()).await.expect("a database").is_none());
    assert_eq!(tokens.revoke(stored.id).await.expect("an answer"), None, "it is gone");
}

/// A token is not valid after its end, and its waiting requests end.
/// A token of a second; the end is awaited as a request awaits it.
#[tokio::test]
async fn a_token_expires() {
    let db = migrated().await;
    let tokens = start(&db);
    let short = NewToken { expires_in: Some(1.0), ..token("short") };
    let (secret, _) = tokens.create(short, "admin").await.expect("a token");
    if let Some(principal) = tokens.verify(secret.reveal()).await.expect("a database") {
        timeout(PATIENCE, principal.ended()).await.expect("it expires");
    }
    assert!(tokens.verify(secret.reveal()).await.expect("a database").is_none());
    let (listed, more) = tokens.list(None, 10).await.expect("a list");
    assert_eq!((listed.len(), listed[0].expired, more), (1, true, false));
}

/// Texts that are no tokens, and tokens that were never created, are not valid; only the latter are looked up.
#[tokio::test]
async fn unknown_tokens_are_not_valid() {
    let db = migrated().await;
    let tokens = start(&db);
    let never = reveille_access::Secret::random().expect("random numbers");
    for text in ["", "rvl_x", never.reveal(), &never.reveal()[..52]] {
        assert!(tokens.verify(text).await.expect("a database").is_none(), "{text}");
    }
}

/// A second token of the same name, and invalid parameters, are rejected, and pages continue by name.
#[tokio::test]
async fn tokens_have_unique_names_and_are_listed_by_them() {
    let db = migrated().await;
    let tokens = start(&db);
    for name in ["b", "a", "c"] {
        tokens.create(token(name), "admin").await.expect("a token");
    }
    let taken = tokens.create(token("b"), "admin").await.expect_err("the name is in use");
    assert!(matches!(&taken, Error::Taken { name } if name == "b"), "{taken}");
    for wrong in [
        NewToken { name: String::new(), ..token("x") },
        NewToken { grants: Vec::new(), ..token("x") },
        NewToken { expires_in: Some(0.0), ..token("x") },
        NewToken { expires_in: Some(f64::NAN), ..token("x") },
    ] {
        let error = tokens.create(wrong, "admin").await.expect_err("invalid");
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    let (page, more) = tokens.list(None, 2).await.expect("a page");
    assert_eq!((page[0].name.as_str(), page[1].name.as_str(), more), ("a", "b", true));
    let (page, more) = tokens.list(Some("b"), 2).await.expect("a page");
    assert_eq!((page[0].name.as_str(), page.len(), more), ("c", 1, false));
}
