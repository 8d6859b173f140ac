//! The cuts of a row of phases into pieces that agree most.
//!
//! Phases are unit vectors, and how far those of a piece agree is the length of their sum. Of all cuts the best
//! is that with the largest sum of lengths, less a penalty for each piece; what is best for the rows before a
//! cut does not depend on those behind it, so it is found row by row.
//!
//! Invariants: a piece never begins before the row that `firsts` allows for its last row; of cuts that are as
//! good the one with the earliest last cut is taken. Every sum is made in the order of the rows, so that the
//! result is the same on every machine.
//!
//! Source: Jackson et al., "An algorithm for optimal partitioning of data on an interval" (2005), section 2.

use std::fmt;

/// The best cuts of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cuts {
    /// How far the pieces agree together, less the penalty of each.
    pub agreed: f64,
    /// The first row of each piece, in order.
    pub starts: Vec<usize>,
}

/// Columns that do not describe rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Columns differ in length.
    Lengths,
    /// A piece could only begin behind its last row; the row is said.
    First(usize),
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths => write!(formatter, "columns differ in length; give one value a row in each"),
            Self::First(row) => {
                write!(formatter, "row {row} may only begin behind itself; give an earlier row")
            }
        }
    }
}

impl std::error::Error for Unusable {}

/// Cuts rows whose phases have these cosines and sines. A piece that ends with row `i` begins at row `firsts[i]`
/// or later, and costs `penalty`.
///
/// # Errors
///
/// `Unusable` for columns of different lengths, and where no piece could end with some row.
pub fn cut(cosines: &[f64], sines: &[f64], firsts: &[usize], penalty: f64) -> Result<Cuts, Unusable> {
    let rows = firsts.len();
    if cosines.len() != rows || sines.len() != rows {
        return Err(Unusable::Lengths);
    }
    if let Some(row) = (0..rows).find(|&row| firsts[row] > row) {
        return Err(Unusable::First(row));
    }
    let (along, across) = (running(cosines), running(sines));
    let mut agreed = vec![0.0; rows + 1]; // of the rows before each, at the best
    let mut last = vec![0; rows + 1]; // where the last piece of these begins
    let mut tried = vec![0.0; rows];
    for end in 1..=rows {
        let first = firsts[end - 1];
        let (x, y) = (along[end], across[end]);
        let begins = agreed[first..end].iter().zip(&along[first..end]).zip(&across[first..end]);
        for (sum, ((before, begin_x), begin_y)) in tried.iter_mut().zip(begins) {
            let (dx, dy) = (x - begin_x, y - begin_y);
            *sum = before + (dx * dx + dy * dy).sqrt();
        }
        let (best, most) = first_of_most(&tried[..end - first]);
        agreed[end] = most - penalty;
        last[end] = first + best;
    }
    Ok(Cuts { agreed: agreed[rows], starts: starts(&last) })
}

/// Running sums behind a zero.
fn running(values: &[f64]) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    let mut sum = 0.0;
    sums.push(sum);
    for value in values {
        sum += value;
        sums.push(sum);
    }
    sums
}

/// The largest value and the first place at which it stands.
fn first_of_most(values: &[f64]) -> (usize, f64) {
    let mut best = (0, values[0]);
    for (place, &value) in values.iter().enumerate() {
        if value > best.1 {
            best = (place, value);
        }
    }
    best
}

/// First rows of the pieces, from where the last piece of the rows before each begins.
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

    /// All cuts of few rows, each tried.
    fn best_of_all(phases: &[f64], firsts: &[usize], penalty: f64) -> f64 {
        let rows = phases.len();
        let mut most = f64::NEG_INFINITY;
        for mask in 0..1_u32 << (rows - 1) {
            let mut starts = vec![0];
            starts.extend((1..rows).filter(|row| mask >> (row - 1) & 1 == 1));
            let ends = starts.iter().skip(1).copied().chain([rows]);
            let pieces: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
            if pieces.iter().any(|&(begin, end)| begin < firsts[end - 1]) {
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
        /// No cut is better than the one that is found, and that one is worth what it says.
        #[test]
        fn no_cut_is_better(
            phases in prop::collection::vec(0.0..1.0_f64, 1..11),
            longest in 1..12_usize,
            penalty in 0.0..1.0_f64,
        ) {
            let firsts: Vec<usize> = (0..phases.len()).map(|row| (row + 1).saturating_sub(longest)).collect();
            let (x, y): (Vec<f64>, Vec<f64>) = phases.iter().map(|p| ((p * TAU).cos(), (p * TAU).sin())).unzip();
            let found = cut(&x, &y, &firsts, penalty).expect("columns of one length");
            prop_assert!((found.agreed - best_of_all(&phases, &firsts, penalty)).abs() < 1e-9);
            let ends = found.starts.iter().skip(1).copied().chain([phases.len()]);
            let worth: f64 = found.starts.iter().zip(ends).map(|(&begin, end)| {
                assert!(begin >= firsts[end - 1], "a piece longer than allowed");
                let (x, y) = (x[begin..end].iter().sum::<f64>(), y[begin..end].iter().sum::<f64>());
                x.hypot(y) - penalty
            }).sum();
            prop_assert!((found.agreed - worth).abs() < 1e-9);
        }
    }

    #[test]
    fn a_step_of_phase_is_a_cut() {
        let phases = [0.1, 0.1, 0.1, 0.6, 0.6];
        let (x, y): (Vec<f64>, Vec<f64>) = phases.iter().map(|p| ((p * TAU).cos(), (p * TAU).sin())).unzip();
        let found = cut(&x, &y, &[0; 5], 0.5).expect("columns of one length");
        assert_eq!(found.starts, [0, 3]);
        assert!((found.agreed - 4.0).abs() < 1e-12);
    }

    #[test]
    fn no_rows_have_no_pieces() {
        assert_eq!(cut(&[], &[], &[], 1.0), Ok(Cuts { agreed: 0.0, starts: vec![] }));
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        assert_eq!(cut(&[1.0], &[0.0, 1.0], &[0], 1.0), Err(Unusable::Lengths));
        assert_eq!(cut(&[1.0, 1.0], &[0.0, 0.0], &[0, 2], 1.0), Err(Unusable::First(1)));
    }
}
