//! Images in files: made, opened, locked, refused, small where nothing was written, and quick to open.

#[path = "common/folder.rs"]
mod folder;
mod media;
#[path = "common/packaged.rs"]
mod packaged;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use folder::{Folder, beside};
use media::fault::FaultStore;
use media::ram::RamStore;
use packaged::profile;
use skylight_disk::{Nanos, Pba, PbaExtent, Sectors};
use skylight_image::format::superblock::COPY;
use skylight_image::offline_tools::{check, compact, info};
use skylight_image::planted_bugs::Plants;
use skylight_image::store::Access;
use skylight_image::store::checksummed::SumOptions;
use skylight_image::store::device::DeviceStore;
use skylight_image::store::file::FileStore;
use skylight_image::{Image, ImageError, Options, Store};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, Conventional, Journaled, JournaledSpec, Layer, Medium, SetAssociative, SetAssociativeSpec,
    StretchSpec,
};

fn block(number: u8) -> Vec<u8> {
    vec![number; 4096]
}

fn read(image: &mut Image, offset: u64) -> Vec<u8> {
    let mut data = vec![0xee; 4096];
    image.read(offset, &mut data).expect("a read");
    data
}

const CACHED: Options = Options {
    write_cache: true,
    overwrite: false,
    cache_on: None,
    profile: None,
    log_bytes: None,
    every_access: false,
    planned: false,
    piece: None,
    part_bytes: None,
    ahead: None,
    checksums: false,
    sums: SumOptions { boot_id: None, region_bytes: None, clears_after: None, plants: Plants::NONE },
    plants: Plants::NONE,
};

#[test]
fn every_shipped_drive_keeps_its_data_when_it_is_killed_and_when_it_is_closed() {
    for name in ["emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "st4000nc001", "st5000as0011"] {
        let folder = Folder::new();
        let path = folder.path("drive.img");
        let mut image = Image::create(&path, &profile(name), &CACHED).expect("a new image");
        let last = image.capacity_bytes() - 4096;
        image.write(0, &block(1), false).expect("a write");
        image.write(last, &block(2), false).expect("a write");
        image.flush().expect("a flush");
        image.write(last - 8192, &block(3), true).expect("a write");
        drop(image);
        let mut image = Image::open(&path, &CACHED).expect("a recovery");
        let found = [0, last, last - 8192, 8192].map(|at| read(&mut image, at)[0]);
        assert_eq!(found, [1, 2, 3, 0], "{name}");
        image.audit().expect("one place for each sector");
        image.close().expect("a clean end");
        let known = info(&path, &CACHED).expect("an image");
        assert!(known.clean && known.drive == name && known.stored_bytes < 4 << 20, "{known:?}");
        assert_eq!(check(&path, &CACHED).expect("a check").problems, Vec::<String>::new());
        let mut image = Image::open(&path, &CACHED).expect("an image");
        assert!(image.status().recovery.clean && read(&mut image, last)[0] == 2);
    }
}

#[test]
fn a_second_opener_is_refused_and_so_is_what_exists() {
    let folder = Folder::new();
    let path = folder.path("drive.img");
    let image = Image::create(&path, &profile("emulated-smr-1"), &CACHED).expect("a new image");
    let shown = path.display().to_string();
    let refused = |result: Result<Image, ImageError>| result.err().map(|error| error.to_string());
    let mend = "another skylight process serves or checks this image; stop that one, then try again";
    let second = refused(Image::open(&path, &CACHED));
    assert_eq!(second, Some(format!("{shown}: is in use: {mend}")));
    assert_eq!(second, check(&path, &CACHED).err().map(|error| error.to_string()));
    drop(image);
    let exists = refused(Image::create(&path, &profile("emulated-smr-1"), &CACHED));
    assert_eq!(
        exists,
        Some(format!("{shown}: is not empty; name another file, or give --destroy-data to overwrite it"))
    );
    let other = Options { profile: Some(profile("emulated-smr-2")), ..CACHED };
    let other = refused(Image::open(&path, &other)).expect("another drive");
    let (found, asked) = ("emulated-smr-1", "emulated-smr-2");
    assert!(other.contains(&format!("is an image of drive {found}, not of {asked}")), "{other}");
    let same = Options { profile: Some(profile("emulated-smr-1")), ..CACHED };
    assert!(Image::open(&path, &same).is_ok());
    let missing = refused(Image::open(&folder.path("none.img"), &CACHED)).expect("no file");
    assert!(missing.contains("cannot open it"), "{missing}");
}

