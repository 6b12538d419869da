//! TLS: real handshakes with certificates made by openssl.

use std::{
    io::{Error, ErrorKind},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use reveille::http::{App, Listener, Tls, TlsFiles};
use reveille_pg::testing::{TestDb, skip};
use rustls::{
    ClientConfig, RootCertStore, crypto,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls};

use crate::{
    http::{Answer, exchange, parse},
    process::{PATIENCE, Reveille, command, run},
    serve::serve,
    server::metrics,
};

/// A folder with an authority and certificates that it has signed.
pub(crate) struct Authority(PathBuf);

impl Authority {
    /// `None`, and the test is skipped, without openssl.
    pub(crate) fn new(name: &str) -> Option<Authority> {
        let folder = std::env::temp_dir().join(format!("reveille-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let authority = Authority(folder);
        let made = authority.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca \
             -keyout ca.key -out ca.crt",
        );
        made.then_some(authority).or_else(|| skip("openssl, to make certificates"))
    }

    fn openssl(&self, args: &str) -> bool {
        let ended = Command::new("openssl").args(args.split_whitespace()).current_dir(&self.0).output();
        ended.is_ok_and(|ended| ended.status.success())
    }

    /// Makes `name.crt` and `name.key`. A certificate with a negative number of days has expired.
    fn sign(&self, name: &str, subject: &str, alternative: &str, days: i32) {
        std::fs::write(self.0.join("extensions"), format!("{alternative}\nbasicConstraints=CA:FALSE\n"))
            .expect("written");
        let asked = self.openssl(&format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj {subject} -keyout {name}.key -out {name}.csr"
        ));
        let signed = self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days {days} -extfile extensions \
             -out {name}.crt"
        ));
        assert!(asked && signed, "openssl cannot sign {name}");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The certificate of a server on this machine.
    pub(crate) fn server(&self) -> TlsFiles {
        self.sign("server", "/CN=server", "subjectAltName=IP:127.0.0.1,DNS:localhost", 2);
        TlsFiles {
            certificate: self.path("server.crt"),
            key: self.path("server.key"),
            client_authorities: None,
            client_optional: false,
        }
    }

    /// A client that accepts this authority only, with a certificate of that name if there is one.
    fn client(&self, certificate: Option<&str>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(pem(&self.path("ca.crt"))).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match certificate {
            None => config.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).expect("a key");
                config.with_client_auth_cert(vec![pem(&self.path(&format!("{name}.crt")))], key).expect("a pair")
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pem(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// A request over TLS; an error if the handshake or the request fails.
async fn ask(address: SocketAddr, client: &TlsConnector, host: &str) -> Result<Answer, Error> {
    request(address, client, host, "/health/live").await
}

async fn request(address: SocketAddr, client: &TlsConnector, host: &str, path: &str) -> Result<Answer, Error> {
    let asked = async {
        let tcp = TcpStream::connect(address).await?;
        let mut stream = client.connect("127.0.0.1".try_into().expect("an address"), tcp).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        match answer.is_empty() {
            true => Err(ErrorKind::UnexpectedEof.into()),
            false => Ok(parse(&String::from_utf8(answer).expect("text"))),
        }
    };
    timeout(PATIENCE, asked).await.expect("in time")
}

/// A server in this process.
async fn start(files: TlsFiles) -> (SocketAddr, JoinHandle<usize>) {
    let tls = Tls::checked_every(files, Duration::ZERO).expect("usable files");
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), None).await.expect("a port").secured(Some(tls));
    let address = listener.address();
    let (routes, _) = App::new(metrics()).build();
    (address, tokio::spawn(listener.serve(routes, std::future::pending())))
}

/// A server with a certificate must be reachable over TLS only: by a client that trusts its authority, and by no other.
/// A browser must be told to stay with TLS, but not for `localhost`. A client without TLS must be told what is wrong.
#[tokio::test]
async fn a_server_with_a_certificate_speaks_tls_only() {
    let Some(authority) = Authority::new("only") else { return };
    let Some(stranger) = Authority::new("stranger") else { return };
    let (address, server) = start(authority.server()).await;

    let answer = ask(address, &authority.client(None), "127.0.0.1").await.expect("an answer");
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains("strict-transport-security: max-age="), "{answer:?}");
    let local = ask(address, &authority.client(None), "localhost:1").await.expect("an answer");
    assert!(!local.headers.contains("strict-transport-security"), "{local:?}");

    ask(address, &stranger.client(None), "127.0.0.1").await.expect_err("another authority");
    let plain = exchange(address, "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("an answer");
    let plain = parse(&plain);
    assert!(plain.status == 400 && plain.json()["error"].as_str().is_some_and(|it| it.contains("https://")));
    server.abort();
}

/// With authorities of clients, a certificate of one of them must be accepted; none, another authority's, and an
/// expired one must not. If certificates are optional, none is accepted, but a wrong one is not.
#[tokio::test]
async fn client_certificates_are_checked() {
    let Some(authority) = Authority::new("clients") else { return };
    let Some(stranger) = Authority::new("other-clients") else { return };
    for (by, name, days) in [(&authority, "ann", 2), (&authority, "late", -1), (&stranger, "eve", 2)] {
        by.sign(name, &format!("/CN={name}"), "extendedKeyUsage=clientAuth", days);
    }
    for suffix in ["crt", "key"] {
        let (from, to) = (stranger.path(&format!("eve.{suffix}")), authority.path(&format!("eve.{suffix}")));
        std::fs::copy(from, to).expect("copied");
    }
    for client_optional in [false, true] {
        let files =
            TlsFiles { client_authorities: Some(authority.path("ca.crt")), client_optional, ..authority.server() };
        let (address, server) = start(files).await;
        for (certificate, accepted) in
            [(Some("ann"), true), (None, client_optional), (Some("late"), false), (Some("eve"), false)]
        {
            let answered = ask(address, &authority.client(certificate), "127.0.0.1").await;
            assert_eq!(answered.is_ok(), accepted, "{certificate:?}, optional: {client_optional}: {answered:?}");
        }
        server.abort();
    }
}

/// A new certificate must be used without a restart, and a half-written one must not replace a good one.
/// Replaces the certificate by one of another authority, first without its key.
#[tokio::test]
async fn a_changed_certificate_is_used_for_new_connections() {
    let Some(old) = Authority::new("old") else { return };
    let Some(new) = Authority::new("new") else { return };
    let (address, server) = start(old.server()).await;
    let made = new.server();
    ask(address, &old.client(None), "127.0.0.1").await.expect("the first certificate");

    std::fs::copy(&made.certificate, old.path("server.crt")).expect("copied");
    ask(address, &old.client(None), "127.0.0.1").await.expect("the key is missing: still the first one");
    std::fs::copy(&made.key, old.path("server.key")).expect("copied");
    ask(address, &new.client(None), "127.0.0.1").await.expect("the second certificate");
    ask(address, &old.client(None), "127.0.0.1").await.expect_err("not the first any more");
    server.abort();
}

/// Clients that begin handshakes and send nothing must not keep others from the server.
/// More of them than handshakes that may be in progress; then a request. One of them is disconnected.
#[tokio::test]
async fn silent_handshakes_exhaust_nothing() {
    let Some(authority) = Authority::new("silent") else { return };
    let (address, server) = start(authority.server()).await;
    let mut silent = Vec::new();
    for _ in 0..1_100 {
        let mut stream = TcpStream::connect(address).await.expect("accepted");
        stream.write_all(&[22, 3, 1, 0xff]).await.expect("the beginning of a record");
        silent.push(stream);
    }
    let answer = ask(address, &authority.client(None), "127.0.0.1").await.expect("an answer");
    assert_eq!(answer.status, 200);
    let read = timeout(PATIENCE, silent[0].read(&mut [0])).await.expect("closed in time");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    server.abort();
}

/// The program must serve with TLS by its flags, and its own client must accept the certificate's authority.
/// Missing, unreadable and unusable files must name their flag.
#[tokio::test]
async fn the_program_serves_with_tls() {
    let Some(authority) = Authority::new("program") else { return };
    let files = authority.server();
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (certificate, key) = (text(&files.certificate), text(&files.key));
    let db = TestDb::new().await;
    let reveille = Reveille::start(serve(&db, &["--tls-cert", &certificate, "--tls-key", &key]));
    let line = reveille.line("the console is at https://").await;
    let site = line.split(" at ").nth(1).and_then(|it| it.strip_suffix("/console")).expect("an address").to_owned();
    let mut list = command(&["queue", "list", "--server", &site]);
    list.env("SSL_CERT_FILE", authority.path("ca.crt"));
    let listed = run(list).await;
    assert_eq!(listed.status.code(), Some(0), "{}", listed.output);

    for (args, part) in [
        (&["--tls-cert", &*certificate][..], "--tls-key"),
        (&["--tls-key", &key], "--tls-cert"),
        (&["--tls-client-ca", &certificate], "--tls-cert"),
        (&["--tls-cert", "/no/such/file", "--tls-key", &key], "/no/such/file"),
        (&["--tls-cert", &key, "--tls-key", &key], "no certificate"),
        (&["--tls-cert", &certificate, "--tls-key", &certificate], "no private key"),
    ] {
        let ended = run(serve(&db, args)).await;
        assert_eq!(ended.status.code(), Some(2), "{}", ended.output);
        assert!(ended.output.contains(part), "{part}: {}", ended.output);
    }
}

/// A client certificate must be a credential with a configured role, named by its subject; a client without one must
/// have no access.
#[tokio::test]
async fn a_client_certificate_is_a_credential() {
    let Some(authority) = Authority::new("credential") else { return };
    let files = authority.server();
    authority.sign("ann", "/O=Example/CN=ann", "extendedKeyUsage=clientAuth", 2);
    let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
    let (certificate, key, ca) = (text(files.certificate), text(files.key), text(authority.path("ca.crt")));
    let db = TestDb::new().await;
    let options = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
    let more = ["--tls-client-auth", "optional", "--tls-client-role", "viewer", "--require-authentication"];
    let reveille = Reveille::start(serve(&db, &[&options[..], &more].concat()));
    let line = reveille.line("the console is at https://").await;
    let address = line.split("https://").nth(1).and_then(|it| it.strip_suffix("/console")).expect("an address");
    let address: SocketAddr = address.parse().expect("an address");

    let known = request(address, &authority.client(Some("ann")), "localhost", "/v1/me").await.expect("an answer");
    assert_eq!((known.status, &known.json()["name"]), (200, &"ann".into()), "{known:?}");
    assert_eq!(known.json()["credentials"], "certificate");
    let unknown = request(address, &authority.client(None), "localhost", "/v1/me").await.expect("an answer");
    assert_eq!(unknown.status, 401, "{unknown:?}");
}
