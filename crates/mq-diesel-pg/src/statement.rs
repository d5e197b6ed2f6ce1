//! The one shape in which SQL is sent: a fixed text and its values.
//!
//! Diesel prepares `sql_query`, updates and inserts of several rows anew each
//! time. A [`Statement`] is prepared once per connection, whatever its values
//! are: batches travel as arrays that the text takes apart with `unnest`.

use std::collections::HashMap;
use std::sync::Arc;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::pg::data_types::PgTimestamp;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{
    Array, BigInt, Bool, Integer, Nullable, Text, Timestamptz as TimestampTz, Untyped,
};
use mq_core::Timestamp;
use parking_lot::RwLock;

/// The texts of a store's statements, with its Postgres schema in them.
///
/// A template names tables as `$mq_job`, `$mq_ready` and so on.
#[derive(Debug)]
pub(crate) struct Texts {
    /// What the mark before a name becomes: the quoted schema and a dot.
    prefix: String,
    rendered: RwLock<HashMap<&'static str, Arc<str>>>,
}

impl Texts {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            prefix: format!("\"{schema}\".mq_"),
            rendered: RwLock::default(),
        }
    }

    /// The text of a template; rendered the first time it is asked for.
    pub(crate) fn text(&self, template: &'static str) -> Arc<str> {
        if let Some(text) = self.rendered.read().get(template) {
            return Arc::clone(text);
        }
        let text: Arc<str> = template.replace("$mq_", &self.prefix).into();
        Arc::clone(self.rendered.write().entry(template).or_insert(text))
    }
}

/// A statement with its values, `$1` first.
#[derive(Debug)]
pub(crate) struct Statement<'a> {
    text: Arc<str>,
    binds: Vec<Bind<'a>>,
}

/// A value of a statement.
#[derive(Debug)]
pub(crate) enum Bind<'a> {
    Flag(bool),
    Number(Option<i64>),
    Numbers(Vec<Option<i64>>),
    Small(Vec<i32>),
    Text(Option<&'a str>),
    Texts(Vec<&'a str>),
    MaybeTexts(Vec<Option<&'a str>>),
    AnyTexts(Option<Vec<&'a str>>),
    Instant(Option<PgTimestamp>),
    Instants(Vec<Option<PgTimestamp>>),
}

impl<'a> Statement<'a> {
    pub(crate) fn new(text: Arc<str>) -> Self {
        Self {
            text,
            binds: Vec::new(),
        }
    }

    /// Adds the next value.
    pub(crate) fn bind(mut self, value: impl Into<Bind<'a>>) -> Self {
        self.binds.push(value.into());
        self
    }
}

/// An instant as Postgres counts it: in microseconds from the year 2000.
pub(crate) fn to_pg(instant: Timestamp) -> PgTimestamp {
    let millis = i64::try_from(instant.as_millis()).unwrap_or(i64::MAX);
    PgTimestamp((millis - YEAR_2000).saturating_mul(1_000))
}

/// The instant that Postgres counts so, rounded down to milliseconds.
pub(crate) fn from_pg(instant: PgTimestamp) -> Timestamp {
    let millis = instant.0.div_euclid(1_000).saturating_add(YEAR_2000);
    Timestamp::saturating_from_millis(u64::try_from(millis).unwrap_or(0))
}

const YEAR_2000: i64 = 946_684_800_000;

macro_rules! binds {
    ($($type:ty => $variant:ident($value:ident) $with:expr;)*) => {$(
        impl<'a> From<$type> for Bind<'a> {
            fn from($value: $type) -> Self {
                Self::$variant($with)
            }
        }
    )*};
}

binds! {
    bool => Flag(value) value;
    i64 => Number(value) Some(value);
    Option<i64> => Number(value) value;
    u32 => Number(value) Some(i64::from(value));
    Vec<i64> => Numbers(value) value.into_iter().map(Some).collect();
    Vec<Option<i64>> => Numbers(value) value;
    Vec<i32> => Small(value) value;
    &'a str => Text(value) Some(value);
    Option<&'a str> => Text(value) value;
    Vec<&'a str> => Texts(value) value;
    Vec<Option<&'a str>> => MaybeTexts(value) value;
    Option<Vec<&'a str>> => AnyTexts(value) value;
    Timestamp => Instant(value) Some(to_pg(value));
    Option<Timestamp> => Instant(value) value.map(to_pg);
    Vec<Option<Timestamp>> => Instants(value)
        value.into_iter().map(|instant| instant.map(to_pg)).collect();
}

impl Query for Statement<'_> {
    type SqlType = Untyped;
}

impl QueryId for Statement<'_> {
    type QueryId = ();
    // Prepared statements are kept by their text: one type serves all of them.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl QueryFragment<Pg> for Statement<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(&self.text);
        // Diesel writes a placeholder with each value it takes. The text has
        // its own, in any order and more than once, so these go to a comment.
        out.push_sql("\n-- ");
        for bind in &self.binds {
            match bind {
                Bind::Flag(value) => out.push_bind_param::<Bool, _>(value)?,
                Bind::Number(value) => out.push_bind_param::<Nullable<BigInt>, _>(value)?,
                Bind::Numbers(value) => out.push_bind_param::<Array<Nullable<BigInt>>, _>(value)?,
                Bind::Small(value) => out.push_bind_param::<Array<Integer>, _>(value)?,
                Bind::Text(value) => out.push_bind_param::<Nullable<Text>, _>(value)?,
                Bind::Texts(value) => out.push_bind_param::<Array<Text>, _>(value)?,
                Bind::MaybeTexts(value) => {
                    out.push_bind_param::<Array<Nullable<Text>>, _>(value)?
                }
                Bind::AnyTexts(value) => out.push_bind_param::<Nullable<Array<Text>>, _>(value)?,
                Bind::Instant(value) => out.push_bind_param::<Nullable<TimestampTz>, _>(value)?,
                Bind::Instants(value) => {
                    out.push_bind_param::<Array<Nullable<TimestampTz>>, _>(value)?;
                }
            }
        }
        Ok(())
    }
}

/// The first of the common table expressions of nearly every statement: the
/// store's time, as `(SELECT now FROM clock)`. `$1` is the manual clock's, if
/// there is one. As a scalar subquery it can bound an index scan, which a call
/// of `clock_timestamp` cannot.
macro_rules! clock {
    () => {
        "clock AS MATERIALIZED (
            SELECT coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())) AS now
        )"
    };
}
pub(crate) use clock;

/// An instant so many milliseconds (a `bigint`) after another, but not after
/// the end of time. Seconds and the rest apart, or the product is not exact.
macro_rules! after {
    ($instant:literal, $millis:literal) => {
        concat!(
            "least(",
            $instant,
            " + (",
            $millis,
            ") / 1000 * interval '1 second' + (",
            $millis,
            ") % 1000 * interval '1 millisecond', '9999-12-31 23:59:59.999Z'::timestamptz)"
        )
    };
}
pub(crate) use after;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_template_is_rendered_with_the_schema() {
        let texts = Texts::new("billing");
        assert_eq!(
            &*texts.text("SELECT $1 FROM $mq_job"),
            "SELECT $1 FROM \"billing\".mq_job"
        );
    }

    #[test]
    fn instants_survive_the_way_to_postgres_and_back() {
        let noon = Timestamp::MIN.saturating_add(Duration::from_millis(43_200_001));
        for instant in [Timestamp::MIN, noon, Timestamp::MAX] {
            assert_eq!(from_pg(to_pg(instant)), instant);
        }
    }
}
