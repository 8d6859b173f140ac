//! Drives that are not cut: every read gives what was asked before it.

use crate::media::fault::Random;
use crate::media::ram::RamStore;
use skylight_image::{Image, Options};

use crate::Timing;
use crate::common::number;
use crate::drives::{DRIVES, Drive, SECTORS};
use crate::host::{Host, Mood, Target};
use crate::shadow::Shadow;
use crate::targets::{AnyTarget, Model};

/// Commands between two looks at the whole drive.
const STRETCH: u64 = 400;
/// Stretches that one drive lives.
const STRETCHES: u64 = 25;

/// Of an image whose log is soon full.
pub fn options(write_cache: bool, every_access: bool, checksums: bool) -> Options {
    let (log_bytes, piece) = (Some(8192), Some(3));
    Options { write_cache, log_bytes, piece, every_access, checksums, ..Options::default() }
}

pub fn image(drive: Drive, write_cache: bool, every_access: bool, checksums: bool) -> Image {
    let layer = (drive.layer)();
    let options = options(write_cache, every_access, checksums);
    let store = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
    Image::create_on(Box::new(store), layer, "", &options).expect("memory")
}

fn stretches(
    host: &mut Host,
    target: &mut impl Target,
    random: &mut Random,
    count: u64,
) -> Result<(), String> {
    let mut left = count;
    while left > 0 {
        let mood = Mood::draw(random);
        let here = left.min(STRETCH);
        host.work(target, random, here, mood).map_err(|why| format!("{mood:?}: {why}"))?;
        host.look_at_all(target, random).map_err(|why| format!("{mood:?}, looked at whole: {why}"))?;
        left -= here;
    }
    Ok(())
}

/// One drive's life of at most so many commands; how many there were.
pub fn live(
    drive: Drive,
    timing: Timing,
    write_cache: bool,
    seed: u64,
    most: u64,
    plant: impl FnOnce(&mut Model),
) -> Result<u64, String> {
    let mut random = Random(seed);
    let count = most.min(STRETCH * STRETCHES);
    let every_access = timing == Timing::Native && random.below(2) == 0;
    let image = image(drive, write_cache, every_access, random.below(2) == 0);
    let mut host = Host::new(Shadow::new(SECTORS, write_cache));
    let mut target = AnyTarget::new(image, timing, write_cache, &mut random, seed);
    let interface = target.interface();
    target.model().map(plant);
    stretches(&mut host, &mut target, &mut random, count).and_then(|()| target.close()).map_err(|why| {
        format!("{}, {timing:?}, write cache {write_cache}, seed {seed}: {interface:?}: {why}", drive.name)
    })?;
    assert!(host.reads > count / 8, "hardly anything was read");
    Ok(count)
}

fn lives(timing: Timing) {
    let seed = number("PROPTEST_RNG_SEED", 1);
    // Model time has the most places where commands wait.
    let share = if timing == Timing::Model { 2 } else { 4 };
    let each = number("SKYLIGHT_SERVED_OPERATIONS", 400_000) / share / (2 * DRIVES.len() as u64) + 1;
    let mut all = 0;
    for (index, drive) in DRIVES.into_iter().enumerate() {
        for write_cache in [false, true] {
            let (mut done, mut life) = (0, 0);
            while done < each {
                let seed = seed.wrapping_mul(1_000_003).wrapping_add(life * 100 + index as u64);
                done += live(drive, timing, write_cache, seed, each - done, |_| {})
                    .unwrap_or_else(|why| panic!("{why}"));
                life += 1;
            }
            all += done;
        }
    }
    println!("{timing:?}, seed {seed}: {all} commands");
}

in_every_timing!(lives);

/// A whole band is trimmed, one that moved long ago, while cleaning has just written another band to its first place.
/// It took millions of commands to come up.
#[test]
fn a_band_that_is_moved_to_the_first_place_of_one_that_is_trimmed() {
    let lived = live(DRIVES[9], Timing::Model, true, 20_261_182_787_175, 10_000, |_| {});
    lived.unwrap_or_else(|why| panic!("{why}"));
}
