//! Images with checksums: they are as images without, and whatever changes by itself is an error and never data.
//!
//! `SKYLIGHT_MUTATIONS` is how many mutations there are in all (1,000 if it is not set), `PROPTEST_RNG_SEED` the seed (1).

#[path = "common/mod.rs"]
#[expect(dead_code, reason = "of what the power-cut tests share, the numbers alone")]
mod common;
#[path = "power_cuts/drives.rs"]
mod drives;
mod media;

use std::time::Duration;

use common::number;
use drives::{DRIVES, Drive, SECTORS};
use media::fault::{Effect, FaultStore, Random};
use media::ram::RamStore;
use skylight_disk::Sectors;
use skylight_image::format::superblock::{Part, Superblock};
use skylight_image::planted_bugs::{Planted, Plants};
use skylight_image::scrub::scrub_on;
use skylight_image::store::checksummed::{SumOptions, SummedStore, mismatch_of};
use skylight_image::{Image, ImageError, Options, Store};
use skylight_layer::{Idle, MediaUse};

const SECTOR: usize = 512;
const REGION: u64 = 64 << 10;

fn sum_options(boot: u8) -> SumOptions {
    SumOptions {
        boot_id: Some([boot; 16]),
        region_bytes: Some(REGION),
        clears_after: Some(Duration::ZERO),
        plants: Plants::NONE,
    }
}

fn options() -> Options {
    let (log_bytes, write_cache) = (Some(8192), true);
    Options { log_bytes, write_cache, checksums: true, sums: sum_options(1), ..Options::default() }
}

/// Where things lie in a store alone, without an image.
fn layout() -> Superblock {
    let room = MediaUse { platter: Sectors(SECTORS), ..MediaUse::default() };
    let mut superblock = Superblock::with_log(7, SECTORS * 512, &room, "", 8192);
    superblock.add_sums();
    superblock
}

fn over(store: &FaultStore, sums: &SumOptions) -> SummedStore {
    SummedStore::new(Box::new(store.clone()), &layout(), sums).expect("a store")
}

/// Sectors from one on, each of one of a few values: zeros among them, and the same one at several places.
fn draw(random: &mut Random) -> (u64, Vec<u8>) {
    let (start, count) = (random.below(SECTORS), 1 + random.below(40));
    let count = count.min(SECTORS - start);
    let data = (0..count).flat_map(|_| [random.below(4) as u8; SECTOR]).collect();
    (start, data)
}

/// Changes a store a little; which sectors, and what they hold then.
fn change(store: &mut dyn Store, random: &mut Random) -> (u64, Vec<u8>, std::io::Result<()>) {
    let media = layout().media();
    let (start, mut data) = draw(random);
    let at = media.start + start * SECTOR as u64;
    let changed = match random.below(4) {
        0 => {
            data.fill(0);
            store.discard(at, data.len() as u64)
        }
        _ => store.write_at(at, &data),
    };
    (start, data, changed)
}

#[test]
fn a_store_with_checksums_reads_as_one_without() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let (mut random, media) = (Random(seed), layout().media());
    let inner = FaultStore::new(RamStore::new(layout().len_bytes()));
    let mut store = over(&inner, &sum_options(1));
    let mut known = vec![0; media.len as usize];
    for step in 0..4000 {
        let failing = random.below(16) == 0;
        if failing {
            inner.fail_after_with(random.below(4), 28);
        }
        let before = known.clone();
        let (start, data, changed) = change(&mut store, &mut random);
        let (from, to) = (start as usize * SECTOR, start as usize * SECTOR + data.len());
        known[from..to].copy_from_slice(&data);
        inner.mend();
        match random.below(24) {
            0 => store.sync().expect("a sync"),
            1 => drop(store.rest().expect("some rest")),
            // A kill, and a start.
            2 | 3 => store = over(&inner, &sum_options(1)),
            4 => {
                store.close().expect("an end");
                // Nothing is left to doubt: another start of the system changes nothing.
                store = over(&inner, &sum_options(1 + random.below(2) as u8));
                assert_eq!(store.sums().expect("checksums").unsure_regions, 0, "seed {seed}, step {step}");
                store = over(&inner, &sum_options(1));
            }
            _ => {}
        }
        let mut read = vec![9; media.len as usize];
        let all = store.read_at(media.start, &mut read);
        all.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
        if changed.is_err() {
            // Each sector is as before or as it was to be.
            assert!(failing);
            for at in (from..to).step_by(SECTOR) {
                let is = &read[at..at + SECTOR];
                assert!(
                    is == &known[at..at + SECTOR] || is == &before[at..at + SECTOR],
                    "seed {seed}, step {step}"
                );
            }
            known[from..to].copy_from_slice(&read[from..to]);
        }
        assert!(read == known, "seed {seed}, step {step}");
    }
}

