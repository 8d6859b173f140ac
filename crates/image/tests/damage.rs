//! Images that lost what was durable: refused with nothing written, told by a check, and used again only by a repair that
//! was asked to accept the loss. Parts of an image that are not the ones that belong there. Looking writes nothing.

#[path = "common/folder.rs"]
mod folder;
#[path = "common/packaged.rs"]
mod packaged;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use folder::{Folder, beside};
use packaged::profile;
use rustix::fs::IFlags;
use skylight_image::format::superblock::{COPY, Superblock};
use skylight_image::offline_tools::{check, info, repair};
use skylight_image::planted_bugs::Plants;
use skylight_image::store::checksummed::SumOptions;
use skylight_image::{Image, ImageError, Options};

const CACHED: Options = Options {
    write_cache: true,
    overwrite: false,
    cache_on: None,
    profile: None,
    // 128 blocks.
    log_bytes: Some(64 << 10),
    every_access: false,
    planned: false,
    piece: None,
    part_bytes: None,
    ahead: None,
    checksums: false,
    sums: SumOptions { boot_id: None, region_bytes: None, clears_after: None, plants: Plants::NONE },
    plants: Plants::NONE,
};

fn block(number: u8) -> Vec<u8> {
    vec![number; 4096]
}

fn read(image: &mut Image, offset: u64) -> u8 {
    let mut data = block(0xee);
    image.read(offset, &mut data).expect("a read");
    data[0]
}

fn layout(path: &Path) -> Superblock {
    let file = File::open(path).expect("the image");
    let mut first = [0; 512];
    file.read_exact_at(&mut first, 0).expect("a superblock");
    let text = |at, bytes: &mut [u8]| {
        file.read_exact_at(bytes, at).expect("a text");
        Ok(())
    };
    Superblock::decode(&first, text).expect("a superblock")
}

fn writable(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("the image")
}

/// An image that was killed after 40 flushed writes; where it lies.
fn killed(folder: &Folder) -> PathBuf {
    killed_as(folder, &CACHED)
}

fn killed_as(folder: &Folder, options: &Options) -> PathBuf {
    let path = folder.path("drive.img");
    let mut image = Image::create(&path, &profile("emulated-smr-1"), options).expect("a new image");
    for number in 0..40 {
        image.write(number * 4096, &block(number as u8 + 1), true).expect("a write");
    }
    path
}

/// The bytes of an image that are not data, as far as a small one uses them: where, and what.
fn structures(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = File::open(path).expect("the image");
    let [first, second] = layout(path).checkpoints;
    let ranges = [0..first.start + USED, second.start..second.start + USED];
    let read = |range: std::ops::Range<u64>| {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start).expect("the image");
        (range.start, bytes)
    };
    ranges.map(read).to_vec()
}

/// Bytes of a checkpoint area that a small image uses.
const USED: u64 = 64 << 10;

#[test]
fn a_log_that_lost_durable_tags_is_refused_and_stays_as_it_is() {
    // The last block, the last ten, all of them, one in the middle.
    for (from, to) in [(39, 40), (30, 40), (0, 128), (12, 13)] {
        let folder = Folder::new();
        let path = killed(&folder);
        let log = layout(&path).log.start;
        writable(&path).write_all_at(&vec![0; (to - from) * 512], log + from as u64 * 512).expect("a loss");
        let before = structures(&path);
        let problems = check(&path, &CACHED).expect("a check").problems;
        let lost = to.min(40) - from;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(&format!("{lost} tags of its log that were durable")), "{problems:?}");
        let refused = Image::open(&path, &CACHED).map(drop).expect_err("a loss").to_string();
        assert_eq!(refused, problems[0]);
        assert!(refused.contains(&format!("of numbers {} to {}, since checkpoint 0", from + 1, to.min(40))));
        assert!(refused.contains("skylight image repair --accept-loss") && !refused.contains('\n'));
        assert_eq!(repair(&path, &CACHED, false).map(drop).expect_err("a loss").to_string(), refused);
        assert_eq!(structures(&path), before, "the evidence stays");
    }
}

#[test]
fn a_repair_that_accepts_the_loss_keeps_a_copy_and_goes_on_with_the_rest() {
    // Of an image in place tags are about the layer alone: no data is lost with them.
    for (planned, read_until) in [(true, 30), (false, 40)] {
        repairs_and_reads(&Options { planned, ..CACHED }, read_until);
    }
}

