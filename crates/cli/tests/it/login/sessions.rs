//! Sessions: opened by a token, ended by a logout or with the token, useless to other sites.

use reveille_pg::testing::TestDb;
use serde_json::Value;

use super::browser::{ADMIN, Browser, create_token, start, with_token};

/// A visitor without credentials must be led to the login, and after it to the page that was wanted, on every server.
/// A logout ends the session on all of them. Two servers on one schema; the token itself is never in a cookie.
#[tokio::test]
async fn a_token_logs_in_and_out() {
    let db = TestDb::new().await;
    let ((_one, one), (_two, two)) = (start(&db, &[]).await, start(&db, &[]).await);
    let (_, token) = create_token(one, "ann", "viewer").await;
    let mut browser = Browser::default();

    let led = browser.open(one, "/console/queues?search=a").await;
    assert_eq!((led.status, led.header("location")), (303, Some("../console/login?next=queues%3Fsearch%3Da")));
    let page = browser.open(one, "/console/login?next=queues%3Fsearch%3Da").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains(r#"value="queues?search=a""#) && page.body.contains(r#"name="token""#), "{page:?}");
    assert!(page.header("content-security-policy").is_some_and(|it| it.contains("default-src 'none'")), "{page:?}");

    let wrong = browser.log_in(one, "rvl_wrong", "").await;
    assert!(wrong.status == 401 && wrong.body.contains("not valid") && browser.cookies.is_empty(), "{wrong:?}");
    let entered = browser.log_in(one, &token, "queues%3Fsearch%3Da").await;
    assert_eq!((entered.status, entered.header("location")), (303, Some("../console/queues?search=a")));
    let cookie = entered.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && cookie.contains("Path=/"), "{cookie}");
    assert!(!cookie.contains(&token), "{cookie}");

    for server in [one, two] {
        assert_eq!(browser.me(server).await, (200, "ann".to_owned()));
        assert_eq!(browser.open(server, "/console").await.status, 200);
    }
    assert_eq!(browser.follow(two, "/console").await.status, 200, "a link from another site");
    assert_eq!(
        browser.fetch(one, "DELETE", "/api/v1/resources/queues/q").await.status,
        403,
        "a viewer deletes nothing"
    );

    let mut other_window = browser.clone();
    let left = browser.fetch(one, "POST", "/console/logout").await;
    assert_eq!((left.status, browser.cookies.len()), (303, 0), "{left:?}");
    other_window.is_logged_out(one).await;
    other_window.is_logged_out(two).await;
}

/// The administrator's token opens a session, too, without being stored.
#[tokio::test]
async fn the_admin_token_logs_in() {
    let db = TestDb::new().await;
    let (_server, address) = start(&db, &[]).await;
    let mut browser = Browser::default();
    assert_eq!(browser.log_in(address, ADMIN, "").await.status, 303);
    assert_eq!(browser.me(address).await, (200, "admin".to_owned()));
    assert_eq!(browser.fetch(address, "DELETE", "/api/v1/resources/queues/q").await.status, 200);
}

/// Revoking a token must end the sessions that it opened, on every server.
/// The session is used on another server than the one that revokes.
#[tokio::test]
async fn a_session_ends_with_its_token_on_every_server() {
    let db = TestDb::new().await;
    let ((_one, one), (_two, two)) = (start(&db, &[]).await, start(&db, &[]).await);
    let (id, token) = create_token(one, "ann", "viewer").await;
    let mut browser = Browser::default();
    browser.log_in(one, &token, "").await;
    assert_eq!(browser.me(two).await.0, 200);
    let revoked = with_token(one, ADMIN, "DELETE", &format!("/v1/tokens/{id}"), &Value::Null).await;
    assert_eq!(revoked.status, 204, "{revoked:?}");
    browser.is_logged_out(one).await;
    browser.is_logged_out(two).await;
}

