//! Tests 2 and 3: reads of a region with every other block overwritten (Skylight, sections 4.4, 4.5).

use skylight_drive::Drive;
use skylight_layer::Purpose;

use crate::paper_tools::{
    BLOCK, GIB, MIB, band_start, drive, least, mean, median, most, pause_s, reads, st5000, steadiness, writes,
};
use crate::table::Figure;

/// Writes every other one of 1,024 blocks, pauses, and reads them all; returns their latencies.
fn fragmented(drive: &mut Drive, offset: u64, pause: f64) -> Vec<f64> {
    fragment(drive, offset);
    pause_s(drive, pause);
    let offsets: Vec<u64> = (0..1024).map(|block| offset + block * BLOCK).collect();
    reads(drive, &offsets, BLOCK).latencies_ms()
}

/// Writes every other one of 1,024 blocks.
fn fragment(drive: &mut Drive, offset: u64) {
    let written: Vec<u64> = (0..512).map(|pair| offset + pair * 2 * BLOCK).collect();
    writes(drive, &written, BLOCK, 1);
}

/// Low, middle and high addresses; each starts a band of every emulated drive.
fn addresses(drive: &Drive) -> [u64; 3] {
    let bands = 200 * MIB;
    let end = drive.capacity().bytes() / bands;
    [0, end / 2 * bands, (end - 1) * bands]
}

/// Test 2 at low, middle and high addresses: mean latencies.
fn test_2(name: &str, write_cache: bool) -> [f64; 3] {
    let means = addresses(&drive(name)).map(|offset| {
        let mut drive = drive(name);
        assert_eq!(drive.set_write_cache(write_cache), write_cache);
        mean(&fragmented(&mut drive, offset, 0.0))
    });
    println!("S2a | {name}: mean ms {means:.2?} at low, mid, high");
    means
}

/// The same for a drive with many caches: at each location the mean over 16 regions, 2.5 GiB apart, because
/// the distance to the next cache is random.
fn test_2_many(name: &str) -> [f64; 3] {
    let last = drive(name).capacity().bytes() / (40 * GIB) - 1;
    let means = [0, last / 2, last].map(|zone| {
        let region = |part: u64| {
            let offset = (zone * 40 * GIB + part * 40 * GIB / 16) / (20 * MIB) * (20 * MIB);
            mean(&fragmented(&mut drive(name), offset, 0.0))
        };
        mean(&(0..16).map(region).collect::<Vec<_>>())
    });
    println!("S2a | {name}: mean ms {means:.2?} at low, mid, high");
    means
}

pub fn s2a() -> Vec<Figure> {
    let first = test_2("emulated-smr-1", false);
    let flash = fragmented(&mut drive("emulated-smr-2"), 2_000 * GIB, 0.0);
    let every_other = |from: usize| flash.iter().skip(from).step_by(2).copied().collect::<Vec<f64>>();
    let third = test_2_many("emulated-smr-3");
    // "Test performed with volatile cache enabled" (footnote 1).
    let seagate = test_2("st5000as0011", true);
    vec![
        ("em-1, mean ms, low less mid", first[0] - first[1]),
        ("em-1, mean ms, mid less high", first[1] - first[2]),
        ("em-2, reads of flash, median ms", median(&every_other(0))),
        ("em-2, reads of the disk, median ms", median(&every_other(1))),
        ("em-3, most over least of the three means", most(&third) / least(&third)),
        ("st5000, mean ms, high less mid", seagate[2] - seagate[1]),
        ("st5000, mean ms, mid less low", seagate[1] - seagate[0]),
    ]
}

/// Test 3 in one band at 2.5 TB: the steadiness of reads after a pause of 3, 4 and 5 seconds.
fn test_3(name: &str, offset: u64) -> [f64; 3] {
    [3.0, 4.0, 5.0].map(|pause| steadiness(&fragmented(&mut drive(name), offset, pause)))
}

pub fn s3a() -> Vec<Figure> {
    let middle = 2_500_000_000_000;
    // Addresses where bands of 40, 25 and 20 MiB start.
    let emulated = middle / (200 * MIB) * (200 * MIB);
    vec![
        ("em-1, share of reads within 5 % of the median", most(&test_3("emulated-smr-1", emulated))),
        ("em-2, share of reads within 5 % of the median", most(&test_3("emulated-smr-2", emulated))),
        ("em-3, share of reads within 5 % of the median", least(&test_3("emulated-smr-3", emulated))),
        (
            "st5000, share of reads within 5 % of the median",
            least(&test_3("st5000as0011", band_start(middle))),
        ),
    ]
}

/// Start and end of the last cleaning step of a region, in s after the last write.
fn last_step_s(offset: u64) -> (f64, f64) {
    let mut drive = st5000();
    fragment(&mut drive, offset);
    let since = drive.now().get();
    drive.start_trace(10_000);
    pause_s(&mut drive, 10.0);
    let trace = drive.take_trace().expect("a trace was started");
    let last = trace.rows().last().expect("the region was cleaned");
    assert_eq!(last.purpose, Purpose::MapUpdate);
    ((last.start.get() - since) as f64 / 1e9, (last.end.get() - since) as f64 / 1e9)
}

/// Reads start every 20 ms from the last write until the map is about to be updated. The cleaning step in
/// progress ends first, so the first read may wait; the others must equal those of test 2 to the microsecond.
pub fn s15() -> Vec<Figure> {
    let offset = band_start(2_500_000_000_000);
    let unpaused = fragmented(&mut st5000(), offset, 0.0);
    let (commits, ends) = last_step_s(offset);
    let cuts: Vec<f64> = (0..).map(|step| f64::from(step) * 0.02).take_while(|cut| *cut < commits).collect();
    let off = |cut: &f64| {
        let ms = fragmented(&mut st5000(), offset, *cut);
        most(
            &ms.iter()
                .zip(&unpaused)
                .skip(1)
                .map(|(cut, unpaused)| (cut - unpaused).abs())
                .collect::<Vec<_>>(),
        )
    };
    let off: Vec<f64> = cuts.iter().map(off).collect();
    vec![
        ("cut-in points", cuts.len() as f64),
        ("any read but the first, most ms from test 2", most(&off)),
        (
            "after the end, share within 5 % of the median",
            steadiness(&fragmented(&mut st5000(), offset, ends + 0.001)),
        ),
    ]
}