/// Kills a store after each of its writes; the first sector that is an error or of neither state.
fn killed_everywhere(planted: Option<Planted>) -> Result<(), String> {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let (mut random, media) = (Random(seed), layout().media());
    let sums = SumOptions { plants: planted.into(), ..sum_options(1) };
    let mut medium = RamStore::new(layout().len_bytes());
    for round in 0..300 {
        let inner = FaultStore::new(medium.clone());
        let mut store = over(&inner, &sums);
        let (mut before, mut after) = (vec![0; media.len as usize], Vec::new());
        store.read_at(media.start, &mut before).map_err(|error| error.to_string())?;
        let (start, data, changed) = change(&mut store, &mut random);
        changed.expect("a change");
        after.extend_from_slice(&before);
        after[start as usize * SECTOR..][..data.len()].copy_from_slice(&data);
        let effects = inner.take_effects();
        let stop = random.below(effects.len() as u64 + 1) as usize;
        for done in 0..=effects.len() {
            let mut left = medium.clone();
            effects[..done].iter().for_each(|effect| apply(&mut left, effect));
            if let Some(Effect::Write(at, data)) = effects.get(done).filter(|_| random.below(2) == 0) {
                // A kill in the middle of a write leaves the first sectors of it.
                let part = random.below(data.len() as u64 / 512 + 1) as usize * 512;
                left.write_at(*at, &data[..part]).expect("room");
            }
            let mut found = vec![0; media.len as usize];
            let inner = FaultStore::new(left.clone());
            let mut store = over(&inner, &sums);
            for again in [false, true] {
                let read = store.read_at(media.start, &mut found);
                read.map_err(|error| format!("seed {seed}, round {round}, effect {done}: {error}"))?;
                let parts = found.chunks(SECTOR).zip(before.chunks(SECTOR)).zip(after.chunks(SECTOR));
                if parts.into_iter().any(|((is, old), new)| is != old && is != new) {
                    return Err(format!("seed {seed}, round {round}, effect {done}: neither old nor new"));
                }
                if again {
                    break;
                }
                // It goes on, and what was half done is settled.
                store.write_at(media.start, &found[..SECTOR]).expect("a write");
            }
            if done == stop {
                medium = left;
            }
        }
    }
    Ok(())
}

fn apply(store: &mut RamStore, effect: &Effect) {
    match effect {
        Effect::Write(at, data) | Effect::WriteDurably(at, data) => store.write_at(*at, data),
        Effect::Discard(at, len) => store.discard(*at, *len),
        Effect::Sync | Effect::SyncWithin(_) => Ok(()),
    }
    .expect("room");
}

#[test]
fn a_kill_leaves_every_sector_as_before_or_as_it_was_to_be() {
    killed_everywhere(None).expect("no errors");
    assert!(killed_everywhere(Some(Planted::NoIntent)).is_err(), "without an intent it must be noticed");
}

