//! The log of one test: a subscriber for its thread that keeps every span and every event, at every level.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Fields with the values they ended up with.
pub(super) type Fields = BTreeMap<&'static str, String>;

/// A span or an event.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) target: &'static str,
    pub(super) level: Level,
    /// A span's name, or an event's source line.
    pub(super) name: &'static str,
    pub(super) is_span: bool,
    pub(super) fields: Fields,
}

/// What was logged.
#[derive(Clone, Default)]
pub(super) struct Captured(Arc<Mutex<Vec<Entry>>>);

impl Captured {
    /// Captures what this thread logs from now on, for as long as the guard lives.
    pub(super) fn begin() -> (Captured, DefaultGuard) {
        let captured = Captured::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(captured.clone()));
        (captured, guard)
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.0.lock().expect("no panic").clone()
    }

    /// The fields of every span of this name.
    pub(super) fn spans(&self, name: &str) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.is_span && entry.name == name).collect()
    }

    fn push(&self, entry: Entry) -> usize {
        let mut entries = self.0.lock().expect("no panic");
        entries.push(entry);
        entries.len() - 1
    }
}

/// Where a span's entry is.
struct Index(usize);

struct Collect<'a>(&'a mut Fields);

impl Visit for Collect<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Captured {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Collect(&mut fields));
        let about = attributes.metadata();
        let entry = Entry { target: about.target(), level: *about.level(), name: about.name(), is_span: true, fields };
        let index = self.push(entry);
        context.span(id).expect("it was just made").extensions_mut().insert(Index(index));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).expect("it is open");
        let index = span.extensions().get::<Index>().map(|index| index.0);
        if let Some(index) = index {
            values.record(&mut Collect(&mut self.0.lock().expect("no panic")[index].fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Collect(&mut fields));
        let about = event.metadata();
        self.push(Entry { target: about.target(), level: *about.level(), name: about.name(), is_span: false, fields });
    }
}
