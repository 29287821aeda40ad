//! Which real client is modelled, and what that client gets wrong.
//!
//! A variant is a named bundle of flaws. Each flaw is read at one place.

use serde::{Deserialize, Serialize};

/// What a client gets wrong. All off is the strict client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flaws {
    /// The next transaction uses the same producer epoch although a request of this one was sent more than once, or
    /// the outcome of a `Produce` is unknown: an old copy that arrives later is taken for a part of the new
    /// transaction (KAFKA-17754). Without it the epoch is bumped first, by `InitProducerId(producer id, epoch)`.
    pub reuse_epoch_after_resend: bool,
    /// An `EndTxn` that was sent more than once and is then refused is reported as failed, although an earlier copy
    /// may have been executed. Without it the outcome is reported as unknown.
    pub fenced_after_resend_is_failed: bool,
}

/// A named bundle of flaws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// Java 3.8, which speaks the first transaction protocol (TV1) with any broker.
    #[serde(rename = "java-3.8")]
    Java38,
    /// Java 3.8 without its flaws: the idealised client.
    #[serde(rename = "strict")]
    Strict,
}

impl Variant {
    /// What this client gets wrong.
    pub fn flaws(self) -> Flaws {
        match self {
            Variant::Java38 => Flaws { reuse_epoch_after_resend: true, fenced_after_resend_is_failed: true },
            Variant::Strict => Flaws::default(),
        }
    }
}
