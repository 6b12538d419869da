//! Events of steps that can be received, as a stream.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use reveille_wake::Consumer;

use super::QueueEvent;
use crate::events::change_watch::{self, ChangeWatches, Subject};

/// Events of steps that can be received in a namespace.
pub(super) fn stream(change_watches: &Consumer<ChangeWatches>, namespace: &str) -> BoxStream<'static, QueueEvent> {
    let namespace: Arc<str> = namespace.into();
    let next = async |(change_watches, namespace, seen): (Consumer<ChangeWatches>, Arc<str>, Option<i64>)| {
        let newest = change_watch::next(&change_watches, &Subject::Steps(namespace.clone()), seen).await?;
        let event = QueueEvent { namespace: namespace.to_string() };
        Some((event, (change_watches, namespace, Some(newest))))
    };
    unfold((change_watches.clone(), namespace, None), next).boxed()
}
