//! A drive with zones in every timing mode: actions on zones take effect in order with the data commands that touch their
//! zone, however many are under way, and what a zone refuses fails for the standard's reason.

use std::sync::mpsc::channel;

use crate::common::number;
use crate::media::fault::Random;
use crate::media::ram::RamStore;
use skylight_disk::{Pba, Sectors};
use skylight_image::{Image, Options};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel};
use skylight_layer::{ZonedLayer, ZonedSpec};
use skylight_serve::core::planted_bugs::Planted;
use skylight_serve::core::{Command, Completion, Failure, Job, Op, Outcome, ZoneAction};

use crate::Timing;
use crate::host::Target;
use crate::targets::AnyTarget;

const ZONES: u64 = 8;
const ZONE_SECTORS: u64 = 64;
const BYTES: u64 = 512;
/// Drives of each timing mode.
const DRIVES: u64 = 12;

/// What a command has to give.
#[derive(Clone, Debug)]
enum Due {
    Done,
    /// A read of these bytes.
    Bytes(Vec<u8>),
    /// A failure for this reason.
    Refused(Failure),
}

pub fn image(write_cache: bool) -> Image {
    let (sectors, zone) = (Sectors(ZONES * ZONE_SECTORS), Sectors(ZONE_SECTORS));
    let mut layout = ZoneLayout::new(ZoneModel::HostManaged, sectors, zone);
    layout.unrestricted_reads = true;
    let layer = Box::new(ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None }));
    let options = Options { write_cache, log_bytes: Some(16_384), ..Options::default() };
    let store = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
    Image::create_on(Box::new(store), layer, "", &options).expect("memory")
}

/// One zone's commands, of which each needs those before it: what they are, and what they give.
fn commands_of(zone: u64, random: &mut Random) -> Vec<(Command, Vec<u8>, Due)> {
    let start = zone * ZONE_SECTORS * BYTES;
    let (first, second) = (1 + random.below(20), 1 + random.below(20));
    let data = |value: u64, sectors: u64| vec![value as u8; (sectors * BYTES) as usize];
    let write = |at: u64, value: u64, sectors: u64, due: Due| {
        (Command::of_bytes(Op::Write, start + at * BYTES, sectors * BYTES), data(value, sectors), due)
    };
    let read = |sectors: u64, bytes: Vec<u8>| {
        let command = Command::of_bytes(Op::Read, start, sectors * BYTES);
        (command, data(0, sectors), Due::Bytes(bytes))
    };
    let act = |op: Op, due: Due| (Command::of_bytes(op, start, ZONE_SECTORS * BYTES), Vec::new(), due);
    let zeroes = |at: u64, sectors: u64| {
        (Command::of_bytes(Op::WriteZeroes, start + at * BYTES, sectors * BYTES), Vec::new(), Due::Done)
    };
    let both = [data(1, first), data(2, second)].concat();
    // Longer than a part in which zeroes are written.
    let long = 33 + random.below(9);
    let behind = [data(0, long), data(5, first), data(0, 2), data(6, 1)].concat();
    let wrong = Command::of_bytes(Op::Zone(ZoneAction::Reset), start + BYTES, BYTES);
    vec![
        // The writes wait for it, the first because it overlaps, the others because they are of one zone.
        read(1, data(0, 1)),
        write(0, 1, first, Due::Done),
        write(first + 1, 9, 1, Due::Refused(Failure::UnalignedWrite)),
        write(first, 2, second, Due::Done),
        read(first + second, both.clone()),
        act(Op::Zone(ZoneAction::Finish), Due::Done),
        write(first + second, 3, 1, Due::Refused(Failure::InvalidField)),
        read(first + second, both),
        (wrong, Vec::new(), Due::Refused(Failure::InvalidField)),
        act(Op::Zone(ZoneAction::Reset), Due::Done),
        read(first + second, data(0, first + second)),
        act(Op::Zone(ZoneAction::Open), Due::Done),
        write(0, 4, second, Due::Done),
        act(Op::Zone(ZoneAction::Close), Due::Done),
        read(second + 1, [data(4, second), data(0, 1)].concat()),
        act(Op::Zone(ZoneAction::Reset), Due::Done),
        zeroes(0, long),
        write(long, 5, first, Due::Done),
        zeroes(long + first, 2),
        write(long + first + 2, 6, 1, Due::Done),
        read(long + first + 3, behind),
    ]
}

/// Submits all commands of all zones, each zone's in their order, and compares what they give.
fn live(timing: Timing, write_cache: bool, seed: u64, planted: Option<Planted>) -> Result<(), String> {
    let mut random = Random(seed);
    let mut target = AnyTarget::new(image(write_cache), timing, write_cache, &mut random, seed);
    if let (Some(planted), Some(model)) = (planted, target.model()) {
        model.drive().plant(planted);
    }
    let mut zones: Vec<_> = (0..ZONES).map(|zone| commands_of(zone, &mut random).into_iter()).collect();
    let (sender, results) = channel();
    let mut outstanding = 0;
    while !zones.is_empty() {
        let chosen = random.below(zones.len() as u64) as usize;
        let Some((command, data, due)) = zones[chosen].next() else {
            zones.swap_remove(chosen);
            continue;
        };
        let sender = sender.clone();
        let answer = move |completion: Completion| {
            // A test that has failed does not listen any more.
            let _ = sender.send((command, due, completion));
        };
        target.submit(Job::new(command, data, Box::new(answer)));
        outstanding += 1;
        if random.below(24) == 0 {
            target.pass(&mut random);
        }
    }
    while outstanding > 0 {
        match results.try_recv() {
            Ok((command, due, completion)) => {
                check(&due, &completion).map_err(|why| format!("{command:?}: {why}"))?;
                outstanding -= 1;
            }
            Err(_) => target.pass(&mut random),
        }
    }
    target.close()
}

fn check(due: &Due, Completion { outcome, data, .. }: &Completion) -> Result<(), String> {
    let right = match due {
        Due::Done => *outcome == Outcome::Done,
        Due::Bytes(bytes) => *outcome == Outcome::Done && data == bytes,
        Due::Refused(reason) => *outcome == Outcome::Failed(*reason),
    };
    if right { Ok(()) } else { Err(format!("{outcome:?}, {data:?}; due is {due:?}")) }
}

fn lives(timing: Timing) {
    let seed = number("PROPTEST_RNG_SEED", 1);
    for number in 0..DRIVES {
        let write_cache = number % 2 == 0;
        println!("{timing:?}, write cache {write_cache}, seed {}", seed.wrapping_add(number));
        live(timing, write_cache, seed.wrapping_add(number), None).unwrap_or_else(|why| panic!("{why}"));
    }
}

in_every_timing!(lives);

#[test]
fn actions_out_of_order_are_noticed() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let planted = Some(Planted::Drive(skylight_drive::drive::Planted::NoConflicts));
    let noticed = (0..DRIVES)
        .find_map(|number| live(Timing::Model, number % 2 == 0, seed.wrapping_add(number), planted).err());
    assert!(noticed.is_some(), "commands that do not wait for each other go unnoticed");
}
