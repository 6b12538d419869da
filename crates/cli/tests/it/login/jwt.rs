//! JSON Web Tokens of an issuer whose keys are at a URL.

use reveille_pg::testing::TestDb;
use serde_json::{Value, json};

use super::browser::{Browser, start, with_token};
use super::issuer::Issuer;

/// A token must be accepted by the key of its issuer, with the roles of its claims, and its subject must be recorded
/// with its messages. Tokens with unknown keys must not make the server fetch keys again and again.
#[tokio::test]
async fn tokens_are_verified_with_the_keys_of_a_url() {
    let (db, issuer) = (TestDb::new().await, Issuer::start().await);
    let keys = format!("{}/keys?version=1", issuer.url);
    let options = ["--jwt-jwks-url", &keys, "--jwt-issuer", &issuer.url, "--jwt-audience", "reveille"];
    let (_server, address) = start(&db, &options).await;
    let me = async |token: &str| with_token(address, token, "GET", "/v1/me", &Value::Null).await;

    issuer.says(json!({"role": "read-write"}));
    let token = issuer.token("one", "reveille");
    let known = me(&token).await;
    assert_eq!(known.status, 200, "{known:?}");
    assert_eq!((&known.json()["name"], &known.json()["credentials"]), (&json!("user-1"), &json!("jwt")));
    let push = json!({"items": [{"queue": "q", "payload": 1}]});
    assert_eq!(with_token(address, &token, "POST", "/api/v1/push", &push).await.status, 201);
    let popped = with_token(address, &token, "GET", "/api/v1/pop/queue/q", &Value::Null).await;
    assert_eq!(popped.json()["messages"][0]["producerSub"], "user-1", "{popped:?}");

    for (id, audience, claims, part) in [
        ("unknown", "reveille", json!({}), "unknown key"),
        ("one", "other", json!({}), "another audience"),
        ("one", "reveille", json!({"iss": "http://other.example"}), "another issuer"),
        ("one", "reveille", json!({"exp": 1}), "expired"),
    ] {
        issuer.says(claims);
        let refused = me(&issuer.token(id, audience)).await;
        assert!(refused.status == 401 && refused.body.contains(part), "{part}: {refused:?}");
        assert!(refused.headers.contains("www-authenticate: bearer"), "{refused:?}");
    }
    for _ in 0..5 {
        me(&issuer.token("unknown", "reveille")).await;
    }
    assert_eq!(issuer.fetched(), 1, "the keys had just been fetched");

    issuer.says(json!({"role": "viewer"}));
    let viewer = issuer.token("one", "reveille");
    assert_eq!(with_token(address, &viewer, "POST", "/api/v1/push", &push).await.status, 403);
    let mut browser = Browser::default();
    assert_eq!(browser.log_in(address, &viewer, "").await.status, 303, "it opens a session, too");
    assert_eq!(browser.me(address).await, (200, "user-1".to_owned()));
}
