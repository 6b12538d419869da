//! Channel names and their payloads.
//!
//! NOTIFY is per database, so a channel name contains its schema. PostgreSQL rejects names over 63 bytes, and
//! truncation could give two long schemas the same name; a name that does not fit is shortened and made unique by a
//! hash. A payload names the topics to wake; one that cannot be read wakes the whole channel, because an unnecessary
//! poll costs a query and a missing one leaves work undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

/// The longest name that NOTIFY accepts, in bytes.
const NAME_MAX: usize = 63;
/// The longest suffix, so that a hash and a readable part of the schema fit beside it.
pub const SUFFIX_MAX: usize = 24;
/// Bytes of the hash in a shortened name: 64 bits, far beyond the number of schemas of any database.
const HASH_BYTES: usize = 8;
/// NOTIFY rejects payloads of 8000 bytes and more.
const PAYLOAD_MAX: usize = 7_999;

/// Payloads of one write on one channel; if its keys do not fit, it wakes the whole channel.
const PAYLOADS_MAX: usize = 8;
/// The longest delay: ten years, far from overflow.
const DELAY_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How the payloads of a channel name its topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// The channel is one topic and its payload is empty.
    Empty,
    /// The channel is one topic; the payload is the due time of the work in milliseconds of the Unix epoch by the
    /// database's clock, or anything else for "now".
    Due,
    /// The payload is topic keys, one per line; an empty payload wakes every topic of the channel.
    Keys,
}

/// A channel of wake-ups. Cheap to clone; made by [`Wake::channel`](crate::Wake::channel).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    name: Arc<str>,
    payload: Payload,
}

/// What a group waits for: a channel, and a key within it (empty on channels without keys).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub(crate) channel: Channel,
    pub(crate) key: Arc<str>,
}

/// Says that there may be work, now or after a delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeUp {
    pub(crate) channel: Channel,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) delay: Duration,
}

impl Channel {
    pub(crate) fn new(schema: &str, suffix: &str, payload: Payload) -> Channel {
        Channel { name: channel_name(schema, suffix).into(), payload }
    }

    /// Its name in NOTIFY and LISTEN.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its payloads are read.
    pub fn payload(&self) -> Payload {
        self.payload
    }

    /// The one topic of a channel without keys.
    pub fn topic(&self) -> Topic {
        Topic { channel: self.clone(), key: Arc::from("") }
    }

    /// The topic with this key, which may be any text. (A key with a line feed cannot be written in a payload: its
    /// wake-up reaches every topic of the channel in other processes.)
    pub fn topic_of(&self, key: &str) -> Topic {
        Topic { channel: self.clone(), key: key.into() }
    }

    /// Wakes the whole channel.
    pub fn wake_up(&self) -> WakeUp {
        WakeUp { channel: self.clone(), keys: Vec::new(), delay: Duration::ZERO }
    }

    /// Wakes the topics with these keys.
    pub fn wake_up_keys<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> WakeUp {
        WakeUp { channel: self.clone(), keys: keys.into_iter().map(Arc::from).collect(), delay: Duration::ZERO }
    }
}

impl Topic {
    /// Wakes this topic only.
    pub fn into_wake_up(self) -> WakeUp {
        let keys = if self.channel.payload == Payload::Keys { vec![self.key] } else { Vec::new() };
        WakeUp { channel: self.channel, keys, delay: Duration::ZERO }
    }
}

impl WakeUp {
    /// The same for work that becomes due after `delay`.
    ///
    /// Waiters of this process, and on a channel of [`Payload::Due`] those of others, wait that long before they poll.
    /// On other channels other processes poll at once and learn the due time from the result.
    pub fn after(mut self, delay: Duration) -> WakeUp {
        self.delay = delay.min(DELAY_MAX);
        self
    }

    /// The payload for other processes, as `{schema}.notify` expects it: a due time is `+` and milliseconds from now,
    /// which that function makes absolute by the database's clock.
    pub(crate) fn payload(&self) -> String {
        match self.channel.payload {
            Payload::Empty => String::new(),
            Payload::Due => format!("+{}", self.delay.as_millis()),
            Payload::Keys => {
                let mut joined = self.keys.join("\n");
                if is_delay(&joined) {
                    // A trailing empty key makes the payload differ from a delay.
                    joined.push('\n');
                }
                let unreadable = self.keys.iter().any(|key| key.contains('\n') || key.contains('\0'));
                if unreadable || joined.len() > PAYLOAD_MAX { String::new() } else { joined }
            }
        }
    }
}

/// A short topic key made of several names, the same in every process: names may be longer than a payload and contain
/// any character. `kind` distinguishes topics with the same names.
pub fn topic_key(kind: char, names: &[&str]) -> String {
    let mut hash = Sha256::new();
    for name in names {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
    }
    let short: String = hash.finalize()[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}{short}")
}

