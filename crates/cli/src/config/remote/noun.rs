//! The commands that speak to a running server, by their noun.

use clap::{Args, Subcommand};

use super::{Remote, dlq, group, namespace, queue, schedule, task, template, token, top, worker};

/// The commands of a noun, with the flags that all of them have.
#[derive(Debug, Args)]
pub struct Of<C: Subcommand> {
    /// The server.
    #[command(flatten)]
    pub remote: Remote,
    /// What to do.
    #[command(subcommand)]
    pub command: C,
}

/// What a command is about.
#[derive(Debug, Subcommand)]
pub enum Noun {
    /// Queues of a running server, and their messages
    Queue(Of<queue::Command>),
    /// Dead letters: messages that consumers have given up
    Dlq(Of<dlq::Command>),
    /// Consumer groups, and how far they have read
    Group(Of<group::Command>),
    /// Templates of task graphs
    Template(Of<template::Command>),
    /// Tasks of task graphs
    Task(Of<task::Command>),
    /// Tasks that are submitted at certain times
    Schedule(Of<schedule::Command>),
    /// Namespaces of task graphs, their settings and limits
    Namespace(Of<namespace::Command>),
    /// Tokens of clients, and what they may do
    Token(Of<token::Command>),
    /// Show what the client of this command may do
    #[command(after_help = token::WHOAMI_EXAMPLES)]
    Whoami(token::Whoami),
    /// Workers of task graphs
    Worker(Of<worker::Command>),
    /// Watch a running server: queues, consumer groups, tasks, and why nothing is being asked
    #[command(after_help = top::EXAMPLES)]
    Top(top::Top),
}
