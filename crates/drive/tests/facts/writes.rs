//! Test 1 and its variants: the latency of random writes (Skylight, sections 4.3 and 4.3.1).

use skylight_disk::Nanos;
use skylight_drive::TraceRow;
use skylight_layer::Purpose;

use crate::paper_tools::{
    BLOCK, GIB, KIB, MIB, Random, drive, least, median, most, reads, spread, st5000, writes,
};
use crate::table::Figure;

/// Latencies of test 1: blocks of the first `region` bytes, in random order, one at a time.
fn test_1(name: &str, region: u64) -> Vec<f64> {
    let mut offsets: Vec<u64> = (0..region / BLOCK).map(|block| block * BLOCK).collect();
    Random(3).shuffle(&mut offsets);
    offsets.truncate(4_000);
    writes(&mut drive(name), &offsets, BLOCK, 1).latencies_ms()
}

/// In one band: with `a mod n`, a gigabyte would be in 26 cache bands at unrelated angles (docs/figures.md, row S1a).
pub fn s1a() -> Vec<Figure> {
    let ms = test_1("emulated-smr-1", 16 * MIB);
    vec![
        ("em-1, one band, median ms", median(&ms)),
        ("em-1, one band, quartiles apart, of the median", spread(&ms)),
    ]
}

pub fn s1b() -> Vec<Figure> {
    vec![("em-2, median ms", median(&test_1("emulated-smr-2", GIB)))]
}

pub fn s1c() -> Vec<Figure> {
    let ms = test_1("emulated-smr-3", 16 * MIB);
    vec![
        ("em-3, one band, median ms", median(&ms)),
        ("em-3, one band, quartiles apart, of the median", spread(&ms)),
    ]
}

pub fn s1d() -> Vec<Figure> {
    vec![("st4000nc001, quartiles apart, of the median", spread(&test_1("st4000nc001", GIB)))]
}

pub fn s1e() -> Vec<Figure> {
    let first = |phase: u64| {
        let mut drive = st5000();
        drive.pause(Nanos(phase * 253_000));
        writes(&mut drive, &[GIB], BLOCK, 1).latencies_ms()[0]
    };
    let first: Vec<f64> = (0..40).map(first).collect();

    let mut drive = st5000();
    drive.start_trace(10_000);
    let offsets = Random(1).offsets(2_400, BLOCK, GIB);
    let ms = writes(&mut drive, &offsets, BLOCK, 1).latencies_ms();
    let later = ms.iter().enumerate().skip(1);
    let (merges, others): (Vec<_>, Vec<_>) = later.partition(|(at, _)| (at + 1) % 240 == 0);
    let [merges, others] =
        [merges, others].map(|part| part.into_iter().map(|(_, ms)| *ms).collect::<Vec<_>>());
    let inside = others.iter().filter(|ms| (23.8..=26.0).contains(*ms)).count() as f64;
    let trace = drive.take_trace().expect("a trace was started");
    let at_md = |row: &&TraceRow| row.purpose == Purpose::MapMerge;
    let stay = |row: &TraceRow| (row.end - row.arrived).get() as f64 / 1e6;
    let stays: Vec<f64> = trace.rows().iter().filter(at_md).map(stay).collect();
    assert_eq!(stays.len(), 10);
    println!("S1e | time at the MD, ms: paper 285, ours {:.1}, no band", median(&stays));
    vec![
        ("first write at best, ms", least(&first)),
        ("first write at worst, ms", most(&first)),
        ("every 240th write, least ms", least(&merges)),
        ("every 240th write, most ms", most(&merges)),
        ("the others, median ms", median(&others)),
        ("the others, share within 23.8 to 26 ms", inside / others.len() as f64),
    ]
}

pub fn s1f() -> Vec<Figure> {
    let took = |depth: usize| {
        let mut drive = st5000();
        let offsets = Random(2).offsets(257, BLOCK, GIB);
        // The head is at the OD when they start.
        writes(&mut drive, &offsets[..1], BLOCK, 1);
        writes(&mut drive, &offsets[1..], BLOCK, depth).took_ms()
    };
    vec![("256 writes at depth 1, ms", took(1)), ("256 writes at depth 31, ms", took(31))]
}

pub fn s1g() -> Vec<Figure> {
    let read_back = |depth: usize| {
        let mut drive = st5000();
        let offsets = Random(3).offsets(200, BLOCK, GIB);
        writes(&mut drive, &offsets, BLOCK, depth);
        median(&reads(&mut drive, &offsets, BLOCK).latencies_ms())
    };
    vec![
        ("read back after depth 1, median ms", read_back(1)),
        ("read back after depth 31, median ms", read_back(31)),
    ]
}

/// Latencies of bursts of 31 writes of one size; each burst starts when the previous one has completed.
fn burst_ms(size: u64) -> Vec<f64> {
    let mut drive = st5000();
    let offsets = Random(size).offsets(1 + 31 * 7, 256 * KIB, 100 * GIB);
    writes(&mut drive, &offsets[..1], BLOCK, 1);
    let bursts = offsets[1..].chunks(31).map(|burst| writes(&mut drive, burst, size, 31).latencies_ms());
    bursts.flatten().collect()
}

pub fn s1h() -> Vec<Figure> {
    let sizes: Vec<u64> = (2..=55).map(|two_kib| two_kib * 2).collect();
    let medians: Vec<f64> = sizes.iter().map(|size| median(&burst_ms(size * KIB))).collect();
    let steps = medians.windows(2).map(|pair| pair[1] - pair[0]);
    let edges: Vec<u64> =
        steps.zip(&sizes[1..]).filter(|(step, _)| *step > 2.0).map(|(_, size)| *size).collect();
    println!("S1h | all edges up to 110 KiB: {edges:?}");
    assert!(edges.len() >= 3, "S1h: fewer edges than the paper's three: {edges:?}");
    let flat = |(size, ms): (&u64, &f64)| ms - 4.5 * edges.iter().filter(|edge| *edge <= size).count() as f64;
    let flat: Vec<f64> = sizes.iter().zip(&medians).map(flat).collect();
    let (below, above) = flat.split_at(sizes.iter().filter(|size| **size <= 26).count());
    let mixed = burst_ms(256 * KIB);
    vec![
        ("first edge, KiB", edges[0] as f64),
        ("second edge, KiB", edges[1] as f64),
        ("third edge, KiB", edges[2] as f64),
        ("4 to 26 KiB, least ms", least(below)),
        ("4 to 26 KiB, most ms", most(below)),
        ("28 to 110 KiB less 4.5 ms an edge, least ms", least(above)),
        ("28 to 110 KiB less 4.5 ms an edge, most ms", most(above)),
        ("spread at 256 KiB, ms", most(&mixed) - least(&mixed)),
    ]
}
