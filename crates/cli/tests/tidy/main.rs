//! The house rules, as tests.
//!
//! A rule that only a reviewer remembers is broken by the first change nobody reviews with it in mind. Each module here is one
//! rule: a pure function from files to offences, the test that runs it over this repository and names every offence with
//! its place and what to do about it, and tests on made-up files that prove the rule can fail.

mod arrows;
mod columns;
mod commands;
mod deploy;
mod documented;
mod glossary;
mod length;
mod litter;
mod markdown;
mod names;
mod repository;
mod rooms;
mod sql;
mod tested;