/// Whether `{schema}.notify` reads this payload as a delay.
pub(crate) fn is_delay(payload: &str) -> bool {
    payload.strip_prefix('+').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Merges wake-ups into one per channel and delay, without duplicates; the shortest delay of a key counts.
pub(crate) fn merge(wake_ups: impl IntoIterator<Item = WakeUp>) -> Vec<WakeUp> {
    struct Merged {
        channel: Channel,
        all: Option<Duration>,
        keys: BTreeMap<Arc<str>, Duration>,
    }
    let mut channels: BTreeMap<Arc<str>, Merged> = BTreeMap::new();
    for wake_up in wake_ups {
        let fresh = || Merged { channel: wake_up.channel.clone(), all: None, keys: BTreeMap::new() };
        let merged = channels.entry(wake_up.channel.name.clone()).or_insert_with(fresh);
        if wake_up.keys.is_empty() {
            merged.all = Some(merged.all.map_or(wake_up.delay, |delay| delay.min(wake_up.delay)));
        }
        for key in wake_up.keys {
            let delay = merged.keys.entry(key).or_insert(wake_up.delay);
            *delay = wake_up.delay.min(*delay);
        }
    }
    let mut wake_ups = Vec::new();
    for Merged { channel, all, keys } in channels.into_values() {
        wake_ups.extend(all.map(|delay| channel.wake_up().after(delay)));
        let mut by_delay: BTreeMap<Duration, Vec<Arc<str>>> = BTreeMap::new();
        for (key, delay) in keys {
            by_delay.entry(delay).or_default().push(key);
        }
        wake_ups.extend(by_delay.into_iter().map(|(delay, keys)| WakeUp { channel: channel.clone(), keys, delay }));
    }
    wake_ups
}

/// The payloads of many wake-ups of one channel for other processes, as few as possible: all keys, at the earliest
/// time. If they are too many, the whole channel.
pub(crate) fn payloads_of(wake_ups: &[WakeUp]) -> Vec<String> {
    let Some(first) = wake_ups.first() else { return Vec::new() };
    let delay = wake_ups.iter().map(|wake_up| wake_up.delay).min().unwrap_or_default();
    let whole = vec![WakeUp { channel: first.channel.clone(), keys: Vec::new(), delay }.payload()];
    if first.channel.payload != Payload::Keys || wake_ups.iter().any(|wake_up| wake_up.keys.is_empty()) {
        return whole;
    }
    let keys: BTreeSet<Arc<str>> = wake_ups.iter().flat_map(|wake_up| wake_up.keys.iter().cloned()).collect();
    let mut chunks: Vec<Vec<Arc<str>>> = vec![Vec::new()];
    let mut bytes = 0;
    for key in keys {
        bytes += key.len() + 1;
        if bytes > PAYLOAD_MAX {
            bytes = key.len() + 1;
            chunks.push(Vec::new());
        }
        chunks.last_mut().into_iter().for_each(|chunk| chunk.push(key.clone()));
    }
    if chunks.len() > PAYLOADS_MAX {
        return whole;
    }
    let payloads = chunks.into_iter().map(|keys| WakeUp { channel: first.channel.clone(), keys, delay }.payload());
    let payloads: Vec<String> = payloads.collect();
    // An empty payload wakes the whole channel, so no other is needed.
    if payloads.iter().any(String::is_empty) { whole } else { payloads }
}

/// What a received payload means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received<'a> {
    /// Every topic of the channel, now.
    All,
    /// Every topic of the channel, when the database's clock reads this many milliseconds.
    AllAt(i64),
    /// These topics, now.
    Keys(Vec<&'a str>),
}

pub(crate) fn parse(kind: Payload, payload: &str) -> Received<'_> {
    match kind {
        Payload::Empty => Received::All,
        Payload::Due => payload.trim().parse().map_or(Received::All, Received::AllAt),
        Payload::Keys if payload.is_empty() => Received::All,
        Payload::Keys => Received::Keys(payload.split('\n').collect()),
    }
}