/// One damaged copy of the superblock is told, serves nobody, and is written again from the other.
#[test]
fn a_damaged_copy_of_the_superblock_is_mended() {
    let folder = Folder::new();
    let path = folder.path("drive.img");
    let mut image = Image::create(&path, &profile("emulated-smr-1"), &CACHED).expect("a new image");
    image.write(4096, &block(9), true).and_then(|()| image.close()).expect("a clean end");
    let file = File::options().write(true).open(&path).expect("the file");
    let opened = || Image::open(&path, &CACHED).map(|mut image| read(&mut image, 4096)[0]);
    file.write_all_at(&[0; 512], 0).expect("a change");
    let problems = check(&path, &CACHED).expect("a check").problems;
    assert!(problems.len() == 1 && problems[0].contains("one of its two superblocks, at 0,"), "{problems:?}");
    let image = Image::open(&path, &CACHED).expect("the copy serves");
    assert_eq!(image.mended(), ["one of its two superblocks, at 0, was damaged"]);
    drop(image);
    assert_eq!(opened().expect("mended"), 9);
    assert_eq!(check(&path, &CACHED).expect("a check").problems, Vec::<String>::new());
    file.write_all_at(&[7], COPY + 4200).expect("a change");
    let problems = check(&path, &CACHED).expect("a check").problems;
    assert!(problems.len() == 1 && problems[0].contains("at 1 MiB,"), "{problems:?}");
    assert_eq!(opened().expect("the first serves"), 9);
    for at in [0, COPY] {
        file.write_all_at(&[0; 512], at).expect("a change");
    }
    let error = opened().expect_err("no superblock").to_string();
    assert!(error.contains("is not a skylight image"), "{error}");
}

/// Bytes of an image changed by hand, and the line that follows.
#[test]
fn what_is_foreign_newer_or_damaged_is_refused_in_one_line() {
    let folder = Folder::new();
    let path = folder.path("drive.img");
    let make = || {
        let options = Options { overwrite: true, ..CACHED };
        let mut image = Image::create(&path, &profile("emulated-smr-1"), &options).expect("a new image");
        image.write(4096, &block(9), true).expect("a write");
        image.close().expect("a clean end");
        File::options().read(true).write(true).open(&path).expect("the file")
    };
    let opened = || Image::open(&path, &CACHED).map(|mut image| read(&mut image, 4096)[0]);
    let line = |what: &str| {
        let error = opened().expect_err(what).to_string();
        assert!(!error.contains('\n') && error.starts_with(&path.display().to_string()), "{error}");
        assert!(error.contains(what), "{error}");
    };
    const MIB: u64 = 1 << 20;

    let file = make();
    let mut first = [0; 512];
    file.read_exact_at(&mut first, 0).expect("a superblock");
    make().write_all_at(&first, 0).expect("a change");
    line("is damaged: its two superblocks, at 0 and at 1 MiB, are of different images");

    let file = make();
    file.write_all_at(&[1], 100).expect("a change");
    file.write_all_at(&[1], MIB + 4200).expect("a change");
    line("is damaged: both its superblocks");

    let file = make();
    for at in [8, MIB + 8] {
        file.write_all_at(&4u32.to_le_bytes(), at).expect("a change");
    }
    line("has image format 4; this skylight reads 3");

    let file = make();
    let mut superblock = [0; 512];
    file.read_exact_at(&mut superblock, 0).expect("the superblock");
    let field = |at: usize| u64::from_le_bytes(superblock[at..at + 8].try_into().expect("8 bytes"));
    let checkpoints = [field(56), field(72)];
    for area in checkpoints {
        file.write_all_at(&[1], area + 4096 + 5).expect("a change");
    }
    line("the entries of checkpoint");
    for area in checkpoints {
        file.write_all_at(&[0; 1024], area).expect("a change");
    }
    line("neither of its checkpoints has a head");

    let file = make();
    file.set_len(3 * MIB).expect("a change");
    line("use a larger one");
    file.set_len(100).expect("a change");
    line("is not a skylight image");
}

