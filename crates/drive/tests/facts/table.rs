//! Every row: what is checked, the paper's figure, and the band in which ours must lie.
//!
//! Bands are those of `docs/figures.md`. Where the paper gives an order ("low > mid"), the row is the difference, which must be positive
//! ([`MORE`]); where it gives a verdict, the row is the figure that decides it.
//! Source: Skylight (FAST'15), sections 4.3 to 4.6 and 6, Table 2.

/// One check of a row.
pub struct Row {
    /// The row's identifier.
    pub id: &'static str,
    /// What is checked, and its unit.
    pub check: &'static str,
    /// The paper's figure.
    pub paper: &'static str,
    /// The minimum of ours.
    pub lo: f64,
    /// The maximum of ours.
    pub hi: f64,
}

/// A measured figure, for the check of that name.
pub type Figure = (&'static str, f64);

/// Greater than zero.
const MORE: f64 = f64::MIN_POSITIVE;
/// No upper bound.
const ANY: f64 = f64::INFINITY;

const fn row(id: &'static str, check: &'static str, paper: &'static str, lo: f64, hi: f64) -> Row {
    Row { id, check, paper, lo, hi }
}

/// Within a fraction of the paper's figure.
const fn near(id: &'static str, check: &'static str, paper: &'static str, value: f64, part: f64) -> Row {
    row(id, check, paper, value * (1.0 - part), value * (1.0 + part))
}

/// See the module documentation.
pub const ROWS: &[Row] = &[
    row("S1a", "em-1, one band, median ms", "10", 9.7, 10.6),
    row("S1a", "em-1, one band, quartiles apart, of the median", "fixed", 0.0, 0.05),
    row("S1b", "em-2, median ms", "under 1", 0.0, 1.0),
    row("S1c", "em-3, one band, median ms", "10", 9.7, 10.6),
    row("S1c", "em-3, one band, quartiles apart, of the median", "fixed", 0.0, 0.05),
    row("S1d", "st4000nc001, quartiles apart, of the median", "varying", 0.25, ANY),
    row("S1e", "first write at best, ms", "41", 38.0, 55.0),
    row("S1e", "first write at worst, ms", "52", 38.0, 55.0),
    row("S1e", "every 240th write, least ms", "325", 310.0, 340.0),
    row("S1e", "every 240th write, most ms", "325", 310.0, 340.0),
    row("S1e", "the others, median ms", "25", 23.8, 26.0),
    row("S1e", "the others, share within 23.8 to 26 ms", "all", 0.99, 1.0),
    near("S1f", "256 writes at depth 1, ms", "6,539", 6539.0, 0.1),
    near("S1f", "256 writes at depth 31, ms", "216", 216.0, 0.1),
    row("S1g", "read back after depth 1, median ms", "5", 4.2, 5.6),
    row("S1g", "read back after depth 31, median ms", "10", 9.6, 10.7),
    row("S1h", "first edge, KiB", "28", 28.0, 28.0),
    row("S1h", "second edge, KiB", "56", 56.0, 56.0),
    row("S1h", "third edge, KiB", "84", 84.0, 84.0),
    row("S1h", "4 to 26 KiB, least ms", "25", 23.8, 26.0),
    row("S1h", "4 to 26 KiB, most ms", "25", 23.8, 26.0),
    row("S1h", "28 to 110 KiB less 4.5 ms an edge, least ms", "25", 23.8, 26.0),
    row("S1h", "28 to 110 KiB less 4.5 ms an edge, most ms", "25", 23.8, 26.0),
    row("S1h", "spread at 256 KiB, ms", "varying", 20.0, ANY),
    row("S2a", "em-1, mean ms, low less mid", "low > mid", MORE, ANY),
    row("S2a", "em-1, mean ms, mid less high", "mid > high", MORE, ANY),
    row("S2a", "em-2, reads of flash, median ms", "negligible", 0.0, 1.0),
    row("S2a", "em-2, reads of the disk, median ms", "one revolution", 9.7, 10.6),
    row("S2a", "em-3, most over least of the three means", "equal", 1.0, 1.1),
    row("S2a", "st5000, mean ms, high less mid", "high > mid", MORE, ANY),
    row("S2a", "st5000, mean ms, mid less low", "mid > low", MORE, ANY),
    row("S3a", "em-1, share of reads within 5 % of the median", "lazy", 0.0, 0.6),
    row("S3a", "em-2, share of reads within 5 % of the median", "lazy", 0.0, 0.6),
    row("S3a", "em-3, share of reads within 5 % of the median", "aggressive", 0.95, 1.0),
    row("S3a", "st5000, share of reads within 5 % of the median", "aggressive", 0.95, 1.0),
    row("S3b", "start after the last write, s", "1.242", 1.1, 1.4),
    near("S3b", "band read, ms", "180", 180.0, 0.2),
    near("S3b", "at the OD, ms", "1,210", 1210.0, 0.2),
    near("S3b", "band written, ms", "227", 227.0, 0.2),
    row("S3b", "then the map, share of the stroke from the OD", "centre", 0.4, 0.6),
    row("S3b", "in all, s", "1.6", 1.4, 1.8),
    near("S3b", "then parked: seek from there to the OD, ms", "16", 16.0, 0.2),
    row("S4a", "blocks cleaned in 10 minutes", "800", 700.0, 1_100.0),
    row("S4a", "blocks cleaned in 30 minutes", "3,000", 2_600.0, 3_200.0),
    row("S4a", "a band with one dirty block, s", "0.6", 0.55, 0.65),
    row("S5a", "after 1 minute, blocks of step 1 in the cache", "none", 0.0, 0.0),
    row("S5a", "after 1 minute, blocks of step 2 in the cache", "some", 1.0, 127.0),
    row("S5a", "after 1 minute, blocks of step 3 in the cache", "none", 0.0, 0.0),
    row("S5a", "of step 2, cleaned before one written earlier", "FIFO", 0.0, 0.0),
    row("S5a", "after 2 minutes, blocks in the cache", "none", 0.0, 0.0),
    near("S6a", "writes of 4 KiB at depth 1", "22,800", 22_800.0, 0.02),
    row("S6a", "media bytes of them, GiB", "100", 90.0, 112.0),
    near("S7a", "writes of 4 KiB at depth 31", "182,270", 182_270.0, 0.01),
    near("S7a", "writes of 64 KiB at depth 31", "182,231", 182_231.0, 0.01),
    near("S8a", "writes of 128 KiB at depth 31", "137,496", 137_496.0, 0.02),
    near("S8a", "writes of 256 KiB at depth 31", "67,830", 67_830.0, 0.02),
    row("S8b", "em-1, share of 37.2 GiB", "0.95", 0.92, 0.98),
    row("S8b", "em-2, share of 9.98 GiB", "0.95", 0.92, 0.98),
    row("S8b", "em-3, share of 37.2 GiB", "0.95", 0.92, 0.98),
    row("S13", "depth 31 over st4000nc001 at depth 1", "15", 10.0, 20.0),
    row("S13", "volatile cache on over st4000nc001 at depth 1", "15", 10.0, 20.0),
    row("S14", "cache off, 4 KiB, st4000nc001 over ours", "3 or more", 3.0, ANY),
    row("S14", "cache off, 16 KiB, st4000nc001 over ours", "3 or more", 3.0, ANY),
    row("S14", "cache off, 64 KiB, st4000nc001 over ours", "3 or more", 3.0, ANY),
    near("S14", "cache on, 64 KiB, ours over st4000nc001", "full speed", 1.0, 0.1),
    near("S14", "cache on, 256 KiB, ours over st4000nc001", "full speed", 1.0, 0.1),
    near("S14", "cache on, 1 MiB, ours over st4000nc001", "full speed", 1.0, 0.1),
    row("S15", "cut-in points", "any", 60.0, ANY),
    row("S15", "any read but the first, most ms from test 2", "unchanged", 0.0, 0.001),
    row("S15", "after the end, share within 5 % of the median", "fixed", 0.95, 1.0),
    near("S16", "writes of 4 KiB over those at depth 31", "similar", 1.0, 0.05),
    near("S16", "writes of 64 KiB over those at depth 31", "similar", 1.0, 0.05),
    near("S16", "writes of 128 KiB over those at depth 31", "similar", 1.0, 0.05),
    near("S16", "writes of 256 KiB over those at depth 31", "similar", 1.0, 0.05),
];

/// The rows' identifiers, each once, in order.
pub fn ids() -> Vec<&'static str> {
    let mut ids: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
    ids.dedup();
    ids
}

