//! Encryption as set by `sslmode` in the URL.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use reveille_pg::testing::PrivateCluster;
use reveille_pg::{Database, Error, Options, Result};

fn with(url: &str, parameters: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{parameters}")
}

async fn is_encrypted(url: &str) -> Result<bool> {
    let database = Database::connect(url, Options::default()).await?;
    let mut session = database.session().await?;
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    Ok(sqlx::query_scalar(sql).fetch_one(&mut *session).await?)
}

/// Makes a self-signed certificate for 127.0.0.1 that the server can read. Without `openssl` the test is skipped.
fn certificate(server: &PrivateCluster) -> Option<PathBuf> {
    let pgdata = server.pgdata();
    let (key, certificate) = (pgdata.join("server.key"), pgdata.join("server.crt"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=reveille test"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return reveille_pg::testing::skip("openssl, to make a certificate");
    }
    let owner = std::fs::metadata(&pgdata).expect("the data directory").uid();
    for (file, mode) in [(&key, 0o600), (&certificate, 0o644)] {
        chown(file, Some(owner), None).expect("give the file to the server");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("set its mode");
    }
    let readable = std::env::temp_dir().join(format!("reveille-tls-{}.crt", server.port()));
    std::fs::copy(&certificate, &readable).expect("copy the certificate for the client");
    Some(readable)
}

async fn switch_on(server: &PrivateCluster) -> Result<()> {
    let database = Database::connect(server.url(), Options::default()).await?;
    let mut session = database.session().await?;
    sqlx::raw_sql("alter system set ssl = on").execute(&mut *session).await?;
    sqlx::raw_sql("select pg_reload_conf()").execute(&mut *session).await?;
    while !is_encrypted(&with(server.url(), "sslmode=prefer")).await? {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// `require` rejects a server without encryption and encrypts with one that has it; `verify-full` accepts only the
/// given certificate; `disable` does not encrypt. Uses one server, before and after encryption is switched on.
#[tokio::test]
async fn sslmode_is_obeyed() -> Result<()> {
    let Some(server) = PrivateCluster::start().await else { return Ok(()) };
    let refused = is_encrypted(&with(server.url(), "sslmode=require")).await.expect_err("it cannot encrypt yet");
    assert!(matches!(refused, Error::Rejected { .. }) && refused.to_string().contains("sslmode"), "{refused:?}");
    assert!(!is_encrypted(server.url()).await?);

    let Some(certificate) = certificate(&server) else { return Ok(()) };
    switch_on(&server).await?;
    assert!(is_encrypted(&with(server.url(), "sslmode=require")).await?);
    assert!(!is_encrypted(&with(server.url(), "sslmode=disable")).await?);
    let trusted = format!("sslmode=verify-full&sslrootcert={}", encoded(&certificate));
    assert!(is_encrypted(&with(server.url(), &trusted)).await?);
    let refused = is_encrypted(&with(server.url(), "sslmode=verify-full")).await.expect_err("no trusted authority");
    assert!(matches!(refused, Error::Rejected { .. }), "{refused:?}");
    std::fs::remove_file(certificate).expect("remove the copy");
    Ok(())
}

fn encoded(path: &Path) -> String {
    path.to_str().expect("a path in Unicode").replace('%', "%25").replace(' ', "%20").replace('&', "%26")
}