/// The newest checkpoint is gone, and the log that goes on from it tells.
#[test]
fn a_checkpoint_that_is_lost_is_missed() {
    let store = FaultStore::new(RamStore::new(Image::bytes_needed(set_associative().as_ref(), &CACHED)));
    let mut image =
        Image::create_on(Box::new(store.clone()), set_associative(), "", &CACHED).expect("an image");
    image.write(0, &block(1), true).expect("a write");
    image.close().expect("a clean end");
    let mut image = Image::open_on(Box::new(store.clone()), set_associative(), &CACHED).expect("an image");
    image.write(8192, &block(2), true).expect("a write");
    drop(image);
    let mut bytes = [0; 512];
    store.read_at(0, &mut bytes).expect("the superblock");
    let second = u64::from_le_bytes(bytes[72..80].try_into().expect("8 bytes"));
    store.clone().discard(second, 1024).expect("a loss");
    let error = Image::open_on(Box::new(store), set_associative(), &CACHED).map(drop).expect_err("a loss");
    assert!(error.to_string().contains("its log goes on from checkpoint 1, which is not there"), "{error}");
}

fn set_associative() -> Box<dyn Layer> {
    Box::new(SetAssociative::new(SetAssociativeSpec {
        capacity: Sectors(65536),
        band: Sectors(1024),
        cache_bands: 4,
        cache_medium: Medium::Platter,
        cache_start: Pba(0),
        usable: Sectors(1024),
        bands_for_one_write: u64::MAX,
        idle_after: Some(Nanos(1)),
    }))
}

#[test]
fn an_error_of_a_read_is_told_and_goes_and_one_of_a_write_stops_changes() {
    let store = FaultStore::new(RamStore::new(Image::bytes_needed(set_associative().as_ref(), &CACHED)));
    let mut image =
        Image::create_on(Box::new(store.clone()), set_associative(), "", &CACHED).expect("an image");
    image.write(0, &block(1), true).expect("a write");
    store.fail_reads(0..store.len_bytes());
    let mut data = block(0);
    let error = image.read(0, &mut data).expect_err("a planted fault");
    assert_eq!(error.to_string(), "a medium that fails: cannot read: a planted fault");
    store.mend();
    assert_eq!(read(&mut image, 0)[0], 1);
    store.fail_after(1);
    assert!(image.write(4096, &block(2), true).is_err());
    store.mend();
    let stopped = image.write(4096, &block(2), true).expect_err("stopped").to_string();
    assert!(stopped.starts_with("the image takes no more changes after an error"), "{stopped}");
    assert_eq!(read(&mut image, 0)[0], 1, "what is on the medium is known, and is read");
    assert!(image.idle().is_err() && image.trim(0, 4096).is_err());
    drop(image);
    let mut image = Image::open_on(Box::new(store), set_associative(), &CACHED).expect("a recovery");
    assert_eq!(read(&mut image, 0)[0], 1);
}

