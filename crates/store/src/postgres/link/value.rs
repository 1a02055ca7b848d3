//! Values for the parameters of statements.

use std::fmt;

use tokio_postgres::types::{ToSql, Type};

/// A value that knows which PostgreSQL type it is.
///
/// Every parameter's type is said, never inferred, so that one statement means the same prepared or not.
pub(in crate::postgres) struct Value {
    pub(super) of: Type,
    pub(super) is: Box<dyn ToSql + Send + Sync>,
}

/// Only the type: the value may be somebody's.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.of, f)
    }
}

macro_rules! values {
    ($($rust:ty => $one:ident, $many:ident;)+) => {$(
        values!(@ $rust => $one, |value| value);
        values!(@ Option<$rust> => $one, |value| value);
        values!(@ Vec<$rust> => $many, |value| value);
        values!(@ Vec<Option<$rust>> => $many, |value| value);
    )+};
    (borrowed: $($rust:ty => $one:ident, $many:ident;)+) => {$(
        values!(@ &$rust => $one, |value| value.to_owned());
        values!(@ Option<&$rust> => $one, |value| value.map(ToOwned::to_owned));
        values!(@ Vec<&$rust> => $many, |value| value.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>());
    )+};
    (@ $rust:ty => $type:ident, |$value:ident| $owned:expr) => {
        impl From<$rust> for Value {
            fn from($value: $rust) -> Value {
                Value { of: Type::$type, is: Box::new($owned) }
            }
        }
    };
}

values! {
    i64 => INT8, INT8_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i16 => INT2, INT2_ARRAY;
    bool => BOOL, BOOL_ARRAY;
    String => TEXT, TEXT_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
}
values! { borrowed:
    str => TEXT, TEXT_ARRAY;
    [u8] => BYTEA, BYTEA_ARRAY;
}
