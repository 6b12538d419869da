//! duroxide's own validation of providers: every function a test, with long polling and without.

use crate::fixture::Factory;

durable_memory::validations!(long_polling, long, Factory::new(true));
durable_memory::validations!(short_polling, short, Factory::new(false));
