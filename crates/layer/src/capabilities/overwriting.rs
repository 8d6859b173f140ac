//! Drives whose writes destroy sectors of other tracks: which sectors are overwritten, by which write, what reads give
//! for them, and what an image has to keep of that.
//!
//! A write that the layer has taken is *unrecorded* until [`Overwriting::recorded`], or until the next command. An image
//! makes a record of it ([`Overwriting::unrecorded`]) before it moves any byte. If there is no space for the record or for the
//! bytes, it takes the write back ([`Overwriting::take_back`]): nothing was written, so nothing is destroyed, and no neighbour
//! is reported lost or reads as other data. Once there is a record the write stays, whatever becomes of its bytes: some
//! may be on the medium.
//!
//! Invariants: what is overwritten depends on the writes and their order alone, so a snapshot and the records behind it
//! bring it back; a snapshot has every write that is on record and no other.

use skylight_disk::shingling::Destroyed;
use skylight_disk::{Geometry, LbaExtent, Pba, PbaExtent, Shingling, Time};

use crate::bands::Bands;

/// What a read gives for an overwritten sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadData {
    /// The data that overwrote it: data-centric. One read becomes several.
    Overwriting,
    /// The byte of the drive's pattern: performance-centric. The read is one, and what is known to be destroyed is not looked
    /// for.
    Pattern,
}

/// The read mode: the data of an overwritten sector, and whether it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMode {
    /// What a read gives.
    pub data: ReadData,
    /// Whether it is an error for just those sectors as well: development-centric.
    pub fail: bool,
}

/// A write: its number, counted from 1, and when it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the write command among all that the layer took.
    pub write: u64,
    /// The time when it was taken, by the clock of whoever runs the layer: nanoseconds of the UNIX clock behind a drive that
    /// keeps data, of virtual time in a simulation.
    pub at: Time,
}

/// A part of the host's address space: native, or overwritten by a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorState {
    /// What was written there last is there.
    Native,
    /// The data of other sectors is there: that of the first one on the medium, and who wrote it.
    Overwritten {
        /// Where the data comes from; it goes on from there.
        source: Pba,
        /// The write that did it.
        by: Stamp,
    },
}

/// Sectors that a write destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What the host calls them.
    pub lba: LbaExtent,
    /// Where the data comes from that lies on the first of them now.
    pub source: Pba,
    /// The write that did it.
    pub by: Stamp,
}

/// Counters; those of commands since the drive was switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverwritingCounters {
    /// Sectors that are overwritten now.
    pub overwritten_sectors: u64,
    /// Fragments that they make.
    pub fragments: u64,
    /// Writes since the drive was made.
    pub writes: u64,
    /// Writes that destroyed sectors, whether anything was in them or not.
    pub overwriting_writes: u64,
    /// Reads that met an overwritten sector.
    pub overwritten_reads: u64,
    /// Overwritten sectors that they met.
    pub overwritten_sectors_read: u64,
}

/// What an image keeps in a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What is overwritten, by address.
    pub fragments: Vec<Destroyed>,
    /// Who wrote the sources, by address.
    pub stamps: Vec<(PbaExtent, Stamp)>,
    /// Writes so far.
    pub writes: u64,
}

/// See the module page. One plan takes one write at most.
pub trait Overwriting {
    /// The drive's tracks, for those above who lay out data by them.
    fn geometry(&self) -> &Geometry;

    /// Tracks that a write covers.
    fn shingling(&self) -> Shingling;

    /// The bands, if the drive is banded.
    fn bands(&self) -> Option<&Bands>;

    /// What reads give now.
    fn mode(&self) -> ReadMode;

    /// Changes what reads give from the next one on.
    fn set_mode(&mut self, mode: ReadMode);

    /// Which parts of a host extent are native and which overwritten, in order.
    fn visit_state(&mut self, extent: LbaExtent, visit: &mut dyn FnMut(LbaExtent, SectorState));

    /// Which writes destroyed what of a host extent.
    fn losses(&mut self, extent: LbaExtent) -> Vec<Loss> {
        let mut losses = Vec::new();
        self.visit_state(extent, &mut |lba, state| {
            if let SectorState::Overwritten { source, by } = state {
                losses.push(Loss { lba, source, by });
            }
        });
        losses
    }

    /// Counters.
    fn counters(&mut self) -> OverwritingCounters;

    /// The write that was taken last, if it is not on record.
    fn unrecorded(&self) -> Option<(LbaExtent, Stamp)>;

    /// That write is on record now.
    fn recorded(&mut self);

    /// That write did not happen; the next one has its number.
    fn take_back(&mut self);

    /// Does a write again that is on record, with its own number and time; numbers rise, and some may be missing.
    fn redo(&mut self, extent: LbaExtent, stamp: Stamp);

    /// All that is on record.
    fn snapshot(&mut self) -> Snapshot;

    /// Fragments and stamps of a snapshot, at most.
    fn snapshot_entries(&mut self) -> (usize, usize);

    /// Goes on from a snapshot, unless it can be none of this drive; whether it did.
    fn restore_snapshot(&mut self, snapshot: &Snapshot) -> bool;
}
