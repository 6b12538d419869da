//! duroxide's own validation of providers: every function a test, with long polling and without.

use crate::fixture::Factory;

reveille_durable_memory::validations!(long_polling, long, Factory::new(true));
reveille_durable_memory::validations!(short_polling, short, Factory::new(false));
