//! Enumerations that the database has as letters and the API as words.

/// Declares one, with its letters.
macro_rules! letters {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $letter:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            pub(crate) fn letter(self) -> &'static str {
                match self { $($name::$variant => $letter),* }
            }

            pub(crate) fn of(letter: &str) -> Option<$name> {
                match letter { $($letter => Some($name::$variant),)* _ => None }
            }
        }
    };
}

pub(crate) use letters;
