//! What the overwritten map of a raw shingled disk takes while a whole drive is written in order, and how it
//! grows with what is torn. Alone in its binary: it counts every byte that is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use skylight_disk::layout::{RecordingZone, Skews, segments};
use skylight_disk::{Angle, Geometry, Lba, LbaExtent, Sectors, Shingling};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};
use skylight_layer::{Command, CommandId, Layer, Op, Overwriting, Plan, Queue, Swd, SwdSpec};

/// The system's allocator, counting.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes on to the system's allocator as it came; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `alloc`, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `System.alloc` with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One surface of 160 GB in 18 recording zones with tracks of 2,200 to 1,000 sectors: the paper's disk.
fn disk() -> Geometry {
    let zone = |number: u32| RecordingZone { tracks: 10_850, sectors_per_track: 2200 - number * 1200 / 17 };
    let zones: Vec<_> = (0..18).map(zone).collect();
    let skews = Skews { track: Angle::from_revolutions(0.123), ..Skews::default() };
    Geometry::new(&segments(skylight_disk::Layout::Cylinder, &zones, 1, skews)).expect("a disk")
}

fn layer(geometry: &Geometry, width_tracks: u32) -> Swd {
    Swd::new(SwdSpec {
        capacity: geometry.capacity(),
        geometry: geometry.clone(),
        shingling: Shingling::new(width_tracks).expect("a width"),
        bands: None,
        mode: ReadMode { data: ReadData::Overwriting, fail: true },
        pattern: 0,
    })
}

fn ask(layer: &mut Swd, plan: &mut Plan, op: Op, start: u64, len: u64) {
    plan.clear();
    let extent = LbaExtent::new(Lba(start), Sectors(len));
    let waiting = [Command::new(CommandId(1), op, extent)];
    layer.take(Queue { waiting: &waiting, next: 0 }, plan);
}

/// Writes all from `start` on in order, and now and then reads what was written; the most memory meanwhile.
fn fill(layer: &mut Swd, start: u64, write: u64, read_every: u64) -> usize {
    let (capacity, mut plan) = (layer.capacity().get(), Plan::default());
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut at = start;
    while at < capacity {
        ask(layer, &mut plan, Op::Write, at, write.min(capacity - at));
        if (at / write).is_multiple_of(read_every) {
            ask(layer, &mut plan, Op::Read, at, write.min(capacity - at));
        }
        at += write;
    }
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn a_sequential_fill_takes_less_than_a_mebibyte_and_tears_grow_with_what_is_torn() {
    let geometry = disk();
    let capacity = geometry.capacity().get();
    println!("{} bytes in {} tracks", geometry.capacity().bytes(), geometry.tracks());
    // The whole drive in writes of 256 KiB; its last 128 MiB in blocks and in sectors, with many reads.
    let last = capacity - (1 << 27) / 512;
    for (width, start, write, read_every) in
        [(3, 0, 512, 1000), (16, 0, 512, 50), (16, last, 8, 7), (16, last, 1, 7), (16, 0, 1 << 20, 3)]
    {
        let mut layer = layer(&geometry, width);
        let most = fill(&mut layer, start, write, read_every);
        let (fragments, stamps) = layer.snapshot_entries();
        println!("k = {width}, writes of {write} sectors from {start}: {most} bytes, {fragments}, {stamps}");
        assert!(most < 1 << 20, "{most} bytes at k = {width} in writes of {write} sectors");
        assert!(layer.counters().overwritten_reads == 0);
    }
    // In the other direction every write tears the one before: fragments are as many, and memory with them.
    let mut torn = layer(&geometry, 3);
    let (mut plan, before) = (Plan::default(), HELD.load(Ordering::Relaxed));
    let blocks = 20_000;
    for number in (0..blocks).rev() {
        ask(&mut torn, &mut plan, Op::Write, number * 8 * 997, 8);
    }
    let (fragments, _) = torn.snapshot_entries();
    let taken = HELD.load(Ordering::Relaxed) - before;
    println!("{blocks} blocks far apart: {fragments} fragments, {} bytes each", taken / fragments);
    assert!(fragments as u64 >= blocks && fragments as u64 <= 4 * blocks);
    assert!(taken / fragments < 150, "{} bytes a fragment", taken / fragments);
}