/// All that a drive reads as, by sector; none where that is an error.
fn sectors_of(image: &mut Image) -> Vec<Option<[u8; SECTOR]>> {
    let read = |at: u64| {
        let mut sector = [0; SECTOR];
        match image.read(at * SECTOR as u64, &mut sector) {
            Ok(()) => Some(sector),
            Err(ImageError::Checksum { wrong, .. }) => {
                assert_eq!(wrong.first, Some(at), "the sector of the host is named: {wrong}");
                None
            }
            Err(error) => panic!("sector {at}: {error}"),
        }
    };
    (0..SECTORS).map(read).collect()
}

/// Writes that fill caches and make cleaning run.
fn work(image: &mut Image, random: &mut Random, commands: u64) {
    for _ in 0..commands {
        let (start, data) = draw(random);
        let at = start * SECTOR as u64;
        let done = match random.below(10) {
            0 => image.trim(at, data.len() as u64),
            1 => image.write_zeroes(at, data.len() as u64, false),
            2 => image.flush(),
            3 | 4 => image.idle().map(|_| ()),
            _ => image.write(at, &data, false),
        };
        done.expect("a command");
    }
}

/// A drive that has worked; its medium some time before, and at the end.
fn worked(drive: Drive, random: &mut Random, close: bool) -> (RamStore, RamStore) {
    let layer = (drive.layer)();
    let store = RamStore::new(Image::bytes_needed(layer.as_ref(), &options()));
    let inner = FaultStore::new(store.clone());
    let mut image = Image::create_on(Box::new(inner.clone()), layer, "", &options()).expect("an image");
    work(&mut image, random, 40);
    let mut before = store.clone();
    let mut effects = inner.take_effects();
    effects.iter().for_each(|effect| apply(&mut before, effect));
    work(&mut image, random, 40);
    match close {
        true => image.close().expect("an end"),
        false => drop(image),
    }
    let mut after = before.clone();
    effects = inner.take_effects();
    effects.iter().for_each(|effect| apply(&mut after, effect));
    (before, after)
}

fn superblock_of(store: &RamStore) -> Superblock {
    let mut block = [0; 512];
    store.read_at(0, &mut block).expect("a superblock");
    Superblock::decode(&block, |_, _| Ok(())).expect("a superblock")
}

fn bytes(store: &RamStore, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    store.read_at(at, &mut bytes).expect("it is there");
    bytes
}

/// Changes a part of a medium by itself; what was done.
fn mutate(store: &mut RamStore, before: &RamStore, part: Part, random: &mut Random) -> &'static str {
    let sectors = part.len / 512;
    let run = (1 + random.below(64)).min(sectors);
    let at = part.start + random.below(sectors - run + 1) * 512;
    let len = run * 512;
    match random.below(4) {
        0 => {
            let at = part.start + random.below(part.len);
            let byte = bytes(store, at, 1)[0] ^ 1 << random.below(8);
            store.write_at(at, &[byte]).expect("room");
            "a flipped bit"
        }
        1 => {
            store.discard(at, len).expect("room");
            "a run of zeros"
        }
        2 => {
            let other = part.start + random.below(sectors - run + 1) * 512;
            let (one, two) = (bytes(store, at, len), bytes(store, other, len));
            store.write_at(at, &two).expect("room");
            store.write_at(other, &one).expect("room");
            "exchanged runs"
        }
        _ => {
            let old = bytes(before, at, len);
            store.write_at(at, &old).expect("room");
            "a run from before"
        }
    }
}

