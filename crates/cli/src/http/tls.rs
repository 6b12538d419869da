//! TLS of the HTTP server: its certificate, the authorities of client certificates, and reading them again.
//!
//! Certificates are short-lived, and a server must not be restarted for a new one. So the files are compared with what
//! was loaded when a client connects, at most once per [`CHECK_EVERY`]. An idle server reads nothing. If the new files
//! cannot be used, such as a certificate whose key has not been written yet, the loaded ones stay in use and the log
//! says why, once per change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{NoServerSessionStorage, WebPkiClientVerifier},
        version,
    },
};

use crate::error::Error;

/// How often the files are compared, at most.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The largest file: a chain of certificates has a few kilobytes, a bundle of all public authorities 300.
const FILE_MAX: u64 = 4 << 20;

/// Where certificates are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the server and those between it and its authority, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// The authorities of client certificates, in PEM; `None`: clients need none.
    pub client_authorities: Option<PathBuf>,
    /// Whether clients without a certificate are accepted, too.
    pub client_optional: bool,
}

/// What the files contain.
#[derive(PartialEq, Eq)]
struct Texts {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

/// TLS as configured. Cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    files: TlsFiles,
    check_every: Duration,
    state: Mutex<State>,
}

struct State {
    acceptor: TlsAcceptor,
    /// What was read last, whether it could be used or not.
    texts: Texts,
    checked: Instant,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// The flag whose file cannot be used, and why.
    pub fn load(files: TlsFiles) -> Result<Tls, Error> {
        Tls::checked_every(files, CHECK_EVERY)
    }

    /// As [`Tls::load`], with another interval of comparing the files.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub fn checked_every(files: TlsFiles, check_every: Duration) -> Result<Tls, Error> {
        let texts = Texts::read(&files)?;
        let acceptor = texts.acceptor(files.client_optional)?;
        let state = Mutex::new(State { acceptor, texts, checked: Instant::now() });
        Ok(Tls(Arc::new(Inner { files, check_every, state })))
    }

    /// What accepts a connection, from the files as they are now.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let inner = &self.0;
        let mut state = inner.state.lock();
        if state.checked.elapsed() >= inner.check_every {
            state.checked = Instant::now();
            match Texts::read(&inner.files) {
                Ok(texts) if texts != state.texts => {
                    match texts.acceptor(inner.files.client_optional) {
                        Ok(acceptor) => {
                            state.acceptor = acceptor;
                            tracing::info!("the TLS certificate files have changed and are in use");
                        }
                        Err(error) => complain(&error),
                    }
                    state.texts = texts;
                }
                Ok(_) => {}
                Err(error) => complain(&error),
            }
        }
        state.acceptor.clone()
    }
}

fn complain(error: &Error) {
    let error = error.explain();
    tracing::warn!(error, "the TLS certificate files cannot be used: the ones loaded before stay in use");
}

impl Texts {
    fn read(files: &TlsFiles) -> Result<Texts, Error> {
        let authorities = files.client_authorities.as_deref();
        Ok(Texts {
            certificate: read(CERTIFICATE, &files.certificate)?,
            key: read(KEY, &files.key)?,
            client_authorities: authorities.map(|path| read(AUTHORITIES, path)).transpose()?,
        })
    }

    fn acceptor(&self, client_optional: bool) -> Result<TlsAcceptor, Error> {
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .expect("the provider has ciphers of both versions");
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(text) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(AUTHORITIES, text)? {
                    roots.add(certificate).map_err(|error| invalid(AUTHORITIES, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if client_optional { verifier.allow_unauthenticated() } else { verifier };
                let verifier = verifier.build().map_err(|error| invalid(AUTHORITIES, error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|_| invalid(KEY, "the file contains no private key in PEM".to_owned()))?;
        let config = builder.with_single_cert(certificates(CERTIFICATE, &self.certificate)?, key);
        let mut config = config.map_err(|error| invalid(KEY, error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if self.client_authorities.is_some() {
            // A resumed session would not check the certificate again, which may have expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

const CERTIFICATE: &str = "--tls-cert (REVEILLE_TLS_CERT)";
const KEY: &str = "--tls-key (REVEILLE_TLS_KEY)";
const AUTHORITIES: &str = "--tls-client-ca (REVEILLE_TLS_CLIENT_CA)";

fn invalid(key: &'static str, reason: String) -> Error {
    Error::Setting { key, source: reason.into() }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let read = || {
        let length = fs::metadata(path)?.len();
        if length > FILE_MAX {
            return Err(io::Error::other(format!("the file has {length} bytes; at most {FILE_MAX} are allowed")));
        }
        fs::read(path)
    };
    read().map_err(|error| invalid(key, format!("{}: {error}", path.display())))
}

fn certificates(key: &'static str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| invalid(key, format!("the file is not PEM: {error}")))?;
    match all.is_empty() {
        true => Err(invalid(key, "the file contains no certificate in PEM".to_owned())),
        false => Ok(all),
    }
}
