//! What the paper recommends, against the conventional drive of the same mechanics (Skylight, section 6).

use crate::limits::until_cleaning;
use crate::paper_tools::{BLOCK, GIB, KIB, Random, drive, flush, st5000, writes};
use crate::table::Figure;

const CONVENTIONAL: &str = "st4000nc001";

/// Random 4 KiB writes per second, until the persistent cache is full.
fn random_rate(depth: usize, write_cache: bool) -> f64 {
    let mut drive = st5000();
    assert_eq!(drive.set_write_cache(write_cache), write_cache);
    let begin = drive.now().get();
    // The write that waits is not counted and cleaning is not timed, so a second drive runs exactly this
    // count.
    let count = until_cleaning(&mut drive, BLOCK, depth);
    let mut drive = st5000();
    assert_eq!(drive.set_write_cache(write_cache), write_cache);
    let end = drive.capacity().bytes();
    let mut random = Random(BLOCK + depth as u64);
    let offsets: Vec<u64> = (0..count).map(|_| random.below(end / BLOCK) * BLOCK).collect();
    writes(&mut drive, &offsets, BLOCK, depth);
    count as f64 / ((drive.now().get() - begin) as f64 / 1e9)
}

pub fn s13() -> Vec<Figure> {
    let mut conventional = drive(CONVENTIONAL);
    let offsets = Random(5).offsets(4_000, BLOCK, conventional.capacity().bytes());
    let rate = 4_000.0 / (writes(&mut conventional, &offsets, BLOCK, 1).took_ms() / 1e3);
    vec![
        ("depth 31 over st4000nc001 at depth 1", random_rate(31, false) / rate),
        ("volatile cache on over st4000nc001 at depth 1", random_rate(1, true) / rate),
    ]
}

/// MB/s of 4 GiB written from the first address on, until all of it is on the media.
fn sequential_rate(name: &str, size: u64, depth: usize, write_cache: bool) -> f64 {
    let mut drive = drive(name);
    assert_eq!(drive.set_write_cache(write_cache), write_cache);
    let total = if size < 64 * KIB { GIB / 8 } else { 4 * GIB };
    let offsets: Vec<u64> = (0..total / size).map(|at| at * size).collect();
    let begin = drive.now().get();
    writes(&mut drive, &offsets, size, depth);
    flush(&mut drive);
    total as f64 / ((drive.now().get() - begin) as f64 / 1e3)
}

/// "Sequential throughput (with the volatile cache disabled) is much lower (by 3x or more, depending on write
/// size) than for conventional drives". This is throughput, so the test uses the depth at which a
/// conventional drive streams. One at a time, a conventional drive loses a revolution per write, and 2.5
/// revolutions are never 3 times that.
pub fn s14() -> Vec<Figure> {
    let streaming = |kib: u64| sequential_rate(CONVENTIONAL, kib * KIB, 31, false);
    let slower = |kib: u64| streaming(kib) / sequential_rate("st5000as0011", kib * KIB, 31, false);
    let lone = |name: &str| sequential_rate(name, BLOCK, 1, false);
    let lone = lone(CONVENTIONAL) / lone("st5000as0011");
    println!("S14 | cache off, 4 KiB one at a time, st4000nc001 over ours: {lone:.2}, no band");
    let as_fast = |kib: u64| sequential_rate("st5000as0011", kib * KIB, 1, true) / streaming(kib);
    for kib in [256, 1024] {
        println!("S14 | cache off, {kib} KiB, st4000nc001 over ours: {:.2}, no band", slower(kib));
    }
    vec![
        ("cache off, 4 KiB, st4000nc001 over ours", slower(4)),
        ("cache off, 16 KiB, st4000nc001 over ours", slower(16)),
        ("cache off, 64 KiB, st4000nc001 over ours", slower(64)),
        ("cache on, 64 KiB, ours over st4000nc001", as_fast(64)),
        ("cache on, 256 KiB, ours over st4000nc001", as_fast(256)),
        ("cache on, 1 MiB, ours over st4000nc001", as_fast(1024)),
    ]
}
