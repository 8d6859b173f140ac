//! What the conditions of a measurement put out of reach.
//!
//! As without conditions, out of reach means that no commands tell drives apart that differ in the property, not that a
//! suite cannot. So most conditions put nothing out of reach: a coarse clock, gaps of the host, other clients and slow
//! links are averaged away, look-ahead is avoided by reading backwards, idle time or rewriting brings a drive that
//! cannot be erased to a known state, and what a switch misreports a FLUSH reveals.
//!
//! Invariant: one row of [`RULES`] for each condition and set of findings, with the reason in words; the same rows are
//! in `docs/conditions.md`.

use super::finding::TrueFinding;
use crate::profile::{Conditions, Erase, Layer, MAX_QUEUE_DEPTH, PriorUse, Profile, VolatileCache};

/// The size of the smallest writes.
const BLOCK: u64 = 4096;

/// A condition that puts findings out of reach, with the reason.
struct Rule {
    findings: &'static [&'static str],
    holds: fn(&Conditions, &Profile) -> bool,
    reason: &'static str,
}

/// See the module documentation.
const RULES: &[Rule] = &[
    Rule {
        findings: &[
            "journal_quantum_bytes",
            "journal_entry_max_bytes",
            "out_of_band_ns",
            "map_merge_every",
            "map_merge_ns",
            "cache_raw_bytes",
            "non_sequential_cache_bytes",
        ],
        holds: |conditions, profile| {
            conditions.volatile_cache == VolatileCache::IgnoresFlush && has_journal(&profile.layer)
        },
        reason: "writes leave a volatile cache that ignores FLUSH in entries of which the host sees neither the writes \
                 nor the time",
    },
    Rule {
        findings: &["track_bytes", "plateaus"],
        holds: |conditions, profile| {
            conditions.erase == Erase::None
                && conditions.prior_use != PriorUse::New
                && matches!(profile.layer, Layer::FullyAssociative(_))
        },
        reason: "earlier writes have moved the data of a drive with dynamic mapping, and it cannot be erased",
    },
];

/// Whether writes go to a journal, of which the host sees each entry that a lone write takes.
fn has_journal(layer: &Layer) -> bool {
    match layer {
        Layer::Journaled(_) => true,
        Layer::Zoned(keys) => keys.host_aware.is_some(),
        _ => false,
    }
}

/// How many commands a host can have wait in the drive: what the link lets through, or what a volatile cache that stays
/// on collects.
pub(super) fn depth(conditions: &Conditions) -> u32 {
    match conditions.volatile_cache.fixed() {
        Some(true) => MAX_QUEUE_DEPTH,
        Some(false) | None => conditions.queue_depth,
    }
}

/// How many writes can share an entry of a journal: those that wait together in the drive, or, of a host-aware one, those
/// that leave its volatile cache together.
pub(super) fn sharing(conditions: &Conditions, profile: &Profile) -> u64 {
    if !matches!(profile.layer, Layer::Zoned(_)) {
        return profile.interface.queue_depth.min(depth(conditions)).into();
    }
    let bytes = match conditions.volatile_cache.fixed() {
        Some(true) => conditions.volatile_cache_size,
        Some(false) => return 1,
        None => profile.interface.write_cache,
    };
    let runs = profile.interface.write_cache_runs.map_or(u64::MAX, u64::from);
    (bytes.get() / BLOCK).min(runs)
}