/// A system may forget what it could not make durable: then nothing that is read is sure.
#[test]
fn an_error_of_a_sync_stops_reads_too() {
    let store = FaultStore::new(RamStore::new(Image::bytes_needed(set_associative().as_ref(), &CACHED)));
    let mut image =
        Image::create_on(Box::new(store.clone()), set_associative(), "", &CACHED).expect("an image");
    image.write(0, &block(1), false).expect("a write");
    // The block of the log, then the sync.
    store.fail_after(1);
    assert!(image.flush().is_err());
    store.mend();
    let error = image.read(0, &mut block(0)).expect_err("not sure").to_string();
    assert!(error.starts_with("the image takes no more changes after an error"), "{error}");
    assert!(image.flush().is_err() && image.route(0, 4096).is_err());
}

#[test]
fn ranges_beyond_the_drive_or_amid_sectors_are_refused() {
    let store = RamStore::new(Image::bytes_needed(set_associative().as_ref(), &CACHED));
    let mut image = Image::create_on(Box::new(store), set_associative(), "", &CACHED).expect("an image");
    let end = image.capacity_bytes();
    for (offset, len) in [(1, 512), (0, 100), (end, 512), (end - 512, 1024), (u64::MAX - 511, 512)] {
        let mut data = vec![0; len];
        assert!(matches!(image.read(offset, &mut data), Err(ImageError::OutOfRange { .. })));
        assert!(matches!(image.write(offset, &data, false), Err(ImageError::OutOfRange { .. })));
        assert!(matches!(image.trim(offset, len as u64), Err(ImageError::OutOfRange { .. })));
    }
    assert!(image.trim(0, u64::MAX).is_err() && image.locate(512, end).is_err());
    image.write(end, &[], false).expect("nothing at the end");
    assert_eq!(image.locate(0, 0).expect("nothing"), []);
}

#[test]
fn trimmed_room_is_given_back_and_a_compacted_image_reads_as_before() {
    // What cleaning leaves in the cache is given back; an image in place has nothing there.
    trims_and_compacts(true, 6 << 20);
    trims_and_compacts(false, 0);
}

fn trims_and_compacts(planned: bool, least_bytes: u64) {
    let options = Options { planned, ..CACHED };
    let folder = Folder::new();
    let path = folder.path("drive.img");
    let drive = profile("emulated-smr-1");
    let mut image = Image::create(&path, &drive, &options).expect("a new image");
    for k in 0..256 {
        image.write(k << 24, &vec![k as u8; 64 << 10], false).expect("a write");
    }
    image.flush().expect("a flush");
    image.write_zeroes(0, 128 << 24, true).expect("zeros");
    assert!((0..128).all(|k| read(&mut image, k << 24) == block(0)));
    let places = image.locate(127 << 24, 2 << 24).expect("places");
    assert!(
        places.iter().any(|place| place.cached) && places.iter().any(|place| !place.allocated),
        "{places:?}"
    );
    assert_eq!(places.iter().map(|place| place.len).sum::<u64>(), 2 << 24);
    image.close().expect("a clean end");
    let (before, after) = compact(&path, &options).expect("a smaller image");
    assert!(after + least_bytes <= before, "{before} {after}");
    let mut image = Image::open(&path, &options).expect("an image");
    for k in 0..256 {
        let expected = if k < 128 { 0 } else { k as u8 };
        assert_eq!(read(&mut image, k << 24), block(expected), "block {k}");
    }
}

