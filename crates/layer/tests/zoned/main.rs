//! The state machine of zones against an independent one ([`model`]) that follows the tables of the standard ([`tables`]).
//!
//! `SKYLIGHT_OPERATIONS` random commands (10,000,000 if it is not set), half to host-managed drives and half to
//! host-aware ones; `PROPTEST_RNG_SEED` is their seed. A failure names the drive, the command and what the standard has.

#[path = "../common/mod.rs"]
mod common;
mod layer_and_model;
mod mistakes;
mod model;
mod tables;

use common::operation_count::{LONG, half};
use layer_and_model::Pair;
use mistakes::Mistake;
use model::Shape;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use skylight_disk::{Pba, Sectors};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel as DriveModel};
use skylight_layer::{Op, ZoneAction, ZonedLayer, ZonedSpec};
use tables::Tables;

/// Operations if `SKYLIGHT_OPERATIONS` is not set: 0.3 us each.
const OPERATIONS: u64 = 10_000_000;
/// Drives in which a mistake has to be seen: in one of them.
const DRIVES: u64 = 100;

/// Small drives of every kind.
fn any_shape(model: DriveModel) -> impl Strategy<Value = Shape> {
    let sizes = (3u64..14, 4u64..64, 0.3..1.0f64, any::<bool>(), 0u64..4, 0.0..1.0f64);
    let limits = (proptest::option::of(1u64..6), proptest::option::of(0u64..4), any::<bool>());
    (sizes, limits).prop_map(move |(sizes, (max_open, more_active, unrestricted_reads))| {
        let (zones, zone_sectors, share, whole, conventional, cut) = sizes;
        let writable = ((zone_sectors as f64 * share) as u64).max(1);
        // The last zone may be short, as on drives whose capacity is no whole number of zones.
        let last = if whole { zone_sectors } else { 1 + (zone_sectors as f64 * cut) as u64 };
        let max_active = more_active.map(|more| max_open.unwrap_or(2) + more);
        let preferred = model == DriveModel::HostAware;
        Shape {
            model,
            capacity: (zones - 1) * zone_sectors + last.min(zone_sectors),
            zone_sectors,
            writable_sectors: if whole || preferred { zone_sectors } else { writable },
            conventional: conventional.min(zones - 1),
            max_open,
            max_active: max_active.filter(|_| !preferred),
            unrestricted_reads: unrestricted_reads || preferred,
        }
    })
}

fn layer(shape: Shape) -> ZonedLayer {
    let mut layout = ZoneLayout::new(shape.model, Sectors(shape.capacity), Sectors(shape.zone_sectors));
    layout.capacity = Sectors(shape.writable_sectors);
    layout.conventional = shape.conventional as u32;
    layout.max_open = shape.max_open.map(|most| most as u32);
    layout.max_active = shape.max_active.map(|most| most as u32);
    layout.unrestricted_reads = shape.unrestricted_reads;
    ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None })
}

fn follow(name: &str, model: DriveModel) {
    half(
        OPERATIONS,
        name,
        "against the standard's tables",
        &(any_shape(model), any::<u64>()),
        |(shape, seed)| {
            let mut pair = Pair::new(layer(shape), shape, Tables::standard(), seed);
            pair.run(LONG).unwrap_or_else(|why| panic!("{shape:?}, seed {seed}: {why}"))
        },
    );
}

#[test]
fn host_managed_zones_are_those_of_the_standard() {
    follow("zoned, host-managed", DriveModel::HostManaged);
}

#[test]
fn host_aware_zones_are_those_of_the_standard() {
    follow("zoned, host-aware", DriveModel::HostAware);
}

/// Every command both fails and succeeds often, or the random commands miss what they are for.
#[test]
fn every_command_fails_and_succeeds() {
    let mut runner = TestRunner::deterministic();
    let (mut failed, mut done) = ([0; Op::COUNT], [0; Op::COUNT]);
    for seed in 0..20 {
        let shape = any_shape(DriveModel::HostManaged).new_tree(&mut runner).expect("a shape").current();
        let mut pair = Pair::new(layer(shape), shape, Tables::standard(), seed);
        pair.run(LONG).unwrap_or_else(|why| panic!("{shape:?}, seed {seed}: {why}"));
        for op in 0..Op::COUNT {
            failed[op] += pair.failed[op];
            done[op] += pair.done[op];
        }
    }
    for op in [
        Op::Read,
        Op::Write,
        Op::Append,
        Op::Zone(ZoneAction::Open),
        Op::Zone(ZoneAction::Close),
        Op::Zone(ZoneAction::Finish),
        Op::Zone(ZoneAction::Reset),
    ] {
        let (failed, done) = (failed[op.index()], done[op.index()]);
        println!("{op}: {done} done, {failed} failed");
        assert!(failed > 1_000 && done > 1_000, "{op}: {done} done, {failed} failed");
    }
}

/// Each entry of the tables, and each rule, made wrong on one side: the two have to part.
#[test]
fn every_mistake_is_seen() {
    let mut unseen = Vec::new();
    for mistake in Mistake::all() {
        let mut runner = TestRunner::deterministic();
        let seen = (0..DRIVES).find_map(|seed| {
            let shape = any_shape(DriveModel::HostManaged).new_tree(&mut runner).expect("a shape").current();
            let (believed, tables) = mistake.make(shape)?;
            Pair::new(layer(shape), believed, tables, seed).run(LONG).err()
        });
        match seen {
            Some(why) => println!("{mistake:?}: {why}"),
            None => unseen.push(mistake),
        }
    }
    assert!(unseen.is_empty(), "{unseen:?} go unseen");
}
