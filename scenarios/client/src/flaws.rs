//! Which real client is modelled, what it speaks, and what it gets wrong.
//!
//! A variant is a named bundle of settings. Each flaw, and each setting of a model, is read at one place.

use rt::time::Instant;
use serde::{Deserialize, Serialize};
use std::ops::BitOr;
use std::time::Duration;

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
    /// have been appended under the old one: they may be there twice, as with Java 3.8 and 4.4 and with franz-go
    /// (docs/open-questions.md). Without it they fail, their outcome unknown.
    pub resend_under_new_epoch: bool,
    /// A group member that gets a partition back goes on where it stood when it gave it up, instead of at the committed
    /// offset. Read in `group::Member::give_up_locked`.
    pub resume_from_memory: bool,
    /// `close` waits for what is under way however long that takes, whatever its timeout says: over a connection that is
    /// dead it does not come back (KAFKA-17734). Consumers and members.
    pub close_hangs: bool,
    /// After a `Produce` of unknown outcome the producer neither takes a new epoch nor gives the sequence back: if the
    /// batch arrives in a later transaction, its sequence is the one expected, and it becomes a part of that. Java does so when its
    /// application aborts before the record's callbacks have returned (docs/open-questions.md).
    pub keep_epoch_after_unknown_produce: bool,
    /// A new epoch that turns out to be needed while the transaction is already being aborted is never asked for, and the
    /// producer waits for it for ever: it can begin nothing more. Java's `completeTransaction` goes to `INITIALIZING` with
    /// no `InitProducerId` queued (kafka.md 5.6; shown with 3.8.0 and 4.4.0 over the first protocol, docs/open-questions.md).
    pub forget_bump_while_aborting: bool,
}

impl Flaws {
    /// Until when a close that may take `timeout` goes on; `None` for as long as it takes.
    pub(crate) fn close_deadline(&self, timeout: Duration) -> Option<Instant> {
        (!self.close_hangs).then(|| Instant::now() + timeout)
    }
}

impl BitOr for Flaws {
    type Output = Flaws;

    /// Everything that either gets wrong.
    fn bitor(self, other: Flaws) -> Flaws {
        Flaws {
            reuse_epoch_after_resend: self.reuse_epoch_after_resend | other.reuse_epoch_after_resend,
            fenced_after_resend_is_failed: self.fenced_after_resend_is_failed
                | other.fenced_after_resend_is_failed,
            resend_under_new_epoch: self.resend_under_new_epoch | other.resend_under_new_epoch,
            resume_from_memory: self.resume_from_memory | other.resume_from_memory,
            close_hangs: self.close_hangs | other.close_hangs,
            keep_epoch_after_unknown_produce: self.keep_epoch_after_unknown_produce
                | other.keep_epoch_after_unknown_produce,
            forget_bump_while_aborting: self.forget_bump_while_aborting | other.forget_bump_while_aborting,
        }
    }
}

/// What becomes of a transactional request that was not answered, or was refused in a way worth another try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Persistence {
    /// It is sent again until it is answered; only the application's wait ends, after `max.block.ms`, and calling again
    /// goes on with the same request. Java.
    #[default]
    Endless,
    /// It is sent again, the same bytes, within limits; then, or when `max.block.ms` is over, it is given up, and the
    /// application is told so. franz-go (`kgo.RequestRetries`, `kgo.RetryTimeout`); there the application's wait is the
    /// context of the call.
    Limited {
        /// Attempts beyond the first; 0 for a client whose transport repeats nothing.
        retries: u32,
        /// No attempt begins later than this after the first.
        timeout_ms: u64,
        /// What an `EndTxn` given up leaves behind.
        unconfirmed_end: UnconfirmedEnd,
    },
}

/// What a client does after an `EndTxn` of unknown outcome: no answer, or `UNKNOWN_SERVER_ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnconfirmedEnd {
    /// It takes the transaction for over and its producer id for good: the next transaction has the same epoch, and to
    /// end once more does nothing and succeeds. franz-go 1.18.
    Forget,
    /// It takes a new epoch by `InitProducerId(producer id, epoch)` before anything else, which aborts what may still be
    /// open: `abort_transaction` does that and sends no `EndTxn`; `commit_transaction` is refused. franz-go since July
    /// 2026 (its commit 6ecd2f9f).
    Reload,
}

/// How a client behaves, apart from its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The highest level of the feature `transaction.version` that it knows: 1 for the first transaction protocol (TV1),
    /// 2 for the second (TV2, KIP-890 part 2), which it speaks with brokers that have finalized it.
    pub transaction_version: i16,
    /// What it does about transactional requests without an answer.
    #[serde(default)]
    pub persistence: Persistence,
    /// It says in a tagged field which of its transactions a request is of: a modified client, for brokers that read that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers_transactions: bool,
    /// What it gets wrong.
    pub flaws: Flaws,
}