/// Marks the findings that the conditions put out of reach.
pub(super) fn apply(conditions: &Conditions, profile: &Profile, findings: &mut [TrueFinding]) {
    for rule in RULES.iter().filter(|rule| (rule.holds)(conditions, profile)) {
        for finding in findings.iter_mut().filter(|finding| rule.findings.contains(&finding.name)) {
            if finding.measurable {
                finding.measurable = false;
                rule.reason.clone_into(&mut finding.why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Duration;
    use crate::random::{Kind, random_drive};
    use crate::truth::{Truth, Value};

    fn out_of_reach(kind: Kind, conditions: &Conditions) -> Vec<&'static str> {
        let profile = random_drive(5, Some(kind)).unwrap().profile;
        let reached = |truth: Truth| truth.findings.into_iter().filter(|each| each.measurable);
        let ideal: Vec<_> =
            reached(Truth::under(&profile, &Conditions::default()).unwrap()).map(|each| each.name).collect();
        let here: Vec<_> =
            reached(Truth::under(&profile, conditions).unwrap()).map(|each| each.name).collect();
        ideal.into_iter().filter(|name| !here.contains(name)).collect()
    }

    #[test]
    fn a_cache_that_ignores_flush_hides_the_journal() {
        let lost = |volatile_cache| {
            out_of_reach(Kind::Journaled, &Conditions { volatile_cache, ..Conditions::default() })
        };
        assert!(lost(VolatileCache::IgnoresFlush).contains(&"journal_quantum_bytes"));
        assert_eq!(lost(VolatileCache::SaidOff), Vec::<&str>::new());
        let ignores = Conditions { volatile_cache: VolatileCache::IgnoresFlush, ..Conditions::default() };
        let lost = out_of_reach(Kind::HostAware, &ignores);
        assert!(
            ["journal_entry_max_bytes", "non_sequential_cache_bytes"].iter().all(|name| lost.contains(name))
        );
    }

    #[test]
    fn used_drives_that_cannot_be_erased_hide_what_moved() {
        let lost = |erase| {
            let used = Conditions { erase, prior_use: PriorUse::WholeDrive, ..Conditions::default() };
            out_of_reach(Kind::FullyAssociative, &used)
        };
        assert!(lost(Erase::None).contains(&"track_bytes"));
        assert_eq!(lost(Erase::Trim), Vec::<&str>::new());
    }

    /// What a half-written band takes, and one with a written block, ns.
    fn bands(profile: &Profile, conditions: &Conditions) -> [u64; 2] {
        let findings = Truth::under(profile, conditions).unwrap().findings;
        let value = findings.into_iter().find(|each| each.name == "cleaning_band_ns").unwrap().value;
        let Value::Table(rows) = value else { panic!("{value:?}") };
        ["half", "one_block"].map(|name| rows.iter().find(|row| row.0 == name).unwrap().1)
    }

    #[test]
    fn over_a_slow_link_few_writes_leave_a_cache_together() {
        // Entries of 916 KiB with 1.4 MiB of out-of-band data, so that the extents of a band lie far apart.
        let profile = random_drive(99_377, None).unwrap().profile;
        let on = |ms: f64| Conditions {
            volatile_cache: VolatileCache::On,
            queue_depth: 1,
            transport: Duration::from_ns(ms * 1e6),
            ..Conditions::default()
        };
        let [ideal, one] = bands(&profile, &Conditions::default());
        let ([quick, quick_one], [slow, slow_one]) = (bands(&profile, &on(0.0)), bands(&profile, &on(1.4)));
        assert!(slow * 100 > ideal * 125, "{slow} for {ideal}");
        assert!(quick.abs_diff(ideal) * 10 < ideal, "{quick} for {ideal}");
        assert!([quick_one, slow_one].iter().all(|ns| ns.abs_diff(one) * 20 < one));
    }

    #[test]
    fn ideal_conditions_change_nothing() {
        for kind in Kind::ALL {
            assert_eq!(out_of_reach(kind, &Conditions::default()), Vec::<&str>::new(), "{}", kind.name());
        }
    }

    #[test]
    fn every_rule_names_findings_that_exist_and_is_documented() {
        let page = include_str!("../../../../docs/conditions.md");
        let findings = |kind| {
            let profile = random_drive(5, Some(kind)).unwrap().profile;
            Truth::under(&profile, &Conditions::default()).unwrap().findings
        };
        let names: Vec<_> =
            [Kind::Journaled, Kind::HostAware].into_iter().flat_map(findings).map(|each| each.name).collect();
        for rule in RULES {
            for name in rule.findings {
                assert!(names.contains(name) || *name == "plateaus", "{name}");
                assert!(page.contains(&format!("`{name}`")), "{name}");
            }
            assert!(page.contains(rule.reason), "{}", rule.reason);
        }
    }
}
