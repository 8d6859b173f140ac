//! A file system that fills up, after any effect of random sessions: reads stay right, writes fail and then succeed again
//! when there is space, a power cut meanwhile loses nothing durable, and an image starts where it is full.
//!
//! `SKYLIGHT_FULL` is how many sessions there are in all (500 if it is not set), `PROPTEST_RNG_SEED` the seed (1).

#[path = "../common/env_number.rs"]
mod common;
#[path = "../power_cuts/drives.rs"]
mod drives;
#[path = "../media/mod.rs"]
mod media;
mod model;
mod session;

use std::path::Path;

use common::number;
use drives::DRIVES;
use media::fault::{FaultStore, Full};
use media::ram::RamStore;
use session::{Seen, Session};
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_drive::profile::Profile;
use skylight_image::planted_bugs::Planted;
use skylight_image::{Image, Options};
use skylight_layer::capabilities::overwriting::Loss;

/// Sessions of a drive until one goes wrong; what came up.
fn sessions(index: usize, count: u64, planted: Option<Planted>) -> Result<Seen, String> {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let mut seen = Seen::default();
    for at in 0..count {
        let own = seed.wrapping_mul(1_000_003).wrapping_add(at * DRIVES.len() as u64 + index as u64);
        Session::new(DRIVES[index], own, planted).run(&mut seen).map_err(|why| {
            format!("{}, PROPTEST_RNG_SEED={seed}, session {at}: {why}", DRIVES[index].name)
        })?;
    }
    Ok(seen)
}

#[test]
fn a_full_file_system_refuses_writes_and_nothing_else() {
    let each = number("SKYLIGHT_FULL", 500) / DRIVES.len() as u64 + 1;
    for (index, drive) in DRIVES.iter().enumerate() {
        let seen = sessions(index, each, None).unwrap_or_else(|why| panic!("{why}"));
        println!("{}: {seen:?}", drive.name);
        assert!(each < 50 || seen.refused > 0 && seen.mended > 0 && seen.started_full > 0, "{seen:?}");
    }
}

/// Overwritten sectors of the first so many bytes, and by which write.
fn losses(image: &mut Image, bytes: u64) -> Vec<Loss> {
    let extent = LbaExtent::new(Lba(0), Sectors(bytes / SECTOR_BYTES));
    image.overwriting().expect("a raw shingled disk").losses(extent)
}

/// A write of a raw shingled disk destroys others: one for which there is no space does not, also after a power cut.
fn refused_writes_overwrite_nothing(planted: Option<Planted>) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/skylight/profiles/swd-160gb.toml");
    let text = std::fs::read_to_string(file).expect("a profile");
    let profile = Profile::from_toml(&text, "swd-160gb").expect("a drive");
    let layer = || skylight_drive::build::layer(&profile).expect("a layer");
    let options = Options { write_cache: true, plants: planted.into(), ..Options::default() };
    let store = FaultStore::new(RamStore::new(Image::bytes_needed(layer().as_ref(), &options)));
    let mut image = Image::create_on(Box::new(store.clone()), layer(), "", &options).expect("an image");
    let far = 1 << 30;
    let data = vec![7; 4096];
    image.write(far, &data, true).expect("a write");
    let mut before = losses(&mut image, 2 * far);
    store.full_after(0, Full::Holes);
    let check = |image: &mut Image, before: &[Loss], when: &str| match losses(image, 2 * far) == before {
        true => Ok(()),
        false => Err(format!("{when}, sectors are overwritten by a write that was refused")),
    };
    for at in [0, 1 << 20, far - (1 << 20), far + (8 << 20)] {
        let error = image.write(at, &data, false).expect_err("no space");
        assert!(error.is_no_space(), "{error}");
        check(&mut image, &before, "at once")?;
    }
    image.write(far, &data, true).expect("it has its space");
    before = losses(&mut image, 2 * far);
    drop(image);
    let open = || Image::open_on(Box::new(store.clone()), layer(), &options).expect("an image");
    // A start that finds no space at all has its checkpoint before the next change, which is refused here.
    store.full_after(0, Full::Writes);
    image = open();
    store.full_after(0, Full::Holes);
    let generation = image.status().generation;
    image.write(5 << 20, &data, false).expect_err("no space");
    assert!(image.status().generation > generation, "a checkpoint while a write is not on record");
    check(&mut image, &before, "after a checkpoint")?;
    drop(image);
    image = open();
    check(&mut image, &before, "after a start from that checkpoint")?;
    store.mend();
    image.write(0, &data, true).expect("there is space");
    let newest = losses(&mut image, 2 * far).into_iter().map(|loss| loss.by.write).max();
    assert_eq!(newest, Some(3), "writes that were refused have no number");
    Ok(())
}

#[test]
fn a_write_that_is_refused_overwrites_nothing_on_a_raw_shingled_disk() {
    refused_writes_overwrite_nothing(None).unwrap_or_else(|why| panic!("{why}"));
    let noticed = refused_writes_overwrite_nothing(Some(Planted::LayerKept));
    println!("{}", noticed.expect_err("a layer that keeps a write that was refused"));
}

#[test]
fn a_layer_that_is_not_taken_up_again_is_noticed() {
    let noticed = (2..DRIVES.len()).find_map(|index| sessions(index, 200, Some(Planted::LayerKept)).err());
    println!("{}", noticed.expect("a layer that goes on from a plan that was refused"));
}