fn repairs_and_reads(options: &Options, read_until: u64) {
    let folder = Folder::new();
    let path = killed_as(&folder, options);
    let log = layout(&path).log.start;
    writable(&path).write_all_at(&[0; 10 * 512], log + 30 * 512).expect("a loss");
    let before = structures(&path);
    fs::write(folder.path("drive.img.damaged-1"), "an older one").expect("a file");
    let done = repair(&path, options, true).expect("a repair");
    let kept = done.kept.expect("a copy");
    assert_eq!(kept, folder.path("drive.img.damaged-2"));
    assert_eq!(fs::metadata(&kept).expect("the copy").len(), layout(&path).platter.start);
    assert_eq!(structures(&kept), before);
    assert!(
        done.lost[0].contains("10 tags") && done.lost[1].contains("since checkpoint 0"),
        "{:?}",
        done.lost
    );
    assert_eq!(check(&path, &CACHED).expect("a check").problems, Vec::<String>::new());
    let mut image = Image::open(&path, options).expect("what is left");
    for number in 0..40 {
        let expected = if number < read_until { number as u8 + 1 } else { 0 };
        assert_eq!(read(&mut image, number * 4096), expected, "block {number}");
    }
    image.close().expect("a clean end");
    assert_eq!(repair(&path, options, true).expect("nothing to do"), Default::default());
}

#[test]
fn a_repair_without_a_loss_mends_the_superblock() {
    for at in [0, COPY] {
        let folder = Folder::new();
        let path = killed(&folder);
        let before = structures(&path)[0].1[at as usize..][..512].to_vec();
        writable(&path).write_all_at(&[0; 512], at).expect("a change");
        let done = repair(&path, &CACHED, false).expect("a repair");
        assert!(done.mended.len() == 1 && done.mended[0].contains("one of its two superblocks"), "{done:?}");
        assert!(done.lost.is_empty() && done.kept.is_none());
        assert_eq!(structures(&path)[0].1[at as usize..][..512], before);
    }
}

/// Both heads of the newest checkpoint as they were before, or gone, with nothing behind it in the log.
#[test]
fn a_checkpoint_that_only_the_mark_knows_of_is_missed() {
    let folder = Folder::new();
    let path = killed(&folder);
    Image::open(&path, &CACHED).and_then(Image::close).expect("a clean end");
    let generation = info(&path, &CACHED).expect("an image").generation;
    assert_eq!(generation, 2);
    let area = layout(&path).checkpoints[0];
    writable(&path).write_all_at(&[0; 1024], area.start).expect("a loss");
    let refused = Image::open(&path, &CACHED).map(drop).expect_err("a loss").to_string();
    assert!(refused.contains("checkpoint 2 was durable, and the newest that is there is 1"), "{refused}");
    let done = repair(&path, &CACHED, true).expect("a repair");
    assert!(done.lost.len() >= 2, "{done:?}");
    let mut image = Image::open(&path, &CACHED).expect("what is left");
    assert_eq!(read(&mut image, 39 * 4096), 40, "the older checkpoint has the same");
}

#[test]
fn a_repair_that_falls_back_finds_bytes_where_they_lie() {
    let folder = Folder::new();
    let path = folder.path("drive.img");
    let planned = Options { planned: true, ..CACHED };
    let image = Image::create(&path, &profile("emulated-smr-1"), &planned).expect("a planned image");
    image.close().expect("an empty cache");
    let mut image = Image::open(&path, &CACHED).expect("in place from now on");
    image.write(7 * 4096, &block(7), true).expect("a write");
    drop(image);
    let generation = info(&path, &CACHED).expect("an image").generation;
    let newest = layout(&path).checkpoints[generation as usize % 2];
    writable(&path).write_all_at(&[0; 1024], newest.start).expect("a loss");
    assert!(repair(&path, &CACHED, true).expect("a repair").kept.is_some());
    let mut image = Image::open(&path, &CACHED).expect("what is left");
    assert_eq!(read(&mut image, 7 * 4096), 7, "it was flushed, and lies where it did");
}

#[test]
fn one_damaged_mark_or_head_is_mended() {
    for (number, what) in ["one of the two marks", "both marks", "one of the two heads"].iter().enumerate() {
        let folder = Folder::new();
        let path = killed(&folder);
        Image::open(&path, &CACHED).and_then(Image::close).expect("a clean end");
        let (file, layout) = (writable(&path), layout(&path));
        let slots = layout.mark_slots().expect("marks");
        match number {
            0 => file.write_all_at(&[1], slots[1]),
            1 => slots.iter().try_for_each(|&slot| file.write_all_at(&[1], slot)),
            // Without the mark nobody can say whether a cut left one head alone.
            _ => file.write_all_at(&[1], layout.checkpoints[0].start + 512),
        }
        .expect("a change");
        let problems = check(&path, &CACHED).expect("a check").problems;
        assert!(problems.len() == 1 && problems[0].contains(what), "{problems:?}");
        let image = Image::open(&path, &CACHED).expect("what is whole serves");
        assert!(image.mended().len() == 1 && image.mended()[0].contains(what), "{:?}", image.mended());
        image.close().expect("a clean end");
        assert_eq!(check(&path, &CACHED).expect("a check").problems, Vec::<String>::new());
    }
}