impl Model {
    /// The same client, which also gets `flaws` wrong.
    pub fn with(self, flaws: Flaws) -> Self {
        Model { flaws: self.flaws | flaws, ..self }
    }
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
    /// Java 4, which speaks TV2 with a broker that does; over the first protocol it is stuck as 3.8 is. Its application takes
    /// a fence after a re-sent `EndTxn` for an unknown outcome, though the exception does not say so.
    #[serde(rename = "java-4")]
    Java4,
    /// franz-go 1.18 (2024), which speaks TV1. Its transport repeats every request; after an `EndTxn` of unknown outcome it
    /// goes on as if nothing had happened.
    #[serde(rename = "franz-go-1.18")]
    FranzGo118,
    /// franz-go from 1.21.4 on (2026), which speaks TV2 with a broker that does. Its transport repeats every request; after
    /// an `EndTxn` of unknown outcome it takes a new epoch.
    #[serde(rename = "franz-go-1.21.4")]
    FranzGo1214,
    /// A client of TV2 that gets nothing wrong beside it: what the second protocol promises by itself. As Java 4, but that a producer
    /// without transactions does not send batches again under a new epoch, and none is stuck.
    #[serde(rename = "tv2")]
    Tv2,
    /// Java 3.8, modified: its requests say which of its transactions they are of.
    #[serde(rename = "numbered")]
    Numbered,
}

impl Variant {
    /// How this client behaves.
    pub fn model(self) -> Model {
        let none = Flaws::default();
        let resends = Flaws {
            reuse_epoch_after_resend: true,
            fenced_after_resend_is_failed: true,
            resend_under_new_epoch: true,
            ..none
        };
        // `kgo`'s defaults: 20 tries in all, begun within 30 s.
        let franz_go =
            |unconfirmed_end| Persistence::Limited { retries: 19, timeout_ms: 30_000, unconfirmed_end };
        let (transaction_version, persistence, flaws) = match self {
            Variant::Java38 | Variant::Numbered => {
                (1, Persistence::Endless, Flaws { forget_bump_while_aborting: true, ..resends })
            }
            Variant::Strict => (1, Persistence::Endless, none),
            Variant::Java4 => {
                let flaws = Flaws {
                    fenced_after_resend_is_failed: false,
                    forget_bump_while_aborting: true,
                    ..resends
                };
                (2, Persistence::Endless, flaws)
            }
            Variant::Tv2 => (2, Persistence::Endless, Flaws { reuse_epoch_after_resend: true, ..none }),
            Variant::FranzGo118 => (1, franz_go(UnconfirmedEnd::Forget), resends),
            Variant::FranzGo1214 => (2, franz_go(UnconfirmedEnd::Reload), resends),
        };
        let numbers_transactions = self == Variant::Numbered;
        Model { transaction_version, persistence, numbers_transactions, flaws }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_with_more_flaws_keeps_its_own() {
        let planted = Flaws { keep_epoch_after_unknown_produce: true, ..Flaws::default() };
        let model = Variant::Java38.model().with(planted);
        assert_eq!(
            model.flaws,
            Flaws { keep_epoch_after_unknown_produce: true, ..Variant::Java38.model().flaws }
        );
        assert!(model.flaws.reuse_epoch_after_resend);
        let all = Flaws {
            resume_from_memory: true,
            close_hangs: true,
            forget_bump_while_aborting: true,
            resend_under_new_epoch: true,
            reuse_epoch_after_resend: true,
            fenced_after_resend_is_failed: true,
            keep_epoch_after_unknown_produce: true,
        };
        assert_eq!((Flaws::default() | all, all | Flaws::default()), (all, all));
    }

    /// 7.1: what tells the franz-go variants apart from Java's, and from each other.
    #[test]
    fn franz_go_repeats_within_limits() {
        let end = |variant: Variant| match variant.model().persistence {
            Persistence::Limited { retries: 19, timeout_ms: 30_000, unconfirmed_end } => {
                Some(unconfirmed_end)
            }
            _ => None,
        };
        assert_eq!(end(Variant::FranzGo118), Some(UnconfirmedEnd::Forget));
        assert_eq!(end(Variant::FranzGo1214), Some(UnconfirmedEnd::Reload));
        assert_eq!([Variant::Java38, Variant::Java4, Variant::Strict].map(end), [None; 3]);
    }
}
