//! What is on the screen: the state, and how it is drawn.

use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style as Look},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    keys::Key,
    tab::{Content, Tab},
};
use crate::{
    commands::changes::Change,
    terminal::{Style, printable},
};

/// The state of the view.
pub(super) struct State {
    server: String,
    pub(super) tab: Tab,
    /// What was read of each tab.
    contents: [Option<Content>; Tab::ALL.len()],
    /// Whether each tab may have changed since.
    stale: [bool; Tab::ALL.len()],
    /// Why signals of the server do not arrive; `None`: they do.
    disconnected: Option<String>,
    /// Why the last reading failed.
    failed: Option<String>,
    /// How many rows are above the screen.
    scrolled: usize,
}

impl State {
    pub(super) fn new(server: String) -> State {
        State {
            server,
            tab: Tab::Overview,
            contents: Default::default(),
            stale: [true; Tab::ALL.len()],
            disconnected: Some("connecting".to_owned()),
            failed: None,
            scrolled: 0,
        }
    }

    /// Whether the visible tab should be read.
    pub(super) fn is_stale(&self) -> bool {
        self.stale[self.tab as usize]
    }

    pub(super) fn press(&mut self, key: Key) {
        let count = Tab::ALL.len();
        let tab = match key {
            Key::Tab(number) => Tab::ALL.get(number).copied().unwrap_or(self.tab),
            Key::NextTab => Tab::ALL[(self.tab as usize + 1) % count],
            Key::PreviousTab => Tab::ALL[(self.tab as usize + count - 1) % count],
            _ => self.tab,
        };
        if tab != self.tab {
            (self.tab, self.scrolled) = (tab, 0);
        }
        match key {
            Key::Up(rows) => self.scrolled = self.scrolled.saturating_sub(rows),
            // Limited by what there is when it is drawn.
            Key::Down(rows) => self.scrolled = self.scrolled.saturating_add(rows),
            Key::Top => self.scrolled = 0,
            Key::Reload => self.stale[self.tab as usize] = true,
            _ => {}
        }
    }

    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Connected => self.disconnected = None,
            Change::Lost(why) => self.disconnected = Some(why),
            Change::Of(products) => {
                for (tab, stale) in Tab::ALL.iter().zip(&mut self.stale) {
                    *stale |= products.is_empty() || products.iter().any(|product| tab.shows(product));
                }
            }
        }
    }

    pub(super) fn loaded(&mut self, tab: Tab, content: Result<Content, String>) {
        self.stale[tab as usize] = false;
        match content {
            Ok(content) => {
                self.contents[tab as usize] = Some(content);
                self.failed = None;
            }
            Err(error) => self.failed = Some(error),
        }
    }
}

/// Draws the state.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let areas =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]);
    let [head, tabs, body, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(headline(state)), head);
    frame.render_widget(Paragraph::new(titles(state.tab)), tabs);
    let lines = lines(state, usize::from(body.width));
    let room = usize::from(body.height).saturating_sub(1);
    let rows = lines.len().saturating_sub(1);
    state.scrolled = state.scrolled.min(rows.saturating_sub(room));
    // The headings stay.
    let shown: Vec<Line<'_>> =
        lines.iter().take(1).chain(lines.iter().skip(1 + state.scrolled).take(room)).cloned().collect();
    frame.render_widget(Paragraph::new(shown), body);
    frame.render_widget(Paragraph::new(footer(state, rows, room)), foot);
}

fn headline(state: &State) -> Line<'static> {
    let connection = match &state.disconnected {
        None => Span::styled("● live", look(Style::Good)),
        Some(why) => Span::styled(format!("○ {}", printable(why)), look(Style::Bad)),
    };
    Line::from(vec![
        Span::styled("reveille top  ", look(Style::Bold)),
        Span::raw(format!("{}  ", printable(&state.server))),
        connection,
    ])
}

fn titles(open: Tab) -> Line<'static> {
    let title = |(number, tab): (usize, &Tab)| {
        let style = if *tab == open { Look::new().add_modifier(Modifier::REVERSED) } else { Look::new() };
        [Span::styled(format!(" {} {} ", number + 1, tab.title()), style), Span::raw(" ")]
    };
    Line::from(Tab::ALL.iter().enumerate().flat_map(title).collect::<Vec<_>>())
}

fn lines(state: &State, columns: usize) -> Vec<Line<'static>> {
    let Some(content) = &state.contents[state.tab as usize] else { return vec![Line::from("reading …")] };
    let table = match state.tab.table(content) {
        Ok(table) => table,
        Err(error) => return vec![Line::styled(error.to_string(), look(Style::Bad))],
    };
    if table.is_empty() {
        return vec![Line::styled("nothing here yet", look(Style::Dim))];
    }
    let span = |(text, style): (String, Style)| Span::styled(text, look(style));
    table.lines(Some(columns)).into_iter().map(|cells| cells.into_iter().map(span).collect::<Line<'_>>()).collect()
}

fn footer(state: &State, rows: usize, room: usize) -> Line<'static> {
    if let Some(failed) = &state.failed {
        return Line::styled(printable(failed).into_owned(), look(Style::Bad));
    }
    let more = if rows > room { format!("{} of {rows}  ", (state.scrolled + room).min(rows)) } else { String::new() };
    Line::styled(format!("{more}1-5 tabs  j k scroll  r read  q end"), look(Style::Dim))
}

fn look(style: Style) -> Look {
    match style {
        Style::Plain => Look::new(),
        Style::Bold => Look::new().add_modifier(Modifier::BOLD),
        Style::Dim => Look::new().add_modifier(Modifier::DIM),
        Style::Good => Look::new().fg(Color::Green),
        Style::Busy => Look::new().fg(Color::Yellow),
        Style::Bad => Look::new().fg(Color::Red),
    }
}
