//! Sectors of a home zone that cannot be read when it is rewritten.
//!
//! The host has lost their data, as on any disk; nothing else may be lost with it, and the log needs the space of what it has of that
//! zone. So a record says which host sectors cannot be read. From then on reads of them fail without asking the drive, until they
//! are written or trimmed, and the zone is rewritten with zeros in their place, which nobody reads.
//!
//! What was read of such a chunk stays in memory until the pass is over.
//!
//! Invariants: a sector is given up when the read of it alone failed twice, the second time behind all other reads, and the log has
//! nothing of it; the record is written before the one that moves the zone.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::device::{Action, Executor};
use super::format::{EXTENTS, Kind};

/// Most reads of a chunk that may fail until the zone is left as it is: the drive fails then, not a sector. Chosen: one bad physical
/// block of 4 KiB takes 35 in a chunk of 16 MiB, so seven are found; and a disk may try for seconds each time.
const FAILED_READS: u32 = 256;

/// Where in a chunk, and what of the drive was gathered for it.
type Piece = (Sectors, LbaExtent);

impl HBuffer {
    /// Reads a part of a home zone, of which a read failed, in halves, and gives up what cannot be read; `first` is the host sector
    /// that it begins with. What was gathered. A read may fail once and then work, so what failed alone is read again at the end.
    ///
    /// # Errors
    /// The failure, if all can be read after all, too little can, or it is not of the medium.
    pub(super) fn read_around(
        &mut self,
        first: Lba,
        native: LbaExtent,
        failure: Failure,
        drive: &mut dyn Executor,
    ) -> Result<impl Iterator<Item = Piece> + use<>, Failure> {
        let (mut readable, mut bad, mut to_read, mut failed) = (Vec::new(), Vec::new(), vec![native], 0);
        while let Some(from) = to_read.pop() {
            let half = Sectors(from.len.get() / 2);
            if self.can_gather(from, &mut failed, drive)? {
                readable.push((from.start - native.start, from));
            } else if half.get() == 0 {
                bad.push(from);
            } else {
                to_read.push(LbaExtent::new(from.start + half, from.len - half));
                to_read.push(LbaExtent::new(from.start, half));
            }
        }
        let mut lost = Vec::new();
        for from in bad {
            let at = from.start - native.start;
            if self.can_gather(from, &mut failed, drive)? {
                readable.push((at, from));
            } else {
                lost.push(LbaExtent::new(first + at, from.len));
            }
        }
        if lost.is_empty() { Err(failure) } else { self.give_up(lost, drive).map(|()| readable.into_iter()) }
    }

    /// Whether a part can be read; it is gathered then.
    fn can_gather(
        &mut self,
        from: LbaExtent,
        failed: &mut u32,
        drive: &mut dyn Executor,
    ) -> Result<bool, Failure> {
        match self.act(&Action::Gather { from, keep: vec![from] }, drive) {
            Err(Failure::Medium) if *failed < FAILED_READS => {
                *failed += 1;
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }

    /// Records which of these host sectors, in order, cannot be read: those of which the log has nothing.
    fn give_up(&mut self, bad: Vec<LbaExtent>, drive: &mut dyn Executor) -> Result<(), Failure> {
        let mut lost: Vec<LbaExtent> = Vec::new();
        for sector in bad.into_iter().filter(|&sector| !self.contents.has(sector)) {
            match lost.last_mut() {
                Some(run) if run.end() == sector.start => run.len += sector.len,
                _ => lost.push(sector),
            }
        }
        let entries = self.contents.unreadable().entries() + lost.len() as u64;
        if entries > self.contents.unreadable_limit() {
            return Err(Failure::Medium);
        }
        for extents in lost.chunks(EXTENTS) {
            let lose = |buffer: &mut Self| extents.iter().for_each(|&extent| buffer.contents.lose(extent));
            self.record(Kind::Unreadable(extents.to_vec()), lose, drive)?;
        }
        Ok(())
    }
}
