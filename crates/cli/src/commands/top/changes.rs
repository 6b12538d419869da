//! The signal of the server that something has changed.

use std::time::Duration;

use tokio::{sync::mpsc::Sender, time::sleep};

use super::Signal;
use crate::client::{Client, Error, Route};

/// The pause before a connection is made again.
const RECONNECT: Duration = Duration::from_secs(2);
/// The routes that send it: of the API, and of the console of servers without the first.
const ROUTES: [&str; 2] = ["/v1/changes", "/console/events"];

/// Sends what has changed until the view ends. After a connection was lost everything may have changed.
pub(super) async fn follow(client: Client, signals: Sender<Signal>) {
    let mut route = 0;
    loop {
        let failed = match client.events(&Route::new(ROUTES[route]), None).await {
            Err(Error::NotFound { .. } | Error::Rejected { status: 405, .. }) if route + 1 < ROUTES.len() => {
                route += 1;
                continue;
            }
            Err(error) => error.to_string(),
            Ok(None) => "the server sends no changes".to_owned(),
            Ok(Some(mut events)) => {
                let connected = [Signal::Connected(Ok(())), Signal::Changed(Vec::new())];
                for signal in connected {
                    if signals.send(signal).await.is_err() {
                        return;
                    }
                }
                loop {
                    match events.next().await {
                        Ok(Some(event)) => {
                            let products = event.data.split_whitespace().map(str::to_owned).collect();
                            if signals.send(Signal::Changed(products)).await.is_err() {
                                return;
                            }
                        }
                        Ok(None) => break "the server has ended the connection".to_owned(),
                        Err(error) => break error.to_string(),
                    }
                }
            }
        };
        if signals.send(Signal::Connected(Err(failed))).await.is_err() {
            return;
        }
        sleep(RECONNECT).await;
    }
}