#[test]
fn a_check_neither_writes_nor_keeps_others_from_looking() {
    let folder = Folder::new();
    let path = killed(&folder);
    let before = structures(&path);
    let looking = File::open(&path).expect("the image");
    rustix::fs::flock(&looking, rustix::fs::FlockOperation::NonBlockingLockShared).expect("a shared lock");
    assert_eq!(check(&path, &CACHED).expect("a check").problems, Vec::<String>::new());
    assert!(info(&path, &CACHED).is_ok());
    assert!(matches!(Image::open(&path, &CACHED), Err(ImageError::Locked(_))), "a use waits for those");
    drop(looking);
    assert_eq!(structures(&path), before, "a check recovers nothing");
    let image = Image::open(&path, &CACHED).expect("an image");
    assert!(matches!(check(&path, &CACHED), Err(ImageError::Locked(_))), "it changes while it is used");
    drop(image);
}

/// A mount of this kind refuses even root; where that cannot be had, the test says so.
#[test]
fn a_write_protected_image_can_be_looked_at() {
    let folder = Folder::new();
    let path = killed(&folder);
    // By the system call: between its start and `chattr` a child would hold the locks of images that other tests use.
    let file = File::open(&path).expect("the image");
    let flags = rustix::fs::ioctl_getflags(&file).unwrap_or(IFlags::empty());
    let set = |flags| rustix::fs::ioctl_setflags(&file, flags).is_ok();
    if !set(flags | IFlags::IMMUTABLE) {
        println!("skipped: no immutable files here");
        return;
    }
    let (known, checked) = (info(&path, &CACHED), check(&path, &CACHED));
    assert!(set(flags));
    assert_eq!(known.expect("an image").drive, "emulated-smr-1");
    assert_eq!(checked.expect("a check").problems, Vec::<String>::new());
}

/// Larger than all that is not data, so that the first file has it.
const PART: u64 = 24 << 30;

/// An image in files of 24 GiB that has something in the first of them.
fn in_parts(folder: &Folder) -> PathBuf {
    let path = folder.path("drive.img");
    let options = Options { part_bytes: Some(PART), ..CACHED };
    let mut image = Image::create(&path, &profile("emulated-smr-1"), &options).expect("a new image");
    for number in 0..64 {
        image.write(number << 26, &block(number as u8 + 1), false).expect("a write");
    }
    image.close().expect("a clean end");
    path
}

