//! How long a layer takes to take up the state of its image again, after a write that found no space: for maps of several
//! sizes.
//!
//! `cargo run --release -p skylight-image --example reopen_time`

#[path = "../tests/media/mod.rs"]
mod media;

use std::path::Path;
use std::time::Instant;

use media::fault::{FaultStore, Full, Random};
use media::ram::RamStore;
use skylight_drive::profile::Profile;
use skylight_image::{Image, Options};

fn main() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/skylight/profiles/st5000as0011.toml");
    let text = std::fs::read_to_string(file).expect("a profile");
    let profile = Profile::from_toml(&text, "st5000as0011").expect("a drive");
    let layer = || skylight_drive::build::layer(&profile).expect("a layer");
    let options = Options { write_cache: true, ..Options::default() };
    for entries in [1_000_u64, 5_000, 20_000] {
        let store = FaultStore::new(RamStore::new(Image::bytes_needed(layer().as_ref(), &options)));
        let mut image =
            Image::create_on(Box::new(store.clone()), layer(), &text, &options).expect("an image");
        let (mut random, blocks) = (Random(1), image.capacity_bytes() / 4096);
        while image.status().cache.map_entries < entries {
            image.write(random.below(blocks) * 4096, &[1; 4096], false).expect("a write");
            store.take_effects();
        }
        store.full_after(0, Full::Writes);
        let began = Instant::now();
        let refused = image.write(random.below(blocks) * 4096, &[1; 4096], false);
        println!("{entries} entries: refused in {:?}", began.elapsed());
        assert!(refused.is_err());
    }
}