#[test]
fn no_mutation_is_served_as_data() {
    let (count, seed) = (number("SKYLIGHT_MUTATIONS", 1000), number("PROPTEST_RNG_SEED", 1));
    let (mut random, mut errors, mut done) = (Random(seed), 0, 0);
    while done < count {
        let drive = DRIVES[random.below(DRIVES.len() as u64) as usize];
        let close = random.below(2) == 0;
        let (before, after) = worked(drive, &mut random, close);
        let open = |store: &RamStore| Image::open_on(Box::new(store.clone()), (drive.layer)(), &options());
        let right = sectors_of(&mut open(&after).expect("an image"));
        assert!(right.iter().all(Option::is_some), "{}, seed {seed}: an error for nothing", drive.name);
        let superblock = superblock_of(&after);
        for _ in 0..10 {
            let mut store = after.clone();
            let part = if random.below(3) == 0 { superblock.sums } else { superblock.media() };
            let what = mutate(&mut store, &before, part, &mut random);
            let mut image = open(&store).expect("what an image is made of is whole");
            let mut known = right.clone();
            // At once, and after it has worked on: errors move with their sectors.
            for round in 0..2 {
                let found = sectors_of(&mut image);
                for (at, (found, right)) in found.iter().zip(&known).enumerate() {
                    assert!(
                        found.is_none() || found == right,
                        "{}, closed {close}, seed {seed}, mutation {done}, round {round}: {what} is served, sector {at}",
                        drive.name
                    );
                }
                errors += found.iter().filter(|sector| sector.is_none()).count();
                known = found.iter().zip(&known).map(|(found, right)| found.and(*right)).collect();
                while round == 0 && image.idle().expect("cleaning goes on") == Idle::Worked {}
            }
            done += 1;
        }
    }
    println!("seed {seed}: {done} mutations, {errors} sectors were errors");
    assert!(errors > done as usize);
}

#[test]
fn a_wrong_sector_stays_wrong_where_cleaning_moves_it_until_it_is_written() {
    let mut moved = 0;
    for drive in DRIVES {
        let layer = (drive.layer)();
        let store = FaultStore::new(RamStore::new(Image::bytes_needed(layer.as_ref(), &options())));
        let mut image = Image::create_on(Box::new(store.clone()), layer, "", &options()).expect("an image");
        let data: Vec<u8> = (0..32 * SECTOR).map(|at| (at / SECTOR) as u8 + 1).collect();
        image.write(64 * 512, &data, true).expect("a write");
        let place = image.locate(70 * 512, 512).expect("a place")[0];
        // The one sector of the medium that holds it.
        let media = superblock_of_fault(&store).media();
        let mut all = vec![0; media.len as usize];
        store.read_at(media.start, &mut all).expect("bytes");
        let at = all.chunks(512).position(|sector| sector == [7; 512]).expect("its sector");
        let mut hurt = store.clone();
        hurt.write_at(media.start + at as u64 * 512 + 100, &[0]).expect("room");
        while image.idle().expect("idle work") == Idle::Worked {}
        moved += u32::from(image.locate(70 * 512, 512).expect("a place")[0].cached != place.cached);
        for kill in [false, true] {
            if kill {
                drop(image);
                image =
                    Image::open_on(Box::new(store.clone()), (drive.layer)(), &options()).expect("an image");
            }
            let found = sectors_of(&mut image);
            for (at, sector) in found.iter().enumerate().skip(64).take(32) {
                let right = (at != 70).then(|| [(at - 63) as u8; SECTOR]);
                assert_eq!(*sector, right, "{}, sector {at}, after a kill {kill}", drive.name);
            }
        }
        assert!(image.status().sums.expect("checksums").mismatches > 0);
        image.write(70 * 512, &[5; 512], false).expect("a write");
        assert_eq!(sectors_of(&mut image)[70], Some([5; 512]), "{}: written anew", drive.name);
    }
    assert!(moved >= 4, "cleaning has moved it on {moved} drives");
}

