//! The signal of a server that something has changed.

use std::time::Duration;

use tokio::{sync::mpsc::Sender, time::sleep};

use crate::client::{Client, Error, Route};

/// The pause before a connection is made again.
const RECONNECT: Duration = Duration::from_secs(2);
/// The routes that send it: of the API, and of the console of servers without the first.
const ROUTES: [&str; 2] = ["/v1/changes", "/console/events"];

/// What the server says.
pub(super) enum Change {
    /// These products have changed; none named: any of them.
    Of(Vec<String>),
    /// Signals arrive from now on.
    Connected,
    /// Signals do not arrive, and why.
    Lost(String),
}

/// Sends what has changed until the receiver is closed. After a connection was made anything may have changed.
pub(super) async fn follow(client: Client, signals: Sender<Change>) {
    let mut route = 0;
    loop {
        let why = match client.events(&Route::new(ROUTES[route]), None).await {
            Err(Error::NotFound { .. } | Error::Rejected { status: 405, .. }) if route + 1 < ROUTES.len() => {
                route += 1;
                continue;
            }
            Err(error) => crate::error::explain(&error),
            Ok(None) => "the server sends no changes".to_owned(),
            Ok(Some(mut events)) => {
                for signal in [Change::Connected, Change::Of(Vec::new())] {
                    if signals.send(signal).await.is_err() {
                        return;
                    }
                }
                loop {
                    match events.next().await {
                        Ok(Some(event)) => {
                            let products = event.data.split_whitespace().map(str::to_owned).collect();
                            if signals.send(Change::Of(products)).await.is_err() {
                                return;
                            }
                        }
                        Ok(None) => break "the server has ended the connection".to_owned(),
                        Err(error) => break crate::error::explain(&error),
                    }
                }
            }
        };
        if signals.send(Change::Lost(why)).await.is_err() {
            return;
        }
        sleep(RECONNECT).await;
    }
}