/// `<schema>_<suffix>`, shortened with a hash of the schema where it would not fit.
///
/// # Panics
/// If the suffix is longer than [`SUFFIX_MAX`]: suffixes are constants of this code base.
pub fn channel_name(schema: &str, suffix: &str) -> String {
    assert!(suffix.len() <= SUFFIX_MAX, "channel suffix {suffix:?} is longer than {SUFFIX_MAX} bytes");
    let plain = format!("{schema}_{suffix}");
    if plain.len() <= NAME_MAX {
        return plain;
    }
    let hash: String = Sha256::digest(schema)[..HASH_BYTES].iter().map(|b| format!("{b:02x}")).collect();
    let room = NAME_MAX - suffix.len() - hash.len() - 2;
    let cut = (0..=room).rev().find(|&at| schema.is_char_boundary(at)).unwrap_or(0);
    format!("{}_{hash}_{suffix}", &schema[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names that are part of a public contract stay as they are.
    #[test]
    fn short_schemas_keep_their_name() {
        assert_eq!(channel_name("public", "orch_work"), "public_orch_work");
        assert_eq!(channel_name("My \"odd\" Schéma", "worker_work"), "My \"odd\" Schéma_worker_work");
    }

    /// A payload is read as it was meant.
    #[test]
    fn payloads_name_the_topics_to_wake() {
        let keys = Channel::new("s", "queue", Payload::Keys);
        assert_eq!(parse(Payload::Keys, &keys.wake_up_keys(["a", "b c"]).payload()), Received::Keys(vec!["a", "b c"]));
        assert_eq!(parse(Payload::Keys, &keys.wake_up().payload()), Received::All);
        assert_eq!(parse(Payload::Due, "1700000000000"), Received::AllAt(1_700_000_000_000));
        assert_eq!(parse(Payload::Due, "soon"), Received::All);
        assert_eq!(parse(Payload::Empty, "anything"), Received::All);
    }

    /// A key that looks like a delay, or that cannot be written in a payload, is woken all the same.
    #[test]
    fn unusual_keys_are_woken() {
        let keys = Channel::new("s", "queue", Payload::Keys);
        let phone = keys.wake_up_keys(["+49170123456"]).payload();
        assert!(!is_delay(&phone));
        assert_eq!(parse(Payload::Keys, &phone), Received::Keys(vec!["+49170123456", ""]));
        assert_eq!(parse(Payload::Keys, &keys.wake_up_keys(["two\nlines"]).payload()), Received::All);
        assert!(is_delay(&Channel::new("s", "due", Payload::Due).wake_up().after(Duration::from_millis(5)).payload()));
    }

    /// Many wake-ups of one write become one payload per channel: all keys, the earliest time.
    #[test]
    fn wake_ups_are_merged() {
        let keys = Channel::new("s", "queue", Payload::Keys);
        let due = Channel::new("s", "due", Payload::Due);
        let later = Duration::from_millis(500);
        let wake_ups = [
            keys.wake_up_keys(["b", "a"]),
            keys.wake_up_keys(["a"]).after(later),
            due.wake_up().after(later),
            due.wake_up(),
        ];
        let merged = merge(wake_ups);
        assert_eq!(merged, vec![due.wake_up(), keys.wake_up_keys(["a", "b"])]);
        assert_eq!(payloads_of(&[keys.wake_up_keys(["a"]), keys.wake_up_keys(["b"]).after(later)]), ["a\nb"]);
        assert_eq!(payloads_of(&[due.wake_up().after(later), due.wake_up().after(later * 2)]), ["+500"]);
        let names: Vec<String> = (0..500).map(|n| format!("{n:040}")).collect();
        let many = [keys.wake_up_keys(names.iter().map(String::as_str))];
        let payloads = payloads_of(&many);
        assert!(payloads.len() == 3 && payloads.iter().all(|payload| payload.len() <= PAYLOAD_MAX));
        let named: Vec<&str> = payloads.iter().flat_map(|payload| payload.split('\n')).collect();
        assert_eq!(named, names);
        assert_eq!(payloads_of(&[keys.wake_up_keys(["x".repeat(9_000).as_str()])]), [""]);
    }

    /// Keys that do not fit into a payload wake every topic of the channel.
    #[test]
    fn too_many_keys_wake_the_whole_channel() {
        let keys = Channel::new("s", "queue", Payload::Keys);
        let long = "k".repeat(PAYLOAD_MAX + 1);
        assert_eq!(parse(Payload::Keys, &keys.wake_up_keys([long.as_str()]).payload()), Received::All);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Any schema of any length and script gives a name that PostgreSQL accepts, the same each time.
        #[test]
        fn names_fit_and_are_stable(schema in "\\PC{1,80}", suffix in "[a-z_]{1,24}") {
            let name = channel_name(&schema, &suffix);
            prop_assert!(name.len() <= NAME_MAX);
            prop_assert!(name.ends_with(&suffix));
            prop_assert_eq!(&name, &channel_name(&schema, &suffix));
        }

        /// Two schemas that PostgreSQL's truncation would give the same name keep different ones.
        #[test]
        fn long_schemas_with_a_common_prefix_differ(a in "[a-z]{1,9}", b in "[a-z]{1,9}") {
            prop_assume!(a != b);
            let stem = "x".repeat(60);
            prop_assert_ne!(channel_name(&format!("{stem}{a}"), "w"), channel_name(&format!("{stem}{b}"), "w"));
        }
    }

    /// Topic keys depend on where one name ends and the next begins.
    #[test]
    fn topics_of_different_names_differ() {
        assert_ne!(topic_key('p', &["ab", "c"]), topic_key('p', &["a", "bc"]));
        assert_ne!(topic_key('q', &["ab"]), topic_key('n', &["ab"]));
        assert_eq!(topic_key('q', &["ab"]).len(), 17);
    }
}
