//! Sectors that cannot be read when a home zone is cleaned: those at home, and those of the log.
//!
//! The host has lost their data, as on any disk; nothing else may be lost with it, and the log needs the space of what it has of that
//! zone. So a record says which host sectors cannot be read at home, and a checkpoint which had their data in the log: a recovery goes on
//! behind it, and need not read the log there. From then on reads of them fail without asking the drive, until they
//! are written or trimmed. The zone is cleaned with zeros in their place, or what it had there before, which no read returns.
//!
//! What was read of such a chunk stays in memory until the pass is over.
//!
//! Invariants: a sector is given up when the read of it alone failed twice, the second time behind all other reads, and, at home, the log
//! has nothing of it; the record or the checkpoint is written before the record that the zone was cleaned.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::device::{Action, Executor};
use super::format::{EXTENTS, Kind, Position};

/// Most reads of a chunk that may fail until the zone is left as it is: the drive fails then, not a sector. Chosen: one bad physical
/// block of 4 KiB takes 35 in a chunk of 16 MiB, so seven are found; and a disk may try for seconds each time.
const FAILED_READS: u32 = 256;

/// Where in a chunk, and what of the drive was gathered for it.
type Piece = (Sectors, LbaExtent);

impl HBuffer {
    /// Reads a part of a home zone, of which a read failed, in halves, and gives up what cannot be read; `first` is the host sector
    /// that it begins with. What was gathered.
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
        let mut failed = 0;
        let (readable, bad) = self.halve(native, true, &mut failed, drive)?;
        let lost: Vec<_> = bad
            .into_iter()
            .map(|from| LbaExtent::new(first + (from.start - native.start), from.len))
            .collect();
        if lost.is_empty() {
            return Err(failure);
        }
        self.give_up(lost, drive)?;
        Ok(readable.into_iter().map(move |from| (from.start - native.start, from)))
    }

    /// Does a `Gather` of the log. What cannot be read of the places that it keeps is lost for the host, if it is what the log has of
    /// these home zones before that position.
    ///
    /// # Errors
    /// When too little can be read, or the failure is not of the medium.
    pub(super) fn gather(
        &mut self,
        read: &Action,
        homes: impl Iterator<Item = u32>,
        before: Position,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        match (self.act(read, drive), read) {
            (Err(Failure::Medium), Action::Gather { keep, .. }) => {
                self.gather_around(keep, homes, before, drive)
            }
            (done, _) => done,
        }
    }

    /// Gathers places in the log, of which a read that had them all failed, each alone; that one may have failed in a gap between them.
    fn gather_around(
        &mut self,
        keep: &[LbaExtent],
        homes: impl Iterator<Item = u32>,
        before: Position,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        let (mut lost, mut failed) = (Vec::new(), 0);
        for &place in keep {
            if self.can_gather(place, true, &mut failed, drive)? {
                continue;
            }
            let (readable, bad) = self.halve(place, false, &mut failed, drive)?;
            // Each run at once: a piece of the map is then in one of them.
            for run in runs(readable) {
                self.act(&Action::Gather { from: run, keep: vec![run] }, drive)?;
            }
            lost.extend(bad);
        }
        self.lose_in_log(&lost, homes, before, drive)
    }

    /// Reads an extent in halves, down to single sectors: what can be read, and the sectors that cannot, in order. A read may
    /// fail once and then work, so what failed alone is read again at the end.
    fn halve(
        &mut self,
        whole: LbaExtent,
        keeps: bool,
        failed: &mut u32,
        drive: &mut dyn Executor,
    ) -> Result<(Vec<LbaExtent>, Vec<LbaExtent>), Failure> {
        let (mut readable, mut failed_once, mut to_read) = (Vec::new(), Vec::new(), vec![whole]);
        while let Some(from) = to_read.pop() {
            let half = Sectors(from.len.get() / 2);
            if self.can_gather(from, keeps, failed, drive)? {
                readable.push(from);
            } else if half.get() == 0 {
                failed_once.push(from);
            } else {
                to_read.push(LbaExtent::new(from.start + half, from.len - half));
                to_read.push(LbaExtent::new(from.start, half));
            }
        }
        let mut bad = Vec::new();
        for from in failed_once {
            match self.can_gather(from, keeps, failed, drive)? {
                true => readable.push(from),
                false => bad.push(from),
            }
        }
        readable.sort_unstable_by_key(|from| from.start);
        Ok((readable, bad))
    }

    /// Whether a part can be read; it is gathered then, if it is to be kept.
    fn can_gather(
        &mut self,
        from: LbaExtent,
        keeps: bool,
        failed: &mut u32,
        drive: &mut dyn Executor,
    ) -> Result<bool, Failure> {
        let keep = if keeps { vec![from] } else { Vec::new() };
        match self.act(&Action::Gather { from, keep }, drive) {
            Err(Failure::Medium) if *failed < FAILED_READS => {
                *failed += 1;
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }

    /// Loses what the log has of these home zones, before a position in it, in sectors of the drive that cannot be read.
    fn lose_in_log(
        &mut self,
        bad: &[LbaExtent],
        homes: impl Iterator<Item = u32>,
        before: Position,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        let mut sectors = Vec::new();
        for home in homes {
            for (lba, place) in self.contents.older(self.contents.extent_of(home), before, &self.log) {
                let there = bad.iter().filter(|bad| place.start <= bad.start && bad.start < place.end());
                sectors
                    .extend(there.map(|bad| LbaExtent::new(lba.start + (bad.start - place.start), bad.len)));
            }
        }
        sectors.sort_unstable_by_key(|sector| sector.start);
        let lost = runs(sectors);
        if lost.is_empty() {
            return Ok(());
        }
        self.check_unreadable(lost.len())?;
        // Each may also cut one of the map in two.
        if self.contents.entries() + 2 * lost.len() as u64 > self.contents.places.map_limit {
            return Err(Failure::Medium);
        }
        for extent in lost {
            self.contents.remove(extent);
            self.contents.lose(extent);
        }
        self.record_by_checkpoint(drive)
    }

    /// # Errors
    /// When a checkpoint has no space for `more` extents that cannot be read.
    fn check_unreadable(&self, more: usize) -> Result<(), Failure> {
        let entries = self.contents.unreadable().entries() + more as u64;
        (entries <= self.contents.unreadable_limit()).then_some(()).ok_or(Failure::Medium)
    }

    /// Records which of these host sectors, in order, cannot be read: those of which the log has nothing.
    fn give_up(&mut self, bad: Vec<LbaExtent>, drive: &mut dyn Executor) -> Result<(), Failure> {
        let lost = runs(bad.into_iter().filter(|&sector| !self.contents.has(sector)));
        self.check_unreadable(lost.len())?;
        for extents in lost.chunks(EXTENTS) {
            let lose = |buffer: &mut Self| extents.iter().for_each(|&extent| buffer.contents.lose(extent));
            self.record(Kind::Unreadable(extents.to_vec()), lose, drive)?;
        }
        Ok(())
    }
}

/// Sectors in order, with those that follow each other in one.
fn runs(sectors: impl IntoIterator<Item = LbaExtent>) -> Vec<LbaExtent> {
    let mut runs: Vec<LbaExtent> = Vec::new();
    for sector in sectors {
        match runs.last_mut() {
            Some(run) if run.end() == sector.start => run.len += sector.len,
            _ => runs.push(sector),
        }
    }
    runs
}
