//! Optimal segmentation of a sequence of phases by dynamic programming.
//!
//! Phases are unit vectors; the score of a segment is the length of their vector sum. The best segmentation
//! has the largest sum of scores minus a penalty per segment. The best segmentation of the rows before a
//! boundary does not depend on those behind it, so it is found row by row.
//!
//! Invariants: a segment never starts before the row that `earliest_starts` allows for its last row; of
//! equally good segmentations the one with the earliest last boundary wins. Sums are computed in row order,
//! so that the result is the same on every machine.
//!
//! Source: Jackson et al., "An algorithm for optimal partitioning of data on an interval" (2005), section 2.

/// The best segmentation of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Segmentation {
    /// The sum of the scores minus the penalties.
    pub score: f64,
    /// The first row of each segment, in order.
    pub starts: Vec<usize>,
}

/// Invalid columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidColumns {
    /// Columns differ in length.
    #[error("columns differ in length; give one value per row in each")]
    Lengths,
    /// The earliest start of a segment lies behind its last row, which is given here.
    #[error("row {0}: the segment starts behind its end; give an earlier row")]
    First(usize),
}

/// Segments rows whose phases have these cosines and sines. A segment that ends with row `i` starts at row
/// `earliest_starts[i]` or later, and costs `penalty`.
///
/// # Errors
///
/// `InvalidColumns` for columns of different lengths, and where no segment could end with some row.
pub fn segment(
    cosines: &[f64],
    sines: &[f64],
    earliest_starts: &[usize],
    penalty: f64,
) -> Result<Segmentation, InvalidColumns> {
    let rows = earliest_starts.len();
    if cosines.len() != rows || sines.len() != rows {
        return Err(InvalidColumns::Lengths);
    }
    if let Some(row) = (0..rows).find(|&row| earliest_starts[row] > row) {
        return Err(InvalidColumns::First(row));
    }
    let (along, across) = (prefix_sums(cosines), prefix_sums(sines));
    let mut score = vec![0.0; rows + 1]; // best score of the rows before each
    let mut last = vec![0; rows + 1]; // start of the last segment of these rows
    let mut candidates = vec![0.0; rows];
    for end in 1..=rows {
        let first = earliest_starts[end - 1];
        let (x, y) = (along[end], across[end]);
        let begins = score[first..end].iter().zip(&along[first..end]).zip(&across[first..end]);
        for (sum, ((before, begin_x), begin_y)) in candidates.iter_mut().zip(begins) {
            let (dx, dy) = (x - begin_x, y - begin_y);
            *sum = before + (dx * dx + dy * dy).sqrt();
        }
        let (best, value) = first_maximum(&candidates[..end - first]);
        score[end] = value - penalty;
        last[end] = first + best;
    }
    Ok(Segmentation { score: score[rows], starts: starts(&last) })
}

/// Prefix sums, starting with zero.
fn prefix_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    let mut sum = 0.0;
    sums.push(sum);
    for value in values {
        sum += value;
        sums.push(sum);
    }
    sums
}

/// The largest value and its first index.
fn first_maximum(values: &[f64]) -> (usize, f64) {
    let mut best = (0, values[0]);
    for (index, &value) in values.iter().enumerate() {
        if value > best.1 {
            best = (index, value);
        }
    }
    best
}

/// The first rows of the segments, from the start of the last segment of each prefix.
fn starts(last: &[usize]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut row = last.len() - 1;
    while row > 0 {
        row = last[row];
        found.push(row);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::*;

    /// The best score by exhaustive search.
    fn best_of_all(phases: &[f64], earliest_starts: &[usize], penalty: f64) -> f64 {
        let rows = phases.len();
        let mut most = f64::NEG_INFINITY;
        for mask in 0..1_u32 << (rows - 1) {
            let mut starts = vec![0];
            starts.extend((1..rows).filter(|row| mask >> (row - 1) & 1 == 1));
            let ends = starts.iter().skip(1).copied().chain([rows]);
            let pieces: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
            if pieces.iter().any(|&(begin, end)| begin < earliest_starts[end - 1]) {
                continue;
            }
            let lengths = pieces.iter().map(|&(begin, end)| {
                let sum =
                    |part: fn(f64) -> f64| phases[begin..end].iter().map(|p| part(p * TAU)).sum::<f64>();
                sum(f64::cos).hypot(sum(f64::sin)) - penalty
            });
            most = most.max(lengths.sum());
        }
        most
    }

    proptest! {
        /// The result is optimal, and its score is correct.
        #[test]
        fn the_segmentation_is_optimal(
            phases in prop::collection::vec(0.0..1.0_f64, 1..11),
            longest in 1..12_usize,
            penalty in 0.0..1.0_f64,
        ) {
            let earliest_starts: Vec<usize> = (0..phases.len()).map(|row| (row + 1).saturating_sub(longest)).collect();
            let (x, y): (Vec<f64>, Vec<f64>) = phases.iter().map(|p| ((p * TAU).cos(), (p * TAU).sin())).unzip();
            let found = segment(&x, &y, &earliest_starts, penalty).expect("columns of one length");
            prop_assert!((found.score - best_of_all(&phases, &earliest_starts, penalty)).abs() < 1e-9);
            let ends = found.starts.iter().skip(1).copied().chain([phases.len()]);
            let worth: f64 = found.starts.iter().zip(ends).map(|(&begin, end)| {
                assert!(begin >= earliest_starts[end - 1], "a segment longer than allowed");
                let (x, y) = (x[begin..end].iter().sum::<f64>(), y[begin..end].iter().sum::<f64>());
                x.hypot(y) - penalty
            }).sum();
            prop_assert!((found.score - worth).abs() < 1e-9);
        }
    }

    #[test]
    fn a_step_of_phase_starts_a_segment() {
        let phases = [0.1, 0.1, 0.1, 0.6, 0.6];
        let (x, y): (Vec<f64>, Vec<f64>) = phases.iter().map(|p| ((p * TAU).cos(), (p * TAU).sin())).unzip();
        let found = segment(&x, &y, &[0; 5], 0.5).expect("columns of one length");
        assert_eq!(found.starts, [0, 3]);
        assert!((found.score - 4.0).abs() < 1e-12);
    }

    #[test]
    fn no_rows_have_no_segments() {
        assert_eq!(segment(&[], &[], &[], 1.0), Ok(Segmentation { score: 0.0, starts: vec![] }));
    }

    #[test]
    fn invalid_columns_are_refused() {
        assert_eq!(segment(&[1.0], &[0.0, 1.0], &[0], 1.0), Err(InvalidColumns::Lengths));
        assert_eq!(segment(&[1.0, 1.0], &[0.0, 0.0], &[0, 2], 1.0), Err(InvalidColumns::First(1)));
    }
}
