//! Connections to a server.

use std::{io, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto, pki_types::ServerName, version},
};

use super::{Address, Error};

/// The longest time to connect, name resolution and TLS included.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What sends the requests of one connection.
pub(super) type Sender = SendRequest<Full<Bytes>>;

/// Opens connections to one server.
pub(super) struct Connector {
    pub(super) address: Address,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub(super) fn new(address: Address) -> Result<Connector, Error> {
        let tls = match address.tls {
            true => Some((authorities()?, server_name(&address)?)),
            false => None,
        };
        Ok(Connector { address, tls })
    }

    /// Opens a connection.
    pub(super) async fn open(&self) -> Result<Sender, Error> {
        let opened = async {
            let tcp = TcpStream::connect((self.address.host.as_str(), self.address.port)).await;
            let tcp = tcp.map_err(|source| Error::Unreachable { server: self.address.to_string(), source })?;
            // Small requests must not wait for the acknowledgment of earlier ones.
            let _ = tcp.set_nodelay(true);
            match &self.tls {
                None => start(TokioIo::new(tcp), &self.address).await,
                Some((connector, name)) => {
                    let tls = connector.connect(name.clone(), tcp).await;
                    let tls = tls.map_err(|source| Error::Tls { server: self.address.to_string(), source })?;
                    start(TokioIo::new(tls), &self.address).await
                }
            }
        };
        let late = || {
            let source = io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_WITHIN:?}"));
            Error::Unreachable { server: self.address.to_string(), source }
        };
        timeout(CONNECT_WITHIN, opened).await.unwrap_or_else(|_| Err(late()))
    }
}

async fn start(io: impl Read + Write + Unpin + Send + 'static, address: &Address) -> Result<Sender, Error> {
    let (sender, connection) = handshake(io).await.map_err(|error| Error::no_answer(address, error))?;
    // Its error reaches the request that is waiting for a response.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// TLS with the authorities of this system, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
fn authorities() -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        return Err(Error::Authorities);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .expect("the provider has ciphers of both versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn server_name(address: &Address) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(address.host.clone())
        .map_err(|source| Error::Tls { server: address.to_string(), source: io::Error::other(source) })
}
