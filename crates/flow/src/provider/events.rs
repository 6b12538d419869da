//! Word that there is something to be received, as a stream.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use wake::Consumer;

use super::QueueEvent;
use crate::notice::{self, Notices, Subject};

/// Word of what can be received in a namespace.
pub(super) fn stream(notices: &Consumer<Notices>, namespace: &str) -> BoxStream<'static, QueueEvent> {
    let namespace: Arc<str> = namespace.into();
    let next = async |(notices, namespace, seen): (Consumer<Notices>, Arc<str>, Option<i64>)| {
        let newest = notice::next(&notices, &Subject::Steps(namespace.clone()), seen).await?;
        let event = QueueEvent { namespace: namespace.to_string() };
        Some((event, (notices, namespace, Some(newest))))
    };
    unfold((notices.clone(), namespace, None), next).boxed()
}