/// A request that another site causes must have no effect, although the browser adds the cookie to it: not by its
/// origin, not by a name that leads to this machine, not without either header. A session is no token for programs.
#[tokio::test]
async fn foreign_requests_have_no_effect() {
    let db = TestDb::new().await;
    let (_server, address) = start(&db, &[]).await;
    let mut browser = Browser::default();
    browser.log_in(address, ADMIN, "").await;
    let own = format!("origin: http://{address}");
    let pop = "/api/v1/pop/queue/q?autoAck=true";
    for (method, path, headers) in [
        ("GET", pop, &["accept: */*"][..]),
        ("GET", pop, &["sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"]),
        ("GET", pop, &["sec-fetch-site: same-site", "sec-fetch-dest: image"]),
        ("GET", pop, &["sec-fetch-site: same-origin", "host: evil.example"]),
        ("DELETE", "/api/v1/resources/queues/q", &["content-type: application/json"]),
        ("DELETE", "/api/v1/resources/queues/q", &["origin: http://evil.example"]),
        ("DELETE", "/api/v1/resources/queues/q", &["origin: null"]),
        ("DELETE", "/api/v1/resources/queues/q", &["origin: http://localhost:1"]),
        ("POST", "/console/logout", &["content-type: application/x-www-form-urlencoded"]),
        ("POST", "/console/logout", &["origin: http://evil.example"]),
        ("POST", "/console/login", &["content-type: application/x-www-form-urlencoded"]),
        ("POST", "/console/login", &["origin: http://evil.example"]),
        ("POST", "/console/login", &[&*own, "host: evil.example"]),
    ] {
        let shown = browser.clone().send(address, method, path, headers, "").await;
        assert_eq!(shown.status, 403, "{method} {path} {headers:?}: {shown:?}");
    }
    let secret = browser.cookies.values().next().expect("a session").clone();
    assert_eq!(with_token(address, &secret, "GET", "/v1/me", &Value::Null).await.status, 401);
    assert_eq!(browser.me(address).await.0, 200, "the session is still open");
}

/// Without TLS a session could be read on its way: it is given to loopback addresses only, or to a browser that uses
/// the TLS of a proxy. Then the cookie is bound to the host.
#[tokio::test]
async fn a_session_needs_tls_or_loopback() {
    let db = TestDb::new().await;
    let (_server, address) = start(&db, &["--allowed-hosts", "reveille.example"]).await;
    let form = "content-type: application/x-www-form-urlencoded";
    let host = "host: reveille.example";
    let mut browser = Browser::default();
    let body = format!("token={ADMIN}");
    let headers = [host, form, "origin: http://reveille.example"];
    let plain = browser.send(address, "POST", "/console/login", &headers, &body).await;
    assert!(plain.status == 403 && plain.body.contains("https://") && browser.cookies.is_empty(), "{plain:?}");
    let headers = [host, form, "origin: https://reveille.example"];
    assert_eq!(browser.send(address, "POST", "/console/login", &headers, &body).await.status, 303);
    assert!(browser.cookies.contains_key("__Host-reveille"), "{:?}", browser.cookies);
    let me = browser.send(address, "GET", "/v1/me", &[host, "sec-fetch-site: same-origin"], "").await;
    assert_eq!(me.status, 200, "{me:?}");
}

/// Guessing must be slow: after some attempts within a minute even a valid token is not tried any more.
#[tokio::test]
async fn attempts_to_log_in_are_bounded() {
    let db = TestDb::new().await;
    let (_server, address) = start(&db, &[]).await;
    let mut browser = Browser::default();
    for attempt in 0..20 {
        assert_eq!(browser.log_in(address, &format!("guess-{attempt}"), "").await.status, 401);
    }
    let refused = browser.log_in(address, ADMIN, "").await;
    assert!(
        refused.status == 429 && refused.header("retry-after").is_some() && browser.cookies.is_empty(),
        "{refused:?}"
    );
    assert_eq!(with_token(address, ADMIN, "GET", "/v1/me", &Value::Null).await.status, 200, "programs go on");
}
