//! RabbitMQ: a durable queue per source, publisher confirms, manual acks.
//!
//! Messages are fetched when a claim waits for them, and only as many as it asks for, so that none is held unacked by a
//! process that has no use for it. A sender wakes the receivers, so nothing polls. The next use after a lost connection
//! opens a new one; messages that were received on the old one and not acked are delivered again, and dropped if their
//! steps were claimed. For the same reason no message stays unacked forever: a connection is closed if an ack failed on
//! it, or if a response was not awaited to its end and may have contained a message.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::tcp::{AMQPUriTcpExt as _, RustlsConnector, RustlsConnectorConfig};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Acker, BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind};
use reveille_wake::Consumer;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sqlx::PgConnection;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::events;
use super::{
    Delivery, EventDrivenQueueProvider, MessageRef, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage, queue_name,
};
use crate::events::change_watch::ChangeWatches;
use crate::namespace::Provider;

const NAME: &str = "RabbitMQ";
/// The error for a server whose certificate is not valid.
const UNTRUSTED: &str = "is not trusted: its certificate must be for its name and signed by a known authority";
/// The delivery mode of messages that survive a restart.
const PERSISTENT: u8 = 2;
/// The highest priority of a message. Each priority costs the server memory; its documentation advises at most ten.
const PRIORITY_MAX: u8 = 9;
/// The message priority of tasks with priority zero.
const PRIORITY_ZERO: i16 = 4;
/// How long confirming a batch may take. A server that is short of memory or disk space blocks publishers.
const SENDING: Duration = Duration::from_secs(30);
/// How long connecting or a request may take before the server counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long messages are fetched, each by a round trip, once there is one. Then these are claimed, and the next poll
/// fetches the rest.
const FETCHING: Duration = Duration::from_secs(1);
/// The reply code for closing a connection without an error.
const GOODBYE: u16 = 200;

pub(super) struct Rabbitmq {
    url: String,
    ca: Option<String>,
    schema: String,
    link: Mutex<Option<Arc<Link>>>,
    change_watches: Consumer<ChangeWatches>,
}

/// A connection with its channels.
pub(crate) struct Link {
    connection: Arc<Connection>,
    /// The channel for sending, and the one for receiving.
    sends: Channel,
    receives: Channel,
    /// The queues that were declared on it.
    declared: parking_lot::Mutex<HashSet<String>>,
    /// It is closed, or being closed.
    closed: AtomicBool,
}

fn failed(what: &'static str) -> impl Fn(lapin::Error) -> QueueError {
    move |error| QueueError::new(NAME, what, error)
}

/// Whether TLS rejected the server's certificate. The error of rustls is recognized by its text, which avoids a
/// dependency on that crate.
fn is_untrusted(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::IOError(error) if error.to_string().starts_with("invalid peer certificate"))
}

