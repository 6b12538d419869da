//! `reveille top`: a live view of a running server.
//!
//! The server sends a signal when something has changed, and only then the visible tab is read again, at most once a
//! second. So a view of an idle server causes no statement in its database.

mod keys;
mod overview;
mod tab;
mod view;

use std::time::Duration;

use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use self::{
    keys::Key,
    tab::{Content, Tab},
    view::{State, draw},
};
use super::{
    changes::{self, Change},
    remote::Remote,
};
use crate::error::Error;

/// The shortest time between two readings of a tab.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How often the ages on the screen are counted on, without a request.
const REDRAW_EVERY: Duration = Duration::from_secs(1);
/// Signals that wait for the screen: a person types slower, and the server sends one a second.
const SIGNALS: usize = 64;

/// What the view reacts to.
enum Signal {
    Key(Key),
    /// A tab was read.
    Loaded(Tab, Result<Content, String>),
}

/// Runs until `q`.
pub(super) async fn run(remote: Remote) -> Result<(), Error> {
    if remote.screen.is_json() || remote.screen.width().is_none() {
        let what = "`reveille top` needs a terminal; for programs there are the list commands with --json";
        return Err(Error::Input { what: what.into() });
    }
    // An error of the address or the token is printed on the ordinary screen.
    let first = tab::read(&remote.client, Tab::Overview).await?;
    let (sender, receiver) = mpsc::channel(SIGNALS);
    let _ = sender.try_send(Signal::Loaded(Tab::Overview, Ok(first)));
    let (changes, changed) = mpsc::channel(SIGNALS);
    tokio::spawn(changes::follow(remote.client.clone(), changes));
    let mut terminal = ratatui::try_init()?;
    keys::read(sender.clone());
    let ended = show(&remote, &mut terminal, sender, receiver, changed).await;
    ratatui::restore();
    ended
}

async fn show(
    remote: &Remote,
    terminal: &mut ratatui::DefaultTerminal,
    sender: Sender<Signal>,
    mut receiver: Receiver<Signal>,
    mut changed: Receiver<Change>,
) -> Result<(), Error> {
    let mut state = State::new(remote.client.address().to_string());
    let mut redraw = interval(REDRAW_EVERY);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut is_reading, mut next_read) = (false, Instant::now());
    loop {
        terminal.draw(|frame| draw(frame, &mut state))?;
        if state.is_stale() && !is_reading {
            is_reading = true;
            let (client, sender, tab, at) = (remote.client.clone(), sender.clone(), state.tab, next_read);
            // The screen stays usable while a server takes its time.
            tokio::spawn(async move {
                sleep_until(at).await;
                let content = tab::read(&client, tab).await.map_err(|error| crate::error::explain(&error));
                let _ = sender.send(Signal::Loaded(tab, content)).await;
            });
        }
        let signal = tokio::select! {
            signal = receiver.recv() => signal,
            Some(change) = changed.recv() => {
                state.change(change);
                continue;
            }
            _ = redraw.tick() => continue,
        };
        match signal {
            None | Some(Signal::Key(Key::Quit)) => return Ok(()),
            Some(Signal::Key(key)) => {
                let before = state.tab;
                state.press(key);
                if state.tab != before {
                    next_read = Instant::now();
                }
            }
            Some(Signal::Loaded(tab, content)) => {
                (is_reading, next_read) = (false, Instant::now() + READ_EVERY);
                state.loaded(tab, content);
            }
        }
    }
}
