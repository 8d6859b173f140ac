//! Reads: from the log what the map has, the rest from home.
//!
//! Entries of the log that were written one behind the other have a header between their data. A host that reads these in order
//! would ask for the sector behind a header when it has just passed the heads, and wait a revolution for each. So places behind
//! each other are one read, and a read that begins shortly behind the end of the last one begins there, where the drive has read
//! ahead.
//!
//! Invariant: what only lies between can fail no read.

use skylight_command::{Command, Failure};
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::device::{Action, Executor};
use crate::capabilities::zoned::ZoneModel;

/// Gaps that are read along. Chosen: 0.6 ms of a track at the OD, about what passes the heads while an answer goes to the host and its
/// next command comes; what lies further on still comes in this revolution.
const READ_THROUGH: Sectors = Sectors(256);

/// Sectors of the drive that are read together, and what the host gets of them, by where in its data.
type Together = (LbaExtent, Vec<(Sectors, LbaExtent)>);

impl HBuffer {
    pub(super) fn read(&mut self, command: &Command, drive: &mut dyn Executor) -> Result<(), Failure> {
        let mut pieces = Vec::new();
        self.contents.visit_pieces(command.extent, |piece, place| pieces.push((piece, place)));
        let mut places = Vec::with_capacity(pieces.len());
        for (piece, place) in pieces {
            if let Some(place) = place {
                places.push((piece.start - command.extent.start, LbaExtent::new(place, piece.len)));
            } else if self.contents.is_unreadable(piece) {
                return Err(Failure::Medium);
            } else {
                let mut parts = Vec::new();
                self.contents.visit_homes(piece, |home, part| parts.push((home, part)));
                for (home, part) in parts {
                    places.extend(self.home_place(command, home, part, drive)?);
                }
            }
        }
        places.sort_unstable_by_key(|(_, place)| place.start);
        self.together(places).into_iter().try_for_each(|read| self.read_together(command, read, drive))
    }

    /// Where a part of a home zone is, and where in the command's data it goes. What was never written there is zeros: a host-managed
    /// drive may refuse to read it.
    fn home_place(
        &mut self,
        command: &Command,
        home: u32,
        part: LbaExtent,
        drive: &mut dyn Executor,
    ) -> Result<Option<(Sectors, LbaExtent)>, Failure> {
        let readable = match self.view.layout.model {
            ZoneModel::HostAware => part.len,
            ZoneModel::HostManaged => self.written_home(home, part),
        };
        let (command, offset) = (command.id, part.start - command.extent.start);
        if readable < part.len {
            let (offset, len) = (offset + readable, part.len - readable);
            self.act(&Action::Zeros { command, offset, len }, drive)?;
        }
        let place = LbaExtent::new(self.contents.home_place(part.start), readable);
        Ok((!place.is_empty()).then_some((offset, place)))
    }

    /// Whether a place lies so shortly behind what ends at `end` that a read from `start` on has both. A place is behind no write
    /// pointer, so what is before it in its zone is not either.
    fn is_next(&self, start: Lba, end: Lba, place: LbaExtent) -> bool {
        let zone_of = |lba| self.view.layout.zone_of(lba);
        place.start >= end && place.start - end <= READ_THROUGH && zone_of(start) == zone_of(place.start)
    }

    /// Reads for places in the order of the drive.
    fn together(&self, places: Vec<(Sectors, LbaExtent)>) -> Vec<Together> {
        let mut reads: Vec<Together> = Vec::with_capacity(places.len());
        let mut end = self.read_to;
        for (offset, place) in places {
            match reads.last_mut() {
                Some((from, keep)) if self.is_next(from.start, end, place) => {
                    from.len = place.end() - from.start;
                    keep.push((offset, place));
                }
                _ => {
                    let start = if self.is_next(end, end, place) { end } else { place.start };
                    reads.push((LbaExtent::new(start, place.end() - start), vec![(offset, place)]));
                }
            }
            end = place.end();
        }
        reads
    }

    /// One read; if it fails, which may be in a gap, each of its places alone.
    fn read_together(
        &mut self,
        command: &Command,
        (from, keep): Together,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        self.read_to = from.end();
        let kept: Sectors = Sectors(keep.iter().map(|(_, place)| place.len.get()).sum());
        let command = command.id;
        if kept == from.len {
            return self.act(&Action::Read { command, from, keep }, drive);
        }
        match self.act(&Action::Read { command, from, keep: keep.clone() }, drive) {
            Err(Failure::Medium) => keep.into_iter().try_for_each(|(offset, from)| {
                self.act(&Action::Read { command, from, keep: vec![(offset, from)] }, drive)
            }),
            done => done,
        }
    }
}
