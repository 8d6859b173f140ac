//! What a server asks of a buffer.
//!
//! Invariant: nothing here changes anything.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::layout::Places;
use crate::capabilities::zoned::ZoneLayout;

impl HBuffer {
    /// Where a drive has the two checkpoints of a buffer.
    pub fn checkpoint_places(layout: &ZoneLayout) -> [LbaExtent; 2] {
        Places::checkpoints(layout).0
    }

    /// Whether home zones are being cleaned.
    pub fn is_cleaning(&self) -> bool {
        self.pass.is_some()
    }

    /// Why the drive refused, or could not do, the last action that failed: also one of cleaning, which fails no command.
    pub fn last_error(&self) -> Option<Failure> {
        self.last_error
    }

    /// Where an extent lies: runs of host sectors from its start on, each with the sector of the drive where it begins, or `None`
    /// where nothing was written. Ends early behind a home zone with which there are `limit` runs or more.
    pub fn locate(&self, extent: LbaExtent, limit: usize) -> Vec<(Sectors, Option<Lba>)> {
        let mut runs: Vec<(Sectors, Option<Lba>)> = Vec::new();
        let mut at = extent.start;
        while at < extent.end() && runs.len() < limit.max(1) {
            let (home, _) = self.contents.place_of(at);
            let end = extent.end().min(self.contents.extent_of(home).end());
            self.contents.visit_pieces(LbaExtent::new(at, end - at), |piece, place| match place {
                Some(place) => runs.push((piece.len, Some(place))),
                None => self.locate_home(home, piece, &mut runs),
            });
            at = end;
        }
        runs
    }

    /// The same of a part of a home zone of which the log has nothing.
    fn locate_home(&self, home: u32, part: LbaExtent, runs: &mut Vec<(Sectors, Option<Lba>)>) {
        let written = self.written_home(home, part);
        if written > Sectors(0) {
            runs.push((written, Some(self.contents.home_place(part.start))));
        }
        let rest = part.len - written;
        if rest > Sectors(0) {
            match runs.last_mut() {
                Some((len, None)) => *len += rest,
                _ => runs.push((rest, None)),
            }
        }
    }
}
