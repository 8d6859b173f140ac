//! The data of the host's writes that a plan takes.
//!
//! Invariant: a layer's plan has the data of the writes that it takes in the order in which it completes them. One that
//! names a sector out of that order gets no bytes, whatever the build: the image stops, and nothing is written there.

use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::{CommandId, Plan};

use crate::error::ImageError;

/// The bytes of a host write that waits.
#[derive(Clone, Copy, Debug)]
pub struct HostWrite<'a> {
    /// Its number in the plan.
    pub id: CommandId,
    /// What the host calls it.
    pub extent: LbaExtent,
    /// As long as the extent.
    pub data: &'a [u8],
}

/// The host's bytes of a plan, taken in the order in which it completes commands.
pub(crate) struct HostData<'a> {
    rest: Vec<HostWrite<'a>>,
    next: usize,
    /// Sectors of the next one that were taken.
    into: Sectors,
}

impl<'a> HostData<'a> {
    pub fn of(plan: &Plan, writes: &[HostWrite<'a>]) -> Self {
        let done = plan.completions().filter(|(_, outcome)| outcome.status().is_ok());
        let completed = done.filter_map(|(id, _)| {
            // Most callers number their writes from 0 on.
            let there = writes.get(id.0 as usize).filter(|write| write.id == id);
            there.or_else(|| writes.iter().find(|write| write.id == id)).copied()
        });
        Self { rest: completed.collect(), next: 0, into: Sectors(0) }
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.rest.iter().map(|write| write.data.len() as u64).sum()
    }

    /// The next piece, which begins at the host's sector `start` and has at most `len` sectors.
    ///
    /// # Errors
    /// When no bytes are left, or the next ones are those of another sector.
    pub fn take(&mut self, start: Lba, len: Sectors) -> Result<(LbaExtent, &'a [u8]), ImageError> {
        let write = self.rest.get(self.next).ok_or_else(no_bytes)?;
        let here = len.min(write.extent.len - self.into);
        let from = self.into.bytes() as usize;
        let piece = LbaExtent::new(write.extent.start + self.into, here);
        if piece.start != start {
            return Err(other_bytes(start, piece.start));
        }
        self.into += here;
        if self.into == write.extent.len {
            (self.next, self.into) = (self.next + 1, Sectors(0));
        }
        Ok((piece, &write.data[from..from + here.bytes() as usize]))
    }
}

/// The refusal of a plan that takes a write whose bytes were not given.
#[cold]
fn no_bytes() -> ImageError {
    ImageError::Inconsistent("a plan takes a write whose bytes were not given".to_owned())
}

/// The refusal of a plan that names the host's data in another order than that of its completions.
#[cold]
fn other_bytes(named: Lba, given: Lba) -> ImageError {
    ImageError::Inconsistent(format!(
        "a plan writes sector {named} where the bytes of sector {given} are due"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_given_for_the_sector_that_is_named_and_no_other() {
        let bytes: Vec<u8> = (0..4 * 512).map(|at| (at / 512) as u8).collect();
        let extent = |start, len| LbaExtent::new(Lba(start), Sectors(len));
        let write = |id, start, from: usize| HostWrite {
            id: CommandId(id),
            extent: extent(start, 2),
            data: &bytes[from * 512..(from + 2) * 512],
        };
        let mut plan = Plan::default();
        plan.complete(CommandId(1));
        plan.complete(CommandId(0));
        let mut host = HostData::of(&plan, &[write(0, 100, 0), write(1, 40, 2)]);
        let mut take = |start, len| host.take(Lba(start), Sectors(len)).map(|(piece, data)| (piece, data[0]));
        assert!(take(100, 2).is_err(), "the plan completes the other write first");
        assert_eq!(take(40, 1).expect("the first sector"), (extent(40, 1), 2));
        assert!(take(40, 1).is_err(), "it was taken");
        assert_eq!(take(41, 9).expect("the rest of the write"), (extent(41, 1), 3));
        assert_eq!(take(100, 2).expect("the other write"), (extent(100, 2), 0));
        assert!(take(102, 1).is_err(), "no bytes are left");
    }
}
