//! Login by an OpenID provider.

use std::net::SocketAddr;

use reveille_pg::testing::TestDb;
use serde_json::json;

use super::browser::{Browser, Shown, start};
use super::issuer::Issuer;

fn options(issuer: &Issuer) -> Vec<String> {
    let map = "packers=worker:queues=orders.*;leads=operator";
    let pairs = [
        ("--oidc-issuer", issuer.url.as_str()),
        ("--oidc-client-id", "reveille"),
        ("--oidc-client-secret", "a secret"),
        ("--public-url", "http://localhost:1"),
        ("--role-claims", "groups"),
        ("--role-map", map),
    ];
    pairs.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect()
}

async fn begin(browser: &mut Browser, address: SocketAddr) -> String {
    let begun = browser.open(address, "/console/login/oidc").await;
    assert_eq!(begun.status, 303, "{begun:?}");
    begun.header("location").expect("an address").to_owned()
}

async fn come_back(browser: &mut Browser, address: SocketAddr, query: &str) -> Shown {
    browser.follow(address, &format!("/console/login/callback?{query}")).await
}

/// A user must be logged in by the provider, with the roles of its groups, although the browser begins on one server
/// and comes back to another. Nothing else may log in: another browser, a second use of the code, an ID token of
/// another login, a user without a role.
#[tokio::test]
async fn a_provider_logs_users_in() {
    let (db, issuer) = (TestDb::new().await, Issuer::start().await);
    let options = options(&issuer);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ((_one, one), (_two, two)) = (start(&db, &options).await, start(&db, &options).await);
    let mut browser = Browser::default();
    let page = browser.open(one, "/console/login").await;
    assert!(page.body.contains(r#"href="login/oidc""#), "{page:?}");

    issuer.says(json!({"groups": ["leads", "others"], "email": "ann@example.org", "email_verified": true}));
    let location = begin(&mut browser, one).await;
    assert!(location.contains("redirect_uri=http%3A%2F%2Flocalhost%3A1%2Fconsole%2Flogin%2Fcallback"), "{location}");
    let query = issuer.agree(&location);
    let stranger = come_back(&mut Browser::default(), two, &query).await;
    assert!(stranger.status == 401 && stranger.body.contains("begin again"), "{stranger:?}");
    let entered = come_back(&mut browser, two, &query).await;
    assert_eq!((entered.status, entered.header("location")), (303, Some("../../console")), "{entered:?}");
    for server in [one, two] {
        assert_eq!(browser.me(server).await, (200, "ann@example.org (user-1)".to_owned()));
    }
    let again = come_back(&mut browser, two, &query).await;
    assert_eq!(again.status, 401, "{again:?}");

    let rejected = come_back(&mut Browser::default(), one, "error=access_denied%3Cb%3E").await;
    assert!(rejected.status == 401 && rejected.body.contains("access_denied&lt;b&gt;"), "{rejected:?}");
    for (claims, status, part) in [
        (json!({"groups": ["leads"], "nonce": "other"}), 401, "another login"),
        (json!({"groups": ["leads"], "aud": "other"}), 401, "another audience"),
        (json!({"groups": ["leads"], "iss": "http://other.example"}), 401, "another issuer"),
        (json!({"groups": ["others"]}), 403, "no role"),
    ] {
        issuer.says(claims);
        let mut browser = Browser::default();
        let query = issuer.agree(&begin(&mut browser, one).await);
        let refused = come_back(&mut browser, one, &query).await;
        assert_eq!(refused.status, status, "{part}: {refused:?}");
        assert!(refused.body.contains(part) && browser.me(one).await.0 == 401, "{part}: {refused:?}");
    }
}

/// A provider that is away must be reported, and cost the others nothing; a token still logs in.
#[tokio::test]
async fn a_provider_that_is_away_is_reported() {
    let (db, issuer) = (TestDb::new().await, Issuer::start().await);
    let options = options(&issuer);
    drop(issuer);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (_server, address) = start(&db, &options).await;
    let mut browser = Browser::default();
    let failed = browser.open(address, "/console/login/oidc").await;
    assert!(failed.status == 502 && failed.body.contains("not available"), "{failed:?}");
    assert_eq!(browser.log_in(address, super::browser::ADMIN, "").await.status, 303);
}
