//! The fully-associative layer: random commands against a shadow ([`shadow`]), and the plans of known ones
//! ([`plans`]).

#[path = "../common/mod.rs"]
mod common;
mod plans;
mod shadow;

use common::bugs::{self, Bug};
use common::host::Sizes;
use common::layer_and_shadow::Pair;
use common::operation_count::{LONG, cases, half_share};
use proptest::prelude::*;
use shadow::Logs;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, Sectors};
use skylight_layer::{FullyAssociative, FullyAssociativeSpec, Purpose};

/// The logical bands of a drive: each zone begins with one, and may end with a short one.
fn bands(spec: &FullyAssociativeSpec) -> Vec<LbaExtent> {
    let (capacity, band, zone) = (spec.capacity.get(), spec.band.get(), spec.zone.get());
    let (mut bands, mut at) = (Vec::new(), 0);
    while at < capacity {
        let end =
            (at / zone * zone + (at % zone / band + 1) * band).min((at / zone + 1) * zone).min(capacity);
        bands.push(LbaExtent::new(Lba(at), Sectors(end - at)));
        at = end;
    }
    bands
}

fn pair(spec: FullyAssociativeSpec, seed: u64, deepest: u64) -> Pair<Logs> {
    let layer = FullyAssociative::new(spec);
    let shadow = Logs::new(&layer, spec);
    let sizes = Sizes { capacity: spec.capacity.get(), bands: bands(&spec), unit: spec.band.get() };
    Pair::new(layer, shadow, sizes, seed, deepest)
}

/// Small drives of every kind: bands of whole blocks or not, zones of whole bands or not, short last ones, one
/// log a zone or many.
fn any_spec() -> impl Strategy<Value = FullyAssociativeSpec> {
    let sizes = (1u64..150, 1u64..16, 1u64..5, 0.0..1.0f64, any::<bool>(), any::<bool>());
    let free = (2u32..8).prop_flat_map(|free| (Just(free), 1..free));
    (sizes, free, any::<bool>(), 0u64..50).prop_map(|(sizes, (free_bands, clean_threshold), idle, start)| {
        let (band, bands, zones, cut, blocks, whole) = sizes;
        let band = if blocks { band.next_multiple_of(8) } else { band };
        let part = |all: u64| (all as f64 * cut) as u64;
        let zone = bands * band - if whole { 0 } else { part(band) };
        FullyAssociativeSpec {
            capacity: Sectors((zones * zone - part(zone)).max(1)),
            band: Sectors(band),
            zone: Sectors(zone),
            free_bands,
            clean_threshold,
            idle_after: idle.then_some(Nanos(1)),
            start: Pba(start),
        }
    })
}

proptest! {
    #![proptest_config(cases(600))]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(
        spec in any_spec(),
        seed in any::<u64>(),
        deepest in 1u64..8,
        operations in 1u64..1_500,
    ) {
        pair(spec, seed, deepest).run(operations);
    }
}

#[test]
fn lone_commands_keep_every_write() {
    half_share("fully_associative", "lone commands", &(any_spec(), any::<u64>()), |(spec, seed)| {
        pair(spec, seed, 1).run(LONG)
    });
}

#[test]
fn deep_queues_keep_every_write() {
    half_share("fully_associative", "deep queues", &(any_spec(), any::<u64>()), |(spec, seed)| {
        pair(spec, seed, 40).run(LONG)
    });
}

#[test]
fn planted_bugs_are_seen() {
    let bugs = [
        Bug::OffByOneBand(Direction::Write, Purpose::Cache),
        Bug::OffByOneBand(Direction::Write, Purpose::Host),
        Bug::OffByOneBand(Direction::Write, Purpose::CleanWrite),
        Bug::OffByOneBand(Direction::Read, Purpose::CleanRead),
        Bug::OffByOneBand(Direction::Read, Purpose::Cache),
        Bug::LostException,
        Bug::DroppedStage(Direction::Read, Purpose::CleanRead),
        Bug::DroppedStage(Direction::Write, Purpose::CleanWrite),
        Bug::DroppedStage(Direction::Write, Purpose::Cache),
        Bug::DroppedStage(Direction::Write, Purpose::Host),
        Bug::DroppedCommit,
        Bug::CommitOffByABlock,
        Bug::AnsweredOnly,
    ];
    bugs::all_are_seen(&bugs, 64, |seed| {
        let lazy = seed % 2 == 0;
        let spec = FullyAssociativeSpec { idle_after: (!lazy).then_some(Nanos(1)), ..plans::small() };
        pair(spec, seed, 1 + seed % 32)
    });
}

/// Many small exceptions: their map has inner nodes, and cleaning empties it from the middle.
#[test]
fn large_zones_keep_every_write() {
    for (seed, depth) in [(1, 1), (2, 1), (3, 4)] {
        let spec = FullyAssociativeSpec {
            capacity: Sectors(2 * 150 * 1024 - 5),
            band: Sectors(1024),
            zone: Sectors(150 * 1024),
            free_bands: 100,
            clean_threshold: 1,
            idle_after: if seed == 2 { Some(Nanos(1)) } else { None },
            start: Pba(77),
        };
        pair(spec, seed, depth).run(60_000);
    }
}
