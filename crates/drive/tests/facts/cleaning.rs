//! Figures 11 to 13: how the Seagate drive cleans when idle (Skylight, sections 4.5 and 4.5.1).

use skylight_drive::TraceRow;
use skylight_layer::Purpose;

use crate::paper_tools::{
    BLOCK, KIB, MIB, Random, band_start, is_cached, median, pause_s, reads, st5000, writes,
};
use crate::table::Figure;

/// Figure 11: 512 blocks of a band at 2.5 TB, then idle time.
pub fn s3b() -> Vec<Figure> {
    let mut drive = st5000();
    let offset = band_start(2_500_000_000_000);
    let offsets: Vec<u64> = (0..512).map(|block| offset + block * 8 * KIB).collect();
    writes(&mut drive, &offsets, BLOCK, 1);
    let last = drive.now().get();
    drive.start_trace(10_000);
    pause_s(&mut drive, 5.0);
    // "The first write always consists of a seek from the ID to the OD (about 16 ms)", as here.
    writes(&mut drive, &[0], BLOCK, 1);
    let trace = drive.take_trace().expect("a trace was started");
    let rows = trace.rows();
    let first = |purpose| *rows.iter().find(|row| row.purpose == purpose).expect("cleaning has this step");
    let (band_read, staged) = (first(Purpose::CleanRead), first(Purpose::CleanStage));
    let (written, update, next) =
        (first(Purpose::CleanWrite), first(Purpose::MapUpdate), first(Purpose::OutOfBand));
    let after = rows.iter().position(|row| *row == update).map(|at| rows[at + 1]);
    assert_eq!(after, Some(next), "the map is the last that the head goes to");
    let ms = |from: skylight_disk::Time, to: skylight_disk::Time| (to.get() - from.get()) as f64 / 1e6;
    let stay = |row: &TraceRow| ms(row.arrived, row.end);
    vec![
        ("start after the last write, s", (band_read.start.get() - last) as f64 / 1e9),
        ("band read, ms", stay(&band_read)),
        // rows[0] is the band, rows[1] the first gathered block.
        ("at the OD, ms", ms(rows[1].arrived, staged.end)),
        ("band written, ms", stay(&written)),
        (
            "then the map, share of the stroke from the OD",
            f64::from(update.track) / f64::from(drive.disk().geometry().tracks()),
        ),
        ("in all, s", ms(band_read.start, update.end) / 1e3),
        ("then parked: seek from there to the OD, ms", ms(next.start, next.arrived)),
    ]
}

/// Test 4.
pub fn s4a() -> Vec<Figure> {
    let mut drive = st5000();
    let end = drive.capacity().bytes();
    let offsets = Random(4).offsets(4_096, BLOCK, end);
    writes(&mut drive, &offsets, BLOCK, 1);
    drive.start_trace(100_000);
    let mut cleaned_after = |minutes: f64| {
        pause_s(&mut drive, minutes * 60.0);
        (4_096 - drive.cache_use().live_sectors / 8) as f64
    };
    let cleaned = [cleaned_after(10.0), cleaned_after(20.0)];
    let trace = drive.take_trace().expect("a trace was started");
    let updates = trace.rows().iter().filter(|row| row.purpose == Purpose::MapUpdate);
    let updates: Vec<u64> = updates.map(|row| row.end.get()).collect();
    let bands: Vec<f64> = updates.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
    vec![
        ("blocks cleaned in 10 minutes", cleaned[0]),
        ("blocks cleaned in 30 minutes", cleaned[1]),
        ("a band with one dirty block, s", median(&bands)),
    ]
}

/// Test 5.
pub fn s5a() -> Vec<Figure> {
    let mut drive = st5000();
    let mut random = Random(5);
    let end = drive.capacity().bytes();
    let region: Vec<u64> =
        random.offsets(256, BLOCK, 256 * MIB).iter().map(|offset| 1_000_000 * MIB + offset).collect();
    let (first, third) = region.split_at(128);
    let second = random.offsets(128, BLOCK, end);
    let steps = [first, &second, third];
    for step in steps {
        writes(&mut drive, step, BLOCK, 1);
    }
    pause_s(&mut drive, 60.0);
    let in_cache = steps.map(|step| step.iter().map(|&at| is_cached(&drive, at)).collect::<Vec<bool>>());
    let count = |cached: &[bool]| cached.iter().filter(|&&cached| cached).count() as f64;
    let waiting = in_cache[1].iter().position(|&cached| cached).unwrap_or(128);
    let early = in_cache[1][waiting..].iter().filter(|&&cached| !cached).count() as f64;
    // The paper reads all of them, and pauses again.
    for step in steps {
        reads(&mut drive, step, BLOCK);
    }
    pause_s(&mut drive, 60.0);
    let left = steps.iter().flat_map(|step| step.iter()).filter(|&&at| is_cached(&drive, at)).count() as f64;
    vec![
        ("after 1 minute, blocks of step 1 in the cache", count(&in_cache[0])),
        ("after 1 minute, blocks of step 2 in the cache", count(&in_cache[1])),
        ("after 1 minute, blocks of step 3 in the cache", count(&in_cache[2])),
        ("of step 2, cleaned before one written earlier", early),
        ("after 2 minutes, blocks in the cache", left),
    ]
}
