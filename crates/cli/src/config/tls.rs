//! Settings of TLS.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{error::Error, http::TlsFiles};

/// TLS of the HTTP server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsSettings {
    /// Certificate of the server and those between it and its authority, in PEM: the server then speaks TLS only; a
    /// changed file is used for new connections
    #[arg(long, env = "REVEILLE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, env = "REVEILLE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Certificates of the authorities that sign client certificates, in PEM
    #[arg(long, env = "REVEILLE_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Whether clients must have a certificate if --tls-client-ca is set
    #[arg(long, env = "REVEILLE_TLS_CLIENT_AUTH", default_value = "required", value_name = "WHICH")]
    tls_client_auth: ClientAuth,
}

/// Which clients are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClientAuth {
    /// Those with a certificate.
    Required,
    /// Those without one, too.
    Optional,
}

impl TlsSettings {
    /// The files; `None` without TLS.
    pub(super) fn files(&self) -> Result<Option<TlsFiles>, Error> {
        let missing = |key, with: &str| Error::Setting { key, source: format!("it is needed with {with}").into() };
        let client_optional = self.tls_client_auth == ClientAuth::Optional;
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_authorities: self.tls_client_ca.clone(),
                client_optional,
            })),
            (Some(_), None) => Err(missing("--tls-key (REVEILLE_TLS_KEY)", "--tls-cert")),
            (None, Some(_)) => Err(missing("--tls-cert (REVEILLE_TLS_CERT)", "--tls-key")),
            (None, None) if self.tls_client_ca.is_some() => {
                Err(missing("--tls-cert (REVEILLE_TLS_CERT)", "--tls-client-ca"))
            }
            (None, None) => Ok(None),
        }
    }
}
