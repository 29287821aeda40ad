//! Builds of Bufstream, by the defects that Jepsen's report says they had (jepsen.md E).
//!
//! All of them speak the old transaction protocol, as agents do by default, so that finding 9 is in all of them with a client
//! that it takes. Of what 0.1.3 does against that, a logical clock, nothing is modelled; finding 15 is of no build, since the
//! report does not say when it ended.

use crate::finding::{self, Class, Finding};

/// One build.
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// The findings whose defects it had, by number.
    pub findings: &'static [u32],
}

/// All builds, the oldest first. The report has the end of finding 1 at rc.6 and at rc.8: here it is rc.6.
pub fn presets() -> &'static [Preset] {
    &[
        Preset { name: "bufstream-0.1.0", findings: &[1, 2, 3] },
        Preset { name: "bufstream-0.1.2", findings: &[1, 2, 3, 4] },
        Preset { name: "bufstream-0.1.3-rc.2", findings: &[1, 2, 3] },
        Preset { name: "bufstream-0.1.3-rc.6", findings: &[2] },
        Preset { name: "bufstream-0.1.3-rc.8", findings: &[2, 5] },
        Preset { name: "bufstream-0.1.3-rc.12", findings: &[] },
        Preset { name: "bufstream-0.1.3", findings: &[] },
    ]
}

impl Preset {
    /// The switches that plant its defects.
    pub fn switches(&self) -> Vec<&'static str> {
        self.findings.iter().filter_map(|id| switch(finding::find(*id)?)).collect()
    }
}

/// The switch that plants a finding, if one does.
fn switch(finding: &Finding) -> Option<&'static str> {
    match finding.class {
        Class::Defect { switch } => Some(switch),
        Class::Protocol | Class::Configuration => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_finding_of_a_build_is_a_defect_that_a_switch_plants() {
        let mut names = BTreeSet::new();
        for preset in presets() {
            assert!(names.insert(preset.name));
            assert_eq!(preset.switches().len(), preset.findings.len(), "{}", preset.name);
        }
    }
}
