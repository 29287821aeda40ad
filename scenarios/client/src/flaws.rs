//! Which real client is modelled, what it speaks, and what it gets wrong.
//!
//! A variant is a named bundle of settings. Each flaw is read at one place.

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
    /// A producer without transactions that takes a new epoch by itself (KIP-360) sends batches again under it that may
    /// have been appended under the old one: they may be there twice. Without it they fail, their outcome unknown.
    pub resend_under_new_epoch: bool,
    /// A group member that gets a partition back goes on where it stood when it gave it up, instead of at the committed
    /// offset. Read in `group::Member::give_up_locked`.
    pub resume_from_memory: bool,
}

/// How a client behaves, apart from its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The highest level of the feature `transaction.version` that it knows: 1 for the first transaction protocol (TV1),
    /// 2 for the second (TV2, KIP-890 part 2), which it speaks with brokers that have finalized it.
    pub transaction_version: i16,
    /// What it gets wrong.
    pub flaws: Flaws,
}

/// A named bundle of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// Java 3.8, which speaks the first transaction protocol (TV1) with any broker.
    #[serde(rename = "java-3.8")]
    Java38,
    /// Java 3.8 without its flaws: the idealised client.
    #[serde(rename = "strict")]
    Strict,
    /// Java 4, which speaks TV2 with a broker that does, and nothing wrong with it beside that: its application takes a
    /// fence after a re-sent `EndTxn` for an unknown outcome, though the exception does not say so.
    #[serde(rename = "java-4")]
    Java4,
}

impl Variant {
    /// How this client behaves.
    pub fn model(self) -> Model {
        let none = Flaws::default();
        match self {
            Variant::Java38 => Model {
                transaction_version: 1,
                flaws: Flaws {
                    reuse_epoch_after_resend: true,
                    fenced_after_resend_is_failed: true,
                    resend_under_new_epoch: true,
                    ..none
                },
            },
            Variant::Strict => Model { transaction_version: 1, flaws: none },
            Variant::Java4 => {
                Model { transaction_version: 2, flaws: Flaws { reuse_epoch_after_resend: true, ..none } }
            }
        }
    }
}
