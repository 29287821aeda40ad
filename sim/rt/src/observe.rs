//! The observation door: what a program tells whoever is watching.
//!
//! Events say what happened ([`event!`](crate::event)). Marks are claims about reachability ([`mark!`](crate::mark)).
//! Intent says which transaction a record is meant for, which no wire format carries and a white-box oracle needs. In
//! the tank they go to the trace; on the real host to `tracing`. Nothing is built when nobody listens.

use crate::host;

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An unsigned number.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Str(&'a str),
    /// Raw bytes.
    Bytes(&'a [u8]),
}

macro_rules! value_from {
    ($variant:ident as $wide:ty: $($narrow:ty),*) => {
        $(impl From<$narrow> for Value<'_> {
            fn from(value: $narrow) -> Self {
                Value::$variant(value as $wide)
            }
        })*
    };
}
value_from!(U64 as u64: u8, u16, u32, u64, usize);
value_from!(I64 as i64: i8, i16, i32, i64);

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Str(value)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Value::Str(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Value::Bytes(value)
    }
}

/// What kind of thing was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something happened.
    Event,
    /// A record is meant for a transaction.
    Intent,
    /// A claim that must hold every time it is reached; the flag says whether it did.
    Always(bool),
    /// A claim that must hold at least once in a set of runs; the flag says whether it did here.
    Sometimes(bool),
    /// A place that must be reached at least once in a set of runs.
    Reachable,
}

/// One observation.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What kind of thing it is.
    pub kind: Kind,
    /// A stable name, such as `"txn.prepare"`.
    pub name: &'static str,
    /// Named values, in the order given.
    pub fields: &'a [(&'static str, Value<'a>)],
}

/// Whether somebody listens on this thread.
pub fn listens() -> bool {
    host::current().listens()
}

/// Passes `event` to the listener.
pub fn observe(event: &Event<'_>) {
    host::current().observe(event);
}

/// Says that the record `value` of `partition` (`topic-partition`) is meant for transaction number `transaction` of
/// `producer`. Told by the client that begins the transaction; the wire does not carry it.
pub fn intent(producer: &str, transaction: u64, partition: &str, value: &[u8]) {
    if listens() {
        let fields = [
            ("producer", Value::Str(producer)),
            ("transaction", Value::U64(transaction)),
            ("partition", Value::Str(partition)),
            ("value", Value::Bytes(value)),
        ];
        observe(&Event { kind: Kind::Intent, name: "intent", fields: &fields });
    }
}

/// Says what happened: `event!("txn.prepare", id = &id, epoch = epoch)`. Fields are evaluated only if somebody listens.
#[macro_export]
macro_rules! event {
    ($name:expr $(, $field:ident = $value:expr)* $(,)?) => {
        if $crate::observe::listens() {
            $crate::observe::observe(&$crate::observe::Event {
                kind: $crate::observe::Kind::Event,
                name: $name,
                fields: &[$((stringify!($field), $crate::observe::Value::from($value))),*],
            });
        }
    };
}

/// Claims about a run: `mark!(always, "lso <= high watermark", lso <= hw)`, `mark!(sometimes, "a commit was retried",
/// attempt > 0)`, `mark!(reachable, "a lease was lost")`. `always` fails the run when false; the others are counted
/// over a set of runs, and one that never held means that the runs did not exercise what they claim.
#[macro_export]
macro_rules! mark {
    (always, $name:expr, $held:expr) => {
        $crate::mark!(@ $name, $crate::observe::Kind::Always($held))
    };
    (sometimes, $name:expr, $held:expr) => {
        $crate::mark!(@ $name, $crate::observe::Kind::Sometimes($held))
    };
    (reachable, $name:expr) => {
        $crate::mark!(@ $name, $crate::observe::Kind::Reachable)
    };
    (@ $name:expr, $kind:expr) => {
        if $crate::observe::listens() {
            $crate::observe::observe(&$crate::observe::Event { kind: $kind, name: $name, fields: &[] });
        }
    };
}
