//! Forms of values that many routes take, as the document describes them.
//!
//! A document that allows what the server refuses is of no use to whoever generates requests from it. So what is checked in one place is described in one place, with the same limits.

use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};

/// A form, its name in the document, and its schema.
#[macro_export]
macro_rules! schema {
    ($(#[$about:meta])* $name:ident, $schema:expr) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name;

        impl $crate::described::PartialSchema for $name {
            fn schema() -> $crate::described::RefOr<$crate::described::Schema> {
                $crate::described::RefOr::T($crate::described::Schema::Object($schema.build()))
            }
        }

        impl $crate::described::ToSchema for $name {
            fn name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
        }
    };
}

schema! {
    /// The id of something.
    Id, text("A UUID").format(Some(SchemaFormat::Custom("uuid".into())))
}
schema! {
    /// A time.
    Time, text("RFC 3339; without an offset it is UTC, and a day will do").format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}
schema! {
    /// What is either said or left away.
    True, ObjectBuilder::new().schema_type(SchemaType::new(Type::Boolean)).enum_values(Some([true]))
}

/// Text, and what is said about it.
pub fn text(about: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).description(Some(about))
}
