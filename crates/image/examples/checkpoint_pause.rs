//! How long a command waits at worst for a checkpoint, while the cache of a large drive fills: 4 KiB writes to every
//! second block of emulated-smr-1, whose cache has room for 9.7 million of them before it cleans.
//!
//! `cargo run --release -p skylight-image --example checkpoint_pause [FOLDER] [BLOCKS] [whole]`; with `whole` each
//! checkpoint is written in one go, to compare. Log and checkpoints lie in a file; data is not kept, since it would be
//! 37 GiB. On a busy machine the longest times are those of the scheduler.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use skylight_drive::profile::Profile;
use skylight_image::store::file::FileStore;
use skylight_image::{Image, Options, Store};

/// A file of which only the start is kept.
struct StartOnly {
    file: FileStore,
    kept: u64,
    len: u64,
}

impl Store for StartOnly {
    fn name(&self) -> String {
        self.file.name()
    }

    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset < self.kept {
            return self.file.read_at(offset, buffer);
        }
        buffer.fill(0);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < self.kept { self.file.write_at(offset, data) } else { Ok(()) }
    }

    fn begin_sync(&mut self, offset: u64, len: u64) {
        self.file.begin_sync(offset, len);
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn discard(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| ".".to_owned());
    let count: u64 = arguments.next().map_or(9_200_000, |text| text.parse().expect("a number"));
    let profile =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/skylight/profiles/emulated-smr-1.toml");
    let text = std::fs::read_to_string(profile).expect("the profile");
    let profile = Profile::from_toml(&text, "emulated-smr-1").expect("a drive");
    let layer = skylight_drive::build::layer(&profile).expect("its layer");
    let piece = arguments.next().filter(|word| word == "whole").map(|_| u64::MAX);
    let options = Options { write_cache: true, piece, ..Options::default() };
    let (len, platter) = (Image::bytes_needed(layer.as_ref(), &options), layer.media_use().platter.bytes());
    let path = Path::new(&folder).join("checkpoint-pause.img");
    let kept = len - platter;
    let file = FileStore::create(&path, kept, true).expect("a file");
    let store = Box::new(StartOnly { file, kept, len });
    let mut image = Image::create_on(store, layer, &text, &options).expect("an image");
    let data = [0x5a; 4096];
    let mut worst: Vec<(Duration, u64)> = Vec::new();
    let begun = Instant::now();
    for k in 0..count {
        let began = Instant::now();
        image.write(k * 8192, &data, false).expect("a write");
        worst.push((began.elapsed(), k));
        if worst.len() > 1 << 20 {
            keep_worst(&mut worst);
        }
        if k % 1_000_000 == 0 {
            let status = image.status();
            println!("{k} writes, {} entries, {:?}", status.cache.map_entries, begun.elapsed());
        }
    }
    let checkpoints = image.status().counters.checkpoints;
    keep_worst(&mut worst);
    println!("{checkpoints} checkpoints; the longest of {count} writes:");
    for (took, k) in worst.iter().take(12) {
        println!("  {took:9.3?} at write {k}");
    }
    let began = Instant::now();
    image.close().expect("a clean end");
    println!("closed in {:.3?}", began.elapsed());
    std::fs::remove_file(path).expect("its file");
}

fn keep_worst(worst: &mut Vec<(Duration, u64)>) {
    worst.sort_unstable_by(|one, other| other.cmp(one));
    worst.truncate(64);
}
