//! `false-fence`: a producer was told that a newer one with its transactional id fences it, and there never was one
//! (KIP-588): what moved the epoch on was the transaction timeout.

use crate::zombie::Grant;
use std::fmt;

/// A producer was told that there is a newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Which incarnation was told.
    pub producer: String,
    /// Its producer id, which is its transactional id's.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// When, on the clock of the grants.
    pub told_ns: u64,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fence { producer, producer_id, epoch, told_ns } = self;
        write!(
            f,
            "{producer} (producer id {producer_id}, epoch {epoch}) was told at {told_ns} ns that a newer producer fences \
             it, and none was ever initialised"
        )
    }
}

/// Every such fence without a newer producer. `grants`: what every `InitProducerId` handed out, whenever that was.
pub fn find(fences: &[Fence], grants: &[Grant]) -> Vec<Fence> {
    let newer = |fence: &Fence| {
        grants.iter().any(|grant| grant.producer_id == fence.producer_id && grant.epoch > fence.epoch)
    };
    fences.iter().filter(|fence| !newer(fence)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(producer_id: i64, epoch: i16) -> Fence {
        Fence { producer: "p".into(), producer_id, epoch, told_ns: 50 }
    }

    #[test]
    fn a_fence_needs_a_newer_producer_of_the_same_id() {
        let grant = |producer_id, epoch| Grant { producer_id, epoch, at_ns: 60 };
        let own = grant(7, 1);
        assert_eq!(find(&[fence(7, 1)], &[own]), [fence(7, 1)]);
        assert_eq!(find(&[fence(7, 1)], &[own, grant(8, 2)]), [fence(7, 1)], "another id's");
        // An agent may tell late of what it did.
        assert_eq!(find(&[fence(7, 1)], &[own, grant(7, 2)]), []);
    }
}
