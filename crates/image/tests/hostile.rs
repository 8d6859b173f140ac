//! Images made to hurt: blocks and checkpoints whose checksums are right and whose contents are anything. They open,
//! or they are refused; nothing panics.

#[path = "power_cuts/drives.rs"]
mod drives;
mod media;

use drives::{DRIVES, SECTORS};
use media::fault::Random;
use media::ram::RamStore;
use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};
use skylight_image::format::checkpoint::{ENTRIES, Head, encode_cached, encode_moved};
use skylight_image::format::log_end::Mark;
use skylight_image::format::superblock::Superblock;
use skylight_image::format::tag_log::{Kind, Tag, TagBlock};
use skylight_image::{Image, Options, Store};
use skylight_layer::CachedExtent;

fn near(random: &mut Random, most: u64) -> u64 {
    match random.below(60) {
        0 => u64::MAX - random.below(3),
        1 => random.below(u64::MAX),
        2 => most,
        _ => random.below(most + 1) / 8 * 8,
    }
}

fn lba(random: &mut Random) -> LbaExtent {
    let len = if random.below(16) == 0 {
        near(random, SECTORS)
    } else {
        [1, 8, 16, 64, 96][random.below(5) as usize]
    };
    LbaExtent::new(Lba(near(random, SECTORS)), Sectors(len))
}

fn found(random: &mut Random, room: u64) -> CachedExtent {
    let lba = lba(random);
    let pba = near(random, room);
    let len =
        if random.below(4) == 0 { near(random, 64) } else { (lba.len.get() & 0xfff).next_multiple_of(16) };
    let access = PbaExtent::new(Pba(pba), Sectors(len & u64::from(u32::MAX)));
    CachedExtent { lba, pba: Pba(pba), access, taken: near(random, 1 << 20) / 16 * 16 }
}

fn tag(random: &mut Random, room: u64, next: &mut u64) -> Tag {
    let CachedExtent { lba, pba, access, taken } = found(random, room);
    let kind = match random.below(6) {
        0 => Kind::Home { follows: 0 },
        1 => Kind::Moved,
        _ => Kind::Cached { data_crc: 0, access, taken },
    };
    // Mostly a number that comes next: an image of which numbers are missing is refused.
    *next += 1;
    let sequence = if random.below(40) == 0 { near(random, 1000) } else { *next };
    Tag { sequence, lba, pba, kind }
}

/// One image; whether it opened.
fn try_one(random: &mut Random) -> bool {
    let drive = DRIVES[random.below(DRIVES.len() as u64) as usize];
    let layer = (drive.layer)();
    let room = layer.media_use();
    let superblock = Superblock::with_log(7, SECTORS * 512, &room, "", 8192);
    let mut store = RamStore::new(superblock.len_bytes());
    store.write_at(0, &superblock.encode()).expect("room");
    let most = room.platter.get().max(room.flash.get());
    let mut entries = Vec::new();
    let counts = [random.below(4), random.below(3)];
    (0..counts[0]).for_each(|_| encode_cached(&found(random, most), &mut entries));
    (0..counts[1]).for_each(|_| encode_moved(lba(random), Pba(near(random, most)), &mut entries));
    let fixed = [0, 0, 0, 0, 1, 2][random.below(6) as usize];
    (0..fixed).for_each(|_| encode_moved(lba(random), Pba(near(random, most)), &mut entries));
    let lying = random.below(16) == 0;
    let sequence = if random.below(16) == 0 { near(random, 500) >> 1 } else { random.below(500) };
    let head = Head {
        generation: if random.below(8) == 0 { near(random, 8) as u32 } else { 2 },
        clean: false,
        log_position: if random.below(8) == 0 { near(random, 100) } else { 32 },
        sequence,
        covered: if random.below(16) == 0 { near(random, 500) } else { sequence },
        cached: if lying { near(random, 100) } else { counts[0] },
        moved: counts[1],
        in_place: fixed > 0 || random.below(2) == 0,
        fixed,
        entries_crc: crc32c::crc32c_append(7, &entries),
        ..Head::default()
    };
    let area = superblock.checkpoints[head.generation as usize % 2].start;
    store.write_at(area, &head.encode(7)).expect("room");
    store.write_at(area + ENTRIES, &entries).expect("room");
    let mut next = sequence;
    for slot in 0..random.below(4) {
        let tags = (0..random.below(5)).map(|_| tag(random, most, &mut next)).collect();
        let durable = if random.below(8) == 0 { near(random, 2000) } else { next.min(sequence + slot) };
        let block = TagBlock { position: 32 + slot, durable, generation: 2, tags };
        store.write_at(superblock.log.start + slot * 512, &block.encode(7)).expect("room");
    }
    if random.below(2) == 0 {
        let mark = Mark {
            generation: if random.below(16) == 0 { near(random, 8) as u32 } else { 2 },
            durable: if random.below(16) == 0 { near(random, 1000) } else { next },
            log_end: near(random, 100),
        };
        let slot = superblock.mark_slots().expect("marks")[random.below(2) as usize];
        store.write_at(slot, &mark.encode(7)).expect("room");
    }
    for _ in 0..random.below(3) {
        let at = random.below(512);
        let base = [0, area, superblock.log.start][random.below(3) as usize];
        if random.below(4) == 0 {
            store.write_at(base + at, &[random.below(256) as u8]).expect("room");
        }
    }
    let Ok(mut image) = Image::open_on(Box::new(store), layer, &Options::default()) else {
        return false;
    };
    for at in 0..24 {
        let offset = near(random, SECTORS) % SECTORS / 8 * 4096;
        let done = match at % 4 {
            0 | 1 => image.write(offset, &[1; 4096], false),
            2 => image.idle().map(drop),
            _ => image.trim(offset, 4096),
        };
        done.unwrap_or_else(|error| panic!("{}: what opened stops: {error}", drive.name));
    }
    image.audit().expect("one place for each sector");
    true
}

#[test]
fn no_bytes_make_it_panic() {
    let seed: u64 = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let count = std::env::var("SKYLIGHT_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(20_000u64);
    println!("seed {seed}");
    let mut opened = 0;
    for number in 0..count {
        let mut random = Random(seed.wrapping_mul(0x1_0000_0001) ^ number << 20);
        opened += u64::from(try_one(&mut random));
    }
    println!("{opened} of {count} opened");
    assert!(opened > count / 100 && opened < count, "{opened} of {count}: neither all nor none");
}
