//! What is typed.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::Sender;

use super::Signal;

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    /// The tab of this number, from 0.
    Tab(usize),
    NextTab,
    PreviousTab,
    Up(usize),
    Down(usize),
    Top,
    Reload,
    /// The size of the terminal has changed, or a key has no meaning: draw again.
    Redraw,
}

/// The lines of a page.
const PAGE: usize = 10;

/// Sends keys until the view ends. Reading blocks, so it is a thread of its own; it ends with the process.
pub(super) fn read(signals: Sender<Signal>) {
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let key = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => meaning(key),
                _ => Key::Redraw,
            };
            if signals.blocking_send(Signal::Key(key)).is_err() {
                break;
            }
        }
    });
}

fn meaning(key: KeyEvent) -> Key {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char(number @ '1'..='9') => Key::Tab(number as usize - '1' as usize),
        KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => Key::NextTab,
        KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => Key::PreviousTab,
        KeyCode::Up | KeyCode::Char('k') => Key::Up(1),
        KeyCode::Down | KeyCode::Char('j') => Key::Down(1),
        KeyCode::PageUp => Key::Up(PAGE),
        KeyCode::PageDown | KeyCode::Char(' ') => Key::Down(PAGE),
        KeyCode::Home | KeyCode::Char('g') => Key::Top,
        KeyCode::Char('r') => Key::Reload,
        _ => Key::Redraw,
    }
}