/// Prints each check of a row with its figure and its band.
///
/// # Panics
/// If a figure lies outside its band, or a check was not measured.
pub fn judge(id: &str, figures: &[Figure]) {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.id == id).collect();
    let measured: Vec<&str> = figures.iter().map(|(check, _)| *check).collect();
    assert_eq!(measured, rows.iter().map(|row| row.check).collect::<Vec<_>>(), "checks of {id}");
    let lines = rows.iter().zip(figures).map(|(row, &(_, figure))| (line(row, figure), in_band(row, figure)));
    let (passed, failed): (Vec<_>, Vec<_>) = lines.partition(|(_, in_band)| *in_band);
    let join = |lines: Vec<(String, bool)>| lines.into_iter().map(|(line, _)| line).collect::<String>();
    print!("{}", join(passed));
    assert!(failed.is_empty(), "outside its band:\n{}", join(failed));
}

fn in_band(row: &Row, figure: f64) -> bool {
    (row.lo..=row.hi).contains(&figure)
}

fn line(row: &Row, figure: f64) -> String {
    let Row { id, check, paper, lo, hi } = row;
    let band = match (*lo, *hi) {
        (lo, ANY) if lo == MORE => "above 0".to_owned(),
        (lo, ANY) => format!("{lo} or more"),
        (lo, hi) if lo == hi => round(lo).to_string(),
        (lo, hi) => format!("{} to {}", round(lo), round(hi)),
    };
    format!("{id:3} | {check:50} | paper {paper:10} | ours {figure:10.3} | band {band}\n")
}

/// Removes the last digits of a product.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