impl Link {
    async fn open(uri: AMQPUri, ca: Option<String>) -> lapin::Result<Link> {
        let connect = async move |mut uri: AMQPUri, runtime| {
            let has_tls = std::mem::replace(&mut uri.scheme, AMQPScheme::AMQP) == AMQPScheme::AMQPS;
            let stream = uri.connect_async(&runtime).await?;
            match has_tls {
                true => Ok(stream.into_rustls(&trusting(ca.as_deref())?, &uri.authority.host).await?),
                false => Ok(stream),
            }
        };
        let runtime = lapin::runtime::default_runtime()?;
        let connection = Connection::connector(uri, runtime, connect, ConnectionProperties::default()).await?;
        let connection = Arc::new(connection);
        let sends = connection.create_channel().await?;
        sends.confirm_select(ConfirmSelectOptions::default()).await?;
        let receives = connection.create_channel().await?;
        Ok(Link {
            connection,
            sends,
            receives,
            declared: parking_lot::Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    fn is_alive(&self) -> bool {
        let connected = || self.sends.status().connected() && self.receives.status().connected();
        !self.closed.load(Ordering::Relaxed) && self.connection.status().connected() && connected()
    }

    /// Closes the connection. Messages that were received on it and not acked are delivered again.
    fn close(&self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let connection = self.connection.clone();
        let close = async move { timeout(PATIENCE, connection.close(GOODBYE, "closed".into())).await };
        // Without a runtime the process is ending, and its connections with it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(close);
        }
    }

    /// Sends a request to the server. If the answer takes too long, the connection is closed.
    async fn ask<T>(&self, what: &'static str, asked: impl Future<Output = lapin::Result<T>>) -> Result<T, QueueError> {
        match timeout(PATIENCE, asked).await {
            Ok(answer) => answer.map_err(failed(what)),
            Err(late) => {
                self.close();
                Err(QueueError::new(NAME, what, late))
            }
        }
    }

    /// Declares a queue, unless it was declared on this connection before. Returns whether it was declared now.
    async fn declare(&self, queue: &str) -> Result<bool, QueueError> {
        if self.declared.lock().contains(queue) {
            return Ok(false);
        }
        let declare = async {
            // The server closes a channel on which it rejects a queue: this one is used for nothing else.
            let channel = self.connection.create_channel().await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let mut arguments = FieldTable::default();
            arguments.insert("x-max-priority".into(), AMQPValue::ShortShortUInt(PRIORITY_MAX));
            channel.queue_declare(queue.into(), durable, arguments).await
        };
        self.ask("could not make a queue", declare).await?;
        Ok(self.declared.lock().insert(queue.to_owned()))
    }

    /// Sends messages, and returns when the server has confirmed them.
    async fn send(&self, schema: &str, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError> {
        let mut confirms = Vec::with_capacity(messages.len());
        let mut sent: Vec<Sent> = Vec::new();
        for message in messages {
            let source = Source { namespace: message.namespace.clone(), step: message.step.clone() };
            let queue = queue_name(schema, &source);
            let created = self.declare(&queue).await?;
            let body = serde_json::to_vec(message).map_err(|error| QueueError::new(NAME, "could not send", error))?;
            let properties =
                BasicProperties::default().with_delivery_mode(PERSISTENT).with_priority(priority(message.priority));
            // Without `mandatory` a message to a deleted queue would be lost silently.
            let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let published = self.sends.basic_publish("".into(), queue.as_str().into(), mandatory, &body, properties);
            confirms.push(self.ask("could not send", published).await?);
            if !sent.iter().any(|sent| sent.queue == queue) {
                sent.push(Sent { queue, created, newest: None });
            }
        }
        for confirm in confirms {
            match self.ask("did not confirm", confirm).await? {
                Confirmation::Ack(None) => {}
                _ => {
                    // The next send declares its queues again.
                    self.declared.lock().clear();
                    return Err(QueueError::new(NAME, "did not confirm", "a message was refused or had no queue"));
                }
            }
        }
        Ok(sent)
    }

    /// Fetches messages of a queue one by one, until there are `most`, or at least one and the time is over.
    async fn fetch(
        self: &Arc<Self>,
        queue: &str,
        most: usize,
        late: Instant,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), QueueError> {
        self.declare(queue).await?;
        while is_fetching(deliveries, most, late) {
            let got = self.receives.basic_get(queue.into(), BasicGetOptions::default());
            let Some(got) = self.ask("could not be read", got).await? else { break };
            let mut delivery = Box::new(got.delivery);
            match serde_json::from_slice(&std::mem::take(&mut delivery.data)) {
                Ok(message) => {
                    let receipt = Receipt(MessageRef::Tag { delivery, link: Arc::downgrade(self) });
                    deliveries.push(Delivery { message, receipt });
                }
                Err(error) => {
                    tracing::warn!(queue, %error, "dropped an unreadable RabbitMQ message");
                    let dropped = delivery.acker.ack(BasicAckOptions::default());
                    self.ask("could not drop a message", dropped).await?;
                }
            }
        }
        Ok(())
    }
}

/// TLS that requires a certificate for the server's name, signed by an authority of `ca`, or of the system if there is
/// none.
fn trusting(ca: Option<&str>) -> io::Result<RustlsConnector> {
    let config = match ca {
        None => RustlsConnectorConfig::new_with_native_certs()?,
        Some(pem) => {
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            RustlsConnectorConfig::default().with_parsable_certificates(certificates.map_err(io::Error::other)?)
        }
    };
    config.connector_with_no_client_auth()
}

fn is_fetching(deliveries: &[Delivery], most: usize, late: Instant) -> bool {
    deliveries.len() < most && (deliveries.is_empty() || Instant::now() < late)
}

/// Closes a connection if it is dropped before [`finished`](Self::finished): a response that was not awaited to its end
/// may have contained a message, which is then delivered again.
struct CloseUnlessFinished<'a>(Option<&'a Link>);

impl CloseUnlessFinished<'_> {
    fn finished(mut self) {
        self.0 = None;
    }
}

impl Drop for CloseUnlessFinished<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0 {
            link.close();
        }
    }
}