fn refused(path: &Path) -> String {
    let error = Image::open(path, &CACHED).map(drop).expect_err("a wrong part").to_string();
    let checked = match check(path, &CACHED) {
        Ok(report) => report.problems.first().cloned().unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    assert_eq!(checked, error, "a check says the same");
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn an_image_in_parts_keeps_its_data() {
    let folder = Folder::new();
    let path = in_parts(&folder);
    let mut image = Image::open(&path, &CACHED).expect("all parts");
    assert!((0..64).all(|number| read(&mut image, number << 26) == number as u8 + 1));
    image.audit().expect("one place for each sector");
    drop(image);
    assert_eq!(check(&path, &CACHED).expect("a check").problems, Vec::<String>::new());
}

#[test]
fn parts_that_do_not_belong_there_are_named() {
    let folder = Folder::new();
    let path = in_parts(&folder);
    let (one, two) = (beside(&path, 1), beside(&path, 2));
    let aside = folder.path("aside");

    fs::rename(&one, &aside).expect("a move");
    let line = refused(&path);
    assert!(line.starts_with(&one.display().to_string()) && line.contains("there is no such file"), "{line}");
    File::create(&one).expect("an empty file");
    assert!(refused(&path).contains(&format!("it is 0 bytes long and was made with {PART}")));
    File::create(&one).and_then(|file| file.set_len(PART)).expect("zeros");
    assert!(refused(&path).contains("its head does not add up"));
    fs::rename(&two, &one).and_then(|()| fs::rename(&aside, &two)).expect("an exchange");
    let line = refused(&path);
    assert!(line.contains("it is part 2 and lies where part 1 belongs"), "{line}");
    fs::rename(&two, &aside).and_then(|()| fs::rename(&one, &two)).expect("a move back");
    fs::rename(&aside, &one).expect("a move back");
    File::options().write(true).open(&one).and_then(|file| file.set_len(PART + 4096)).expect("longer");
    assert!(refused(&path).contains("was made with"));
    File::options().write(true).open(&one).and_then(|file| file.set_len(PART)).expect("as it was");

    let last = (1..).take_while(|&number| beside(&path, number).exists()).last().expect("parts");
    let surplus = beside(&path, last + 1);
    let mut head = [0; 4096];
    File::open(&one).and_then(|file| file.read_exact_at(&mut head, 0)).expect("a head");
    fs::write(&surplus, head).expect("a part too many");
    assert!(refused(&path).contains("one part more than the image has"));
    fs::remove_file(&surplus).expect("the surplus");

    let other = Folder::new();
    let other = in_parts(&other);
    fs::rename(&one, &aside)
        .and_then(|()| {
            fs::rename(beside(&other, 1), &one).or_else(|_| fs::copy(beside(&other, 1), &one).map(drop))
        })
        .expect("a part of another image");
    assert!(refused(&path).contains("it is of another image"));
    fs::rename(&aside, &one).expect("a move back");
    assert!(Image::open(&path, &CACHED).is_ok());
}

/// One part, or all but one, as they were when the image was last switched off.
#[test]
fn a_part_that_was_rolled_back_is_named() {
    let folder = Folder::new();
    let path = in_parts(&folder);
    let first = beside(&path, 1);
    let mut old = [0; 1024];
    File::open(&first).and_then(|file| file.read_exact_at(&mut old, 0)).expect("a head");
    let main = structures(&path);
    let generation = info(&path, &CACHED).expect("an image").generation;
    // Killed at once: nothing but the start of the session tells it from the one before.
    drop(Image::open(&path, &CACHED).expect("all parts"));
    let mut new = [0; 1024];
    File::open(&first).and_then(|file| file.read_exact_at(&mut new, 0)).expect("a head");
    writable(&first).write_all_at(&old, 0).expect("a roll-back");
    let line = refused(&path);
    assert!(line.contains(&stray(&first, generation, generation + 1)), "{line}");
    writable(&first).write_all_at(&new, 0).expect("as it was");
    for (at, bytes) in &main {
        writable(&path).write_all_at(bytes, *at).expect("a roll-back of the first file");
    }
    assert!(refused(&path).contains(&stray(&first, generation + 1, generation)));
    assert!(repair(&path, &CACHED, true).expect("a repair").kept.is_some());
    assert!(Image::open(&path, &CACHED).is_ok());
}

fn stray(part: &Path, of: u32, rest: u32) -> String {
    format!("{} is of checkpoint {of} and the rest of checkpoint {rest}", part.display())
}

/// The same where the flash lies apart.
#[test]
fn a_flash_or_its_image_alone_rolled_back_is_named() {
    let folder = Folder::new();
    let (path, flash) = (folder.path("drive.img"), folder.path("flash.img"));
    let options = Options { cache_on: Some(flash.clone()), ..CACHED };
    let mut image = Image::create(&path, &profile("emulated-smr-2"), &options).expect("a new image");
    image.write(0, &block(1), true).expect("a write");
    image.close().expect("a clean end");
    let mut old = [0; 1024];
    File::open(&flash).and_then(|file| file.read_exact_at(&mut old, 0)).expect("a head");
    let generation = info(&path, &options).expect("both").generation;
    let mut image = Image::open(&path, &options).expect("both");
    assert_eq!(read(&mut image, 0), 1);
    image.write(0, &block(2), true).expect("a write");
    drop(image);
    writable(&flash).write_all_at(&old, 0).expect("a roll-back");
    let line = Image::open(&path, &options).map(drop).expect_err("an old flash").to_string();
    assert!(line.contains(&stray(&flash, generation, generation + 1)), "{line}");
    assert!(check(&path, &options).expect("a check").problems[0] == line);
    let (path, other) = (folder.path("other.img"), folder.path("other-flash.img"));
    let theirs = Options { cache_on: Some(other), ..CACHED };
    drop(Image::create(&path, &profile("emulated-smr-2"), &theirs).expect("another image"));
    let exchanged = Image::open(&path, &options).map(drop).expect_err("another's flash").to_string();
    assert!(exchanged.contains("is not the flash of"), "{exchanged}");
}
