//! `reveille token` and `reveille whoami`.

use reveille_pg::testing::TestDb;

use super::fixture::{Shell, run};
use crate::serve::{ready, serve};

/// A token that a command has created is used by the next one, listed, and revoked by its name.
#[tokio::test]
async fn a_token_is_created_used_listed_and_revoked() {
    let db = TestDb::new().await;
    let (_server, address) = ready(serve(&db, &[])).await;
    let shell = Shell { address };
    let grants = ["--grant", "producer:queues=orders.*", "--grant", "viewer"];
    let created = shell.run(&[&["token", "create", "shop"][..], &grants].concat()).await.well();
    assert!(created.err.contains("shown only now"), "{created:?}");
    let token = created.out.trim();
    assert!(token.starts_with("rvl_"), "{created:?}");
    let url = format!("http://{address}");
    let me = run(&url, &["whoami"], &[("REVEILLE_TOKEN", token)], "").await.well();
    assert!(me.out.contains("producer:queues=orders.*; viewer"), "{me:?}");
    run(&url, &["token", "list"], &[("REVEILLE_TOKEN", token)], "").await.fails(5, "this needs the role admin");
    let listed = shell.run(&["token", "list"]).await.well();
    assert!(listed.out.contains("shop") && !listed.out.contains("rvl_"), "{listed:?}");
    shell.run(&["token", "revoke", "shop"]).await.fails(2, "--yes");
    shell.run(&["token", "revoke", "other", "--yes"]).await.fails(3, "there is no token");
    shell.run(&["token", "revoke", "shop", "--yes"]).await.well();
    run(&url, &["whoami"], &[("REVEILLE_TOKEN", token)], "").await.fails(5, "not valid");
    shell.run(&["token", "create", "x", "--grant", "root"]).await.fails(2, "viewer, producer, worker");
}