/// 26 TB in a folder whose file system takes no such file: in parts, open in well under a second.
#[test]
fn a_drive_of_26_tb_opens_at_once_when_little_is_cached() {
    let folder = Folder::new();
    let path = folder.path("large.img");
    let capacity = Sectors(26_000_000_000_000 / 512 / 8 * 8);
    let layer = || -> Box<dyn Layer> {
        let journal = JournalSpec {
            region: PbaExtent::new(Pba(0), Sectors(200 << 21)),
            quantum: Sectors(1728),
            out_of_band: Sectors(7616),
            gap: Sectors(80),
            entry_max: Sectors(7800),
            entry_writes: 31,
            slots: 24_000,
        };
        let staging = PbaExtent::new(journal.region.end(), Sectors(72 << 10));
        let band = StretchSpec {
            sectors: capacity,
            band: Sectors(72 << 10),
            guard: Sectors(4096),
            start: staging.end(),
        };
        let bands = Bands::new(&[band]);
        let home = PbaExtent::new(bands.platter_end(), Sectors(128));
        let cleaning =
            CleaningSpec { order: CleaningOrder::Fifo, idle_after: None, staging, map_update: home };
        Box::new(Journaled::new(JournaledSpec {
            bands,
            journal,
            cache_medium: Medium::Platter,
            map_limit: None,
            map_merge_every: None,
            map_merge: home,
            cleaning,
            whole_bands_bypass: true,
            bands_for_one_command: 100,
        }))
    };
    let bytes = Image::bytes_needed(layer().as_ref(), &CACHED);
    let mut image = match Image::create_at(&path, layer(), "", &CACHED) {
        Ok(image) => image,
        Err(error) => {
            // A file system with little room for holes (tmpfs) says so in its own words.
            println!("skipped: {error}");
            return;
        }
    };
    let last = image.capacity_bytes() - 4096;
    for k in 0..1000 {
        image.write(last / 1000 / 4096 * 4096 * k, &block(k as u8), false).expect("a write");
    }
    image.write(last, &block(77), true).expect("a write");
    drop(image);
    let begun = Instant::now();
    let mut image = Image::open_at(&path, layer(), &CACHED).expect("a recovery");
    let took = begun.elapsed();
    println!("{bytes} bytes open in {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(read(&mut image, last)[0], 77);
    assert!(image.stored_bytes().expect("its size").0 < 64 << 20);
}

#[test]
fn direct_io_writes_what_is_not_aligned() {
    let folder = Folder::new();
    let path = folder.path("device");
    let layer = || -> Box<dyn Layer> { Box::new(Conventional::new(Medium::Platter, Sectors(8192))) };
    let bytes = Image::bytes_needed(layer().as_ref(), &CACHED);
    File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file");
    let store = match DeviceStore::open(&path, Access::Use) {
        Ok(store) => store,
        Err(error) => {
            println!("skipped, no direct I/O here: {error}");
            return;
        }
    };
    let mut image = Image::create_on(Box::new(store), layer(), "", &CACHED).expect("a new image");
    let mut expected = vec![0; 4 << 20];
    for (number, (from, len)) in
        [(0, 512), (512, 1024), (7 * 512, 3 << 20), (4096, 4096)].into_iter().enumerate()
    {
        let data: Vec<u8> = (0..len).map(|k| (k / 512 + number) as u8).collect();
        image.write(from as u64, &data, false).expect("a write");
        expected[from..from + len].copy_from_slice(&data);
    }
    image.write_zeroes(512, 512, true).expect("zeros");
    expected[512..1024].fill(0);
    image.close().expect("a clean end");
    let store = DeviceStore::open(&path, Access::Use).expect("the device");
    let mut image = Image::open_on(Box::new(store), layer(), &CACHED).expect("an image");
    let mut data = vec![1; expected.len()];
    image.read(0, &mut data).expect("a read");
    assert!(data == expected);
}

/// Length of a part of an image where one file cannot hold it.
const PART: u64 = 8 << 40;

/// An image in parts, then one in their place that needs none, or fewer: nothing of the old one is left over.
#[test]
fn parts_of_an_image_that_is_overwritten_go() {
    let folder = Folder::new();
    let path = folder.path("drive.img");
    if let Err(error) = FileStore::create(&path, 3 * PART - 3 * 4096, false) {
        println!("skipped, no room for large holes here: {error}");
        return;
    }
    if !beside(&path, 1).exists() {
        println!("skipped: this file system takes 24 TiB in one file");
        return;
    }
    drop(FileStore::create(&path, 3 * PART - 3 * 4096, true).expect("the same again"));
    assert!(beside(&path, 2).exists() && !beside(&path, 3).exists());
    let len = 2 * PART + (1 << 40);
    let mut store = FileStore::create(&path, len, true).expect("a smaller one");
    // The two parts behind the first have a head each.
    assert_eq!(fs::metadata(beside(&path, 2)).expect("the last part").len(), (1 << 40) + 2 * 4096);
    store.write_at(2 * PART, &[7; 512]).expect("a write to the last part");
    drop(store);
    let store = FileStore::open(&path, Access::Use).and_then(|first| first.with_parts(PART, 4096, len));
    let store = store.expect("all parts");
    assert_eq!(store.len_bytes(), len);
    drop(store);
    let store = FileStore::create(&path, 1 << 20, true).expect("one without parts");
    assert!(!beside(&path, 1).exists() && !beside(&path, 2).exists());
    let mut bytes = [1; 512];
    store.read_at(512, &mut bytes).expect("a read");
    assert_eq!((bytes, store.len_bytes()), ([0; 512], 1 << 20));
}

/// What has the name of a part and is none of ours is not touched, and no image is begun beside it.
#[test]
fn a_file_that_is_in_the_way_of_a_part_stays() {
    let folder = Folder::new();
    let path = folder.path("drive.img");
    fs::write(beside(&path, 1), "somebody's").expect("a file");
    drop(FileStore::create(&path, 1 << 20, false).expect("an image that needs no parts"));
    assert_eq!(fs::read(beside(&path, 1)).expect("the file"), b"somebody's");
    fs::remove_file(&path).expect("the image");
    match FileStore::create(&path, 3 * PART, false) {
        Ok(_) => assert!(!beside(&path, 2).exists(), "in one file"),
        Err(ImageError::NotEmpty(in_the_way)) => {
            assert_eq!(in_the_way, beside(&path, 1));
            assert!(!path.exists(), "what was begun is gone");
        }
        Err(error) => println!("skipped, no room for large holes here: {error}"),
    }
    assert_eq!(fs::read(beside(&path, 1)).expect("the file"), b"somebody's");
}

/// No space left on device.
const ENOSPC: i32 = 28;

/// A store on which nothing succeeds any more, syncs neither: what was acknowledged stays, what was not is refused with
/// the system's word.
#[test]
fn a_full_file_system_loses_nothing_that_was_acknowledged() {
    for write_cache in [false, true] {
        let options = Options { write_cache, ..CACHED };
        let store = FaultStore::new(RamStore::new(Image::bytes_needed(set_associative().as_ref(), &options)));
        let mut durable: Vec<u64> = Vec::new();
        for round in 0..40 {
            let opened = match round {
                0 => Image::create_on(Box::new(store.clone()), set_associative(), "", &options),
                _ => Image::open_on(Box::new(store.clone()), set_associative(), &options),
            };
            let mut image = opened.expect("an image after space was made");
            for &at in &durable {
                assert_eq!(read(&mut image, at * 4096), block(at as u8 ^ 0x5a), "round {round}, block {at}");
            }
            store.fail_after_with(3 + round * 7 % 23, ENOSPC);
            let mut failed = None;
            let mut unflushed = Vec::new();
            for k in 0..200 {
                let at = (round * 200 + k) % 8192;
                if let Err(error) = image.write(at * 4096, &block(at as u8 ^ 0x5a), false) {
                    failed = Some(error);
                    break;
                }
                unflushed.push(at);
                if write_cache && k % 5 != 4 {
                    continue;
                }
                if let Err(error) = image.flush() {
                    failed = Some(error);
                    break;
                }
                durable.append(&mut unflushed);
            }
            let failed = failed.expect("it was full at some point").to_string();
            assert!(failed.contains("No space left on device"), "{failed}");
            let again = image.write(0, &block(0x5a), false).expect_err("it is still full").to_string();
            assert!(again.contains("No space left"), "{again}");
            assert!(image.flush().is_err(), "nothing is said to be durable that is not");
            store.mend();
        }
        assert!(durable.len() > 100, "{}", durable.len());
    }
}
