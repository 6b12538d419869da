//! Forms of values that many routes take, as the document describes them.
//!
//! A document that allows what the server refuses is of no use to whoever generates requests from it. So what is checked in one place is described in one place, with the same limits.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::name::LENGTH_MAX;

/// A form, its name in the document, and its schema.
macro_rules! form {
    ($(#[$about:meta])* $form:ident, $schema:expr) => {
        $(#[$about])*
        pub(crate) struct $form;

        impl PartialSchema for $form {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema.build()))
            }
        }

        impl ToSchema for $form {
            fn name() -> Cow<'static, str> {
                stringify!($form).into()
            }
        }
    };
}

form! {
    /// The name of a queue, a partition, a consumer group; a transaction id.
    Name, text("Any text, but for the character NUL").min_length(Some(1)).max_length(Some(LENGTH_MAX)).pattern(Some(r"^[^\u0000]*$"))
}
form! {
    /// The id of a partition.
    Id, text("A UUID").format(Some(SchemaFormat::Custom("uuid".into())))
}
form! {
    /// A time.
    Time, text("RFC 3339; without an offset it is UTC, and a day will do").format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}
form! {
    /// What is said of a message.
    Verdict, text("`completed` or `success`, `failed`, `dlq`, or `retry`, which charges nothing")
        .enum_values(Some(["completed", "success", "failed", "dlq", "retry"]))
}
form! {
    /// How far a message has come, as a filter.
    Stage, text("How far a message has come").enum_values(Some(["all", "pending", "processing", "completed", "dlq", "dead_letter"]))
}

form! {
    /// What is either said or left away.
    Yes, ObjectBuilder::new().schema_type(SchemaType::new(Type::Boolean)).enum_values(Some([true]))
}

fn text(about: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).description(Some(about))
}