/// How a received message is disposed of.
#[derive(Clone, Copy)]
enum Disposition {
    Ack,
    Requeue,
}

impl Disposition {
    async fn apply(self, acker: &Acker) -> lapin::Result<bool> {
        match self {
            Disposition::Ack => acker.ack(BasicAckOptions::default()).await,
            Disposition::Requeue => acker.nack(BasicNackOptions { requeue: true, ..BasicNackOptions::default() }).await,
        }
    }
}

impl Rabbitmq {
    pub(super) fn new(
        url: String,
        ca: Option<String>,
        schema: &str,
        change_watches: Consumer<ChangeWatches>,
    ) -> Rabbitmq {
        Rabbitmq { url, ca, schema: schema.to_owned(), link: Mutex::default(), change_watches }
    }

    /// The connection; a new one if there is none that is open.
    async fn link(&self) -> Result<Arc<Link>, QueueError> {
        let mut link = self.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| link.is_alive()) {
            return Ok(link.clone());
        }
        if let Some(broken) = link.take() {
            broken.close();
        }
        let unusable = |why| QueueError::new(NAME, "has an invalid URL", why);
        // The parser's error may quote the URL, which contains a password.
        let uri: AMQPUri =
            self.url.parse().map_err(|_| unusable("must be amqp://… or amqps://…, with a host and a port"))?;
        if self.ca.is_some() && uri.scheme == AMQPScheme::AMQP {
            // Certificates imply TLS: without it nothing is sent.
            return Err(unusable("certificates are given, but amqp:// has no TLS: use amqps://"));
        }
        let what = "could not be reached";
        let opened = match timeout(PATIENCE, Link::open(uri, self.ca.clone())).await {
            Ok(opened) => opened.map_err(|error| failed(if is_untrusted(&error) { UNTRUSTED } else { what })(error))?,
            Err(late) => return Err(QueueError::new(NAME, what, late)),
        };
        Ok(link.insert(Arc::new(opened)).clone())
    }

    /// Disposes of messages. Those that were received on a closed connection are delivered again anyway.
    async fn dispose(&self, disposition: Disposition, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        let mut result = Ok(());
        for Receipt(message) in receipts {
            let MessageRef::Tag { delivery, link } = message else { continue };
            let Some(link) = link.upgrade().filter(|link| link.is_alive()) else { continue };
            let guard = CloseUnlessFinished(Some(&link));
            match link.ask("could not end a message", disposition.apply(&delivery.acker)).await {
                Ok(_) => guard.finished(),
                // The connection is closed, so the other messages that were received on it are delivered again, too.
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }
}

fn priority(of_task: i16) -> u8 {
    of_task.saturating_add(PRIORITY_ZERO).clamp(0, PRIORITY_MAX.into()) as u8
}

#[async_trait]
impl QueueProvider for Rabbitmq {
    fn kind(&self) -> Provider {
        Provider::Rabbitmq
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.link().await.map(|_| ())
    }

    async fn publish(&self, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError> {
        let link = self.link().await?;
        timeout(SENDING, link.send(&self.schema, messages)).await.unwrap_or_else(|late| {
            link.close();
            Err(QueueError::new(NAME, "took too long to confirm", late))
        })
    }

    async fn receive(
        &self,
        _: &mut PgConnection,
        sources: &[Source],
        most: usize,
    ) -> Result<Vec<Delivery>, QueueError> {
        let link = self.link().await?;
        let guard = CloseUnlessFinished(Some(&link));
        let (late, mut deliveries, mut fetched) = (Instant::now() + FETCHING, Vec::new(), Ok(()));
        for source in sources {
            if !is_fetching(&deliveries, most, late) || !link.is_alive() {
                break;
            }
            // If one queue fails, messages of the others are fetched nevertheless.
            let queue = queue_name(&self.schema, source);
            fetched = fetched.and(link.fetch(&queue, most, late, &mut deliveries).await);
        }
        guard.finished();
        match fetched {
            Err(error) if deliveries.is_empty() => Err(error),
            _ => Ok(deliveries),
        }
    }

    async fn ack(&self, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        self.dispose(Disposition::Ack, receipts).await
    }

    async fn release(&self, _: Option<&mut PgConnection>, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        self.dispose(Disposition::Requeue, receipts).await
    }
}

impl EventDrivenQueueProvider for Rabbitmq {
    fn supports_push_notifications(&self) -> bool {
        true
    }

    fn create_event_stream(&self, namespace: &str) -> BoxStream<'static, QueueEvent> {
        events::stream(&self.change_watches, namespace)
    }
}
