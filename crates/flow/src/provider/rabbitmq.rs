//! RabbitMQ: a durable queue per source, publisher confirms, acks by hand.
//!
//! Messages are fetched when somebody waits for them, as many as are waited for: none lies unacked in a process that has no use for it, however many are under way there. Whoever
//! sends rings, so nobody asks in vain. A connection that is lost is made anew by whoever needs it next; what was received by it and not acked comes again, and is dropped where it was claimed.
//! That is also how nothing lies unacked for ever: a connection by which something could not be acked, or by which something may have come that nobody heard of, is left.

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
    Delivery, EventDrivenQueueProvider, Mark, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage, queue_name,
};
use crate::claim::unanswered::locked;
use crate::events::change_watch::ChangeWatches;
use crate::namespace::Provider;

const NAME: &str = "RabbitMQ";
/// What is wrong with a server that does not prove that it is the one that was meant.
const UNTRUSTED: &str = "is not trusted: its certificate must be for its name and signed by a known authority";
/// A message that survives a restart.
const PERSISTENT: u8 = 2;
/// The highest priority of a message; each costs the server memory, so its documentation advises ten at most.
const PRIORITY_MAX: u8 = 9;
/// Where a task's priority of zero is among those.
const PRIORITY_ZERO: i16 = 4;
/// How long it may take to have what is sent together: a server that is short of memory or disk takes nothing for a while.
const SENDING: Duration = Duration::from_secs(30);
/// How long it may take to be there, or to answer, before it counts as away.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long messages are fetched, each by a round trip, once there are some: these are claimed then, and the rest is fetched after that.
const FETCHING: Duration = Duration::from_secs(1);
/// What a connection is closed with: nothing is wrong with it that the server could know.
const GOODBYE: u16 = 200;

pub(super) struct Rabbitmq {
    url: String,
    ca: Option<String>,
    schema: String,
    link: Mutex<Option<Arc<Link>>>,
    change_watches: Consumer<ChangeWatches>,
}

/// A connection.
pub(crate) struct Link {
    connection: Arc<Connection>,
    /// For what is sent, and for what is received.
    sends: Channel,
    receives: Channel,
    /// The queues that it has declared.
    declared: std::sync::Mutex<HashSet<String>>,
    /// Nobody uses it any more.
    left: AtomicBool,
}

fn failed(what: &'static str) -> impl Fn(lapin::Error) -> QueueError {
    move |error| QueueError::new(NAME, what, error)
}

/// Whether TLS refused the server's certificate. The error of rustls is known by its text only, without a dependency on that crate.
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
        Ok(Link { connection, sends, receives, declared: std::sync::Mutex::default(), left: AtomicBool::new(false) })
    }

    fn is_alive(&self) -> bool {
        let connected = || self.sends.status().connected() && self.receives.status().connected();
        !self.left.load(Ordering::Relaxed) && self.connection.status().connected() && connected()
    }

    /// Leaves it for good: what was received by it and not acked comes again.
    fn leave(&self) {
        if self.left.swap(true, Ordering::Relaxed) {
            return;
        }
        let connection = self.connection.clone();
        let close = async move { timeout(PATIENCE, connection.close(GOODBYE, "left".into())).await };
        // Without a runtime everything ends, connections included.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(close);
        }
    }

    /// What is asked of the server. If it takes too long, this is left.
    async fn ask<T>(&self, what: &'static str, asked: impl Future<Output = lapin::Result<T>>) -> Result<T, QueueError> {
        match timeout(PATIENCE, asked).await {
            Ok(answer) => answer.map_err(failed(what)),
            Err(late) => {
                self.leave();
                Err(QueueError::new(NAME, what, late))
            }
        }
    }

    /// Makes a queue, if this connection has not yet. Answers whether it has now.
    async fn declare(&self, queue: &str) -> Result<bool, QueueError> {
        if locked(&self.declared).contains(queue) {
            return Ok(false);
        }
        let declare = async {
            // The server closes the channel by which it refuses a queue: that is nobody else's.
            let channel = self.connection.create_channel().await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let mut arguments = FieldTable::default();
            arguments.insert("x-max-priority".into(), AMQPValue::ShortShortUInt(PRIORITY_MAX));
            channel.queue_declare(queue.into(), durable, arguments).await
        };
        self.ask("could not make a queue", declare).await?;
        Ok(locked(&self.declared).insert(queue.to_owned()))
    }

    /// Sends messages, and returns when the server has them.
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
            // A queue that somebody has deleted is not to swallow it.
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
                    // The next one makes its queue again.
                    locked(&self.declared).clear();
                    return Err(QueueError::new(NAME, "did not confirm", "a message was refused or had no queue"));
                }
            }
        }
        Ok(sent)
    }

    /// Adds what is in a queue, one by one, until there are `most`, or some and it is late.
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
                    let receipt = Receipt(Mark::Tag { delivery, link: Arc::downgrade(self) });
                    deliveries.push(Delivery { message, receipt });
                }
                Err(error) => {
                    tracing::warn!(queue, %error, "dropped a message of RabbitMQ that is none of this engine's");
                    let dropped = delivery.acker.ack(BasicAckOptions::default());
                    self.ask("could not drop a message", dropped).await?;
                }
            }
        }
        Ok(())
    }
}