#[test]
fn a_scrub_names_what_reads_would_refuse() {
    let (seed, mut noticed) = (number("PROPTEST_RNG_SEED", 1), 0);
    let mut random = Random(seed);
    for drive in DRIVES {
        let (before, after) = worked(drive, &mut random, false);
        for _ in 0..5 {
            let mut store = after.clone();
            mutate(&mut store, &before, superblock_of(&after).media(), &mut random);
            let boxed = || Box::new(store.clone());
            let mut told = Vec::new();
            let found = scrub_on(boxed(), (drive.layer)(), &options(), &mut |done, all| {
                told.push((done, all));
                true
            });
            let found = found.expect("a scrub");
            let mut image = Image::open_on(boxed(), (drive.layer)(), &options()).expect("an image");
            let sectors = sectors_of(&mut image);
            let wrong = (0..SECTORS).filter(|&at| sectors[at as usize].is_none()).collect::<Vec<_>>();
            let named =
                found.wrong.iter().flat_map(|&(first, count)| first..first + count).collect::<Vec<_>>();
            assert_eq!(named, wrong, "{}, seed {seed}", drive.name);
            assert_eq!(found.wrong_sectors, wrong.len() as u64);
            assert!(
                told.windows(2).all(|pair| pair[0].0 <= pair[1].0)
                    && told.last() == Some(&(told[0].1, told[0].1))
            );
            noticed += u32::from(!wrong.is_empty());
        }
    }
    assert!(noticed > 10, "{noticed} of 50 mutations were of live data");
}

fn superblock_of_fault(store: &FaultStore) -> Superblock {
    let mut block = [0; 512];
    store.read_at(0, &mut block).expect("a superblock");
    Superblock::decode(&block, |_, _| Ok(())).expect("a superblock")
}

#[test]
fn after_a_power_cut_what_was_durable_is_strict_and_the_rest_is_mended() {
    let inner = FaultStore::new(RamStore::new(layout().len_bytes()));
    let media = layout().media();
    let mut store = over(&inner, &sum_options(1));
    let (sure, unsure) = (media.start + 2 * REGION, media.start + 9 * REGION);
    store.write_at(sure, &[1; 512]).expect("a write");
    store.close().expect("an end");
    store.write_at(unsure, &[2; 512]).expect("a write");
    // The power fails, and takes the data but not its checksum; elsewhere a byte changes by itself.
    let mut hurt = inner.clone();
    hurt.discard(unsure, 512).expect("room");
    hurt.write_at(sure, &[3]).expect("room");
    let mut store = over(&inner, &sum_options(2));
    assert_eq!(store.sums().expect("checksums").unsure_regions, 1);
    let mut sector = [9; 512];
    store.read_at(unsure, &mut sector).expect("what the cut has left");
    assert_eq!(sector, [0; 512]);
    let error = store.read_at(sure, &mut sector).expect_err("a changed byte");
    assert_eq!(mismatch_of(&error).map(|found| (found.at, found.len)), Some((sure, 512)));
    while store.rest().expect("some rest") {}
    assert_eq!(store.sums().expect("checksums").unsure_regions, 1, "what was mended is not durable yet");
    store.sync().expect("a sync");
    let found = store.sums().expect("checksums");
    assert_eq!((found.unsure_regions, found.mended, found.mismatches), (0, 1, 1));
    // From here on it is strict there too, and the other is no less wrong.
    hurt.write_at(unsure, &[3]).expect("room");
    assert!(store.read_at(unsure, &mut sector).is_err() && store.read_at(sure, &mut sector).is_err());
    assert_eq!(store.is_data(unsure, 512).expect("a hole or not"), (true, 512));
}

#[test]
fn a_hole_where_data_was_is_data_and_wrong() {
    let inner = FaultStore::new(RamStore::new(layout().len_bytes()));
    let mut store = over(&inner, &sum_options(1));
    let media = layout().media();
    store.write_at(media.start, &[1; 32 << 10]).expect("a write");
    inner.clone().discard(media.start, 32 << 10).expect("room");
    assert!(store.is_data(media.start, 32 << 10).expect("a hole or not").0);
    assert!(store.read_at(media.start + 4096, &mut [0; 512]).is_err());
    // A hole beside data is one, though their entries lie together.
    assert_eq!(store.is_data(media.start + (64 << 10), 4096).expect("a hole or not"), (false, 4096));
    assert!(store.read_at(media.start + 100, &mut [0; 512]).is_err(), "no whole sector");
    // What was given back is a hole.
    store.discard(media.start, 32 << 10).expect("zeros");
    store.read_at(media.start + 4096, &mut [0; 512]).expect("zeros");
}
