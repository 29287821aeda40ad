//! A graceful end: a process is asked to stop, notices, and returns.

use std::sync::OnceLock;
use tokio::sync::Notify;

/// Through which one process hears that it is to stop. Every start has a door of its own.
#[derive(Default)]
pub(crate) struct Door {
    /// The fault that asked.
    asked: OnceLock<u32>,
    told: Notify,
}

impl Door {
    /// Asks on behalf of `fault`. Who asked first counts.
    pub(crate) fn ask(&self, fault: u32) {
        self.asked.get_or_init(|| fault);
        self.told.notify_waiters();
    }

    /// Whether somebody has asked.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.get().is_some()
    }

    /// Waits until somebody asks; the fault that did.
    pub(crate) async fn asked(&self) -> u32 {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if let Some(fault) = self.asked.get() {
                return *fault;
            }
            told.await;
        }
    }
}