/// TLS with a server whose certificate is for its name and was signed by an authority of `ca`, or of the system if there is none.
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

/// For as long as something is asked that must be heard to its end. Dropped before that, its connection is left: what came by it unheard comes again.
struct Connected<'a>(Option<&'a Link>);

impl Connected<'_> {
    fn heard(mut self) {
        self.0 = None;
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0 {
            link.leave();
        }
    }
}

/// What is said of a message at last.
#[derive(Clone, Copy)]
enum Last {
    Ack,
    PutBack,
}

impl Last {
    async fn say(self, acker: &Acker) -> lapin::Result<bool> {
        match self {
            Last::Ack => acker.ack(BasicAckOptions::default()).await,
            Last::PutBack => acker.nack(BasicNackOptions { requeue: true, ..BasicNackOptions::default() }).await,
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

    /// The connection; a new one if there is none that works.
    async fn link(&self) -> Result<Arc<Link>, QueueError> {
        let mut link = self.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| link.is_alive()) {
            return Ok(link.clone());
        }
        if let Some(broken) = link.take() {
            broken.leave();
        }
        let unusable = |why| QueueError::new(NAME, "has an unusable address", why);
        // The parser's error may quote the address, which holds a password.
        let uri: AMQPUri =
            self.url.parse().map_err(|_| unusable("it is not amqp://… or amqps://…, with a host and a port"))?;
        if self.ca.is_some() && uri.scheme == AMQPScheme::AMQP {
            // Who names an authority means TLS: nothing is sent without it.
            return Err(unusable("certificates of authorities are given, and amqp:// has no TLS: say amqps://"));
        }
        let what = "could not be reached";
        let opened = match timeout(PATIENCE, Link::open(uri, self.ca.clone())).await {
            Ok(opened) => opened.map_err(|error| failed(if is_untrusted(&error) { UNTRUSTED } else { what })(error))?,
            Err(late) => return Err(QueueError::new(NAME, what, late)),
        };
        Ok(link.insert(Arc::new(opened)).clone())
    }

    /// Says something of messages at last. What came by a connection that is not there any more comes again by itself.
    async fn last(&self, last: Last, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        let mut said = Ok(());
        for Receipt(mark) in receipts {
            let Mark::Tag { delivery, link } = mark else { continue };
            let Some(link) = link.upgrade().filter(|link| link.is_alive()) else { continue };
            let hearing = Connected(Some(&link));
            match link.ask("could not end a message", last.say(&delivery.acker)).await {
                Ok(_) => hearing.heard(),
                // Nor can the others be that came by it: they come again with this one.
                Err(error) => said = said.and(Err(error)),
            }
        }
        said
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
            link.leave();
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
        let hearing = Connected(Some(&link));
        let (late, mut deliveries, mut fetched) = (Instant::now() + FETCHING, Vec::new(), Ok(()));
        for source in sources {
            if !is_fetching(&deliveries, most, late) || !link.is_alive() {
                break;
            }
            // A queue that fails is no reason to lose what others have brought, nor to keep it from being brought.
            let queue = queue_name(&self.schema, source);
            fetched = fetched.and(link.fetch(&queue, most, late, &mut deliveries).await);
        }
        hearing.heard();
        match fetched {
            Err(error) if deliveries.is_empty() => Err(error),
            _ => Ok(deliveries),
        }
    }

    async fn ack(&self, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        self.last(Last::Ack, receipts).await
    }

    async fn release(&self, _: Option<&mut PgConnection>, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        self.last(Last::PutBack, receipts).await
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
