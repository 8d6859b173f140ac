//! Prints how many random writes of 4 KiB a second an image in a file takes: with the write cache off, where each is
//! durable before the next, and with it on, with a flush behind every 64, and with none.
//!
//! `cargo run --release -p skylight-image --example flush_rate -- PROFILE.toml FOLDER [WRITES]`

use std::path::{Path, PathBuf};
use std::time::Instant;

use skylight_drive::profile::Profile;
use skylight_image::{Image, Options};

const BLOCK: usize = 4096;
/// Writes behind which a flush comes.
const FLUSH_EVERY: u64 = 64;

/// Writes a second: blocks all over the drive, with a flush behind every so many if any.
fn rate(path: &Path, profile: &Profile, write_cache: bool, writes: u64, flush_every: Option<u64>) -> f64 {
    let options = Options { write_cache, overwrite: true, ..Options::default() };
    let mut image = Image::create(path, profile, &options).expect("an image");
    let blocks = image.capacity_bytes() / BLOCK as u64;
    let begun = Instant::now();
    for number in 0..writes {
        let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * BLOCK as u64;
        image.write(at, &[number as u8; BLOCK], false).expect("a write");
        if flush_every.is_some_and(|every| (number + 1) % every == 0) {
            image.flush().expect("a flush");
        }
    }
    writes as f64 / begun.elapsed().as_secs_f64()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a profile");
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let writes: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let text = std::fs::read_to_string(&path).expect("a profile");
    let profile = Profile::from_toml(&text, &path).expect("a drive");
    let file = folder.join("flush-rate.img");
    let off = rate(&file, &profile, false, writes, None);
    let flushed = rate(&file, &profile, true, writes * 8, Some(FLUSH_EVERY));
    let on = rate(&file, &profile, true, writes * 16, None);
    println!("write cache off {off:9.0} /s, on {on:9.0} /s, on and flushed {flushed:9.0} /s");
    std::fs::remove_file(file).expect("its file");
}
