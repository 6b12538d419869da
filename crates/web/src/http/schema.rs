//! Schemas of values that many routes accept.
//!
//! A document that allows what the server rejects misleads clients that are generated from it. So each value has one
//! schema, with the limits that the server checks.

use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};

/// Defines a type with the given name and schema in the document.
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
    /// A UUID.
    Id, text("A UUID").format(Some(SchemaFormat::Custom("uuid".into())))
}
schema! {
    /// A timestamp or a date.
    Time, text("RFC 3339. Without an offset: UTC. A date alone means its midnight")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}
schema! {
    /// `true`, the only allowed value of an optional field.
    True, ObjectBuilder::new().schema_type(SchemaType::new(Type::Boolean)).enum_values(Some([true]))
}

/// A string schema with a description.
pub fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).description(Some(description))
}
