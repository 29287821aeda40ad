//! Packages by the names that Jepsen's command line has for faults.
//!
//! A name without a role means every role; `partition` never within roles that have one node, but it also cuts agents off
//! from both dependencies. `membership` is ours.

use super::package::Package;
use sim::node::Role;

/// Every name.
pub(crate) const FLAGS: [&str; 17] = [
    "kill",
    "kill-bufstream",
    "kill-storage",
    "kill-coordination",
    "pause",
    "pause-bufstream",
    "pause-storage",
    "pause-coordination",
    "partition",
    "partition-bufstream",
    "partition-bufstream-coordination",
    "partition-bufstream-storage",
    "clock",
    "clock-bufstream",
    "clock-storage",
    "clock-coordination",
    "membership",
];

/// What Jepsen's `test-all` runs, one after the other.
pub(crate) const MIXES: [&[&str]; 7] = [
    &[],
    &["partition"],
    &["kill"],
    &["pause"],
    &["clock"],
    &["kill-bufstream", "pause-bufstream", "clock-bufstream", "partition"],
    &["partition", "pause", "kill", "clock"],
];

/// Jepsen's names of the roles, in the order of their packages.
const ROLES: [(Role, &str); 3] =
    [(Role::Agent, "bufstream"), (Role::Storage, "storage"), (Role::Coordinator, "coordination")];

/// The packages that `flags` name.
///
/// # Errors
/// The flag that is none, and those that are.
pub(crate) fn packages(flags: &[&str]) -> Result<Vec<Package>, String> {
    if let Some(unknown) = flags.iter().find(|flag| !FLAGS.contains(flag)) {
        return Err(format!("no fault is called {unknown}: use {}", FLAGS.join(", ")));
    }
    let has = |flag: &str| flags.contains(&flag);
    let at = |what: &str, role: &str| has(what) || has(&format!("{what}-{role}"));
    let mut packages = Vec::new();
    for (role, name) in ROLES {
        let (kill, pause) = (at("kill", name), at("pause", name));
        if kill || pause {
            packages.push(Package::Processes { role, kill, pause });
        }
        if role == Role::Agent && at("partition", name) {
            packages.push(Package::Partition);
        }
        if at("clock", name) {
            packages.push(Package::Clock { role });
        }
    }
    let (coordinator, storage) =
        (at("partition", "bufstream-coordination"), at("partition", "bufstream-storage"));
    if coordinator || storage {
        packages.push(Package::Dependencies { coordinator, storage });
    }
    if has("membership") {
        packages.push(Package::Membership);
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESSES_OF_AGENTS: Package = Package::Processes { role: Role::Agent, kill: true, pause: false };

    #[test]
    fn a_flag_means_every_role_or_the_one_it_names() {
        let role_of = |package: &Package| package.role();
        let kill: Vec<Role> = packages(&["kill"]).unwrap().iter().map(role_of).collect();
        assert_eq!(kill, [Role::Agent, Role::Storage, Role::Coordinator]);
        assert_eq!(packages(&["kill-bufstream"]), Ok(vec![PROCESSES_OF_AGENTS]));
        let both = Package::Processes { role: Role::Storage, kill: true, pause: true };
        assert_eq!(packages(&["pause-storage", "kill-storage"]), Ok(vec![both]));
        assert_eq!(packages(&["clock-coordination"]), Ok(vec![Package::Clock { role: Role::Coordinator }]));
        assert_eq!(packages(&["membership"]), Ok(vec![Package::Membership]));
    }

    #[test]
    fn a_plain_partition_also_cuts_off_both_dependencies() {
        let of = |coordinator, storage| Package::Dependencies { coordinator, storage };
        assert_eq!(packages(&["partition"]), Ok(vec![Package::Partition, of(true, true)]));
        assert_eq!(packages(&["partition-bufstream"]), Ok(vec![Package::Partition]));
        assert_eq!(packages(&["partition-bufstream-storage"]), Ok(vec![of(false, true)]));
        assert_eq!(packages(&["partition-bufstream-coordination"]), Ok(vec![of(true, false)]));
    }

    #[test]
    fn mixes_have_the_packages_that_jepsen_gives_them() {
        let sizes: Vec<usize> = MIXES.iter().map(|mix| packages(mix).unwrap().len()).collect();
        assert_eq!(sizes, [0, 2, 3, 3, 3, 4, 8]);
        let problem = packages(&["kil"]).unwrap_err();
        assert!(problem.starts_with("no fault is called kil: use kill, kill-bufstream,"), "{problem}");
        for flag in FLAGS {
            assert_ne!(packages(&[flag]), Ok(Vec::new()), "{flag}");
        }
    }
}
