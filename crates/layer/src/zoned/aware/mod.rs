//! What a host-aware drive does beside the standard: with the writes that do not continue a zone, when it opens a zone,
//! and in idle time.
//!
//! The layer asks at each of these: [`Aware::write`] for each part of a write, by zone, with whether it continues the zone;
//! [`Aware::read`] for each part of a read; [`Aware::reset`] when a zone was emptied; [`Aware::idle`] when no command came
//! for a while. The rules of zones stay with the zone table, which the drive's cleaning tells of its work
//! (`ZoneTable::cleaned`).
//!
//! As it stands every write goes to its own place.

use skylight_command::CommandId;
use skylight_disk::{LbaExtent, Nanos, PbaExtent};

use super::table::{Placed, PointerMoves, ZoneTable};
use crate::plan::{CacheUse, Idle, Medium, Piece, Plan, Purpose, Source};
use crate::restore::{MediaUse, Misplaced, Recovered};

/// The parameters of a host-aware drive.
#[derive(Clone, Debug, Default)]
pub struct AwareSpec {}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Aware {}

impl Aware {
    pub(super) fn new(_spec: AwareSpec) -> Self {
        Self {}
    }

    /// When a write out of order moves the write pointer.
    pub(super) fn pointer_moves(&self) -> PointerMoves {
        PointerMoves::AtOnce
    }

    /// Plans a part of a write, whose own place on the platters is `place`.
    pub(super) fn write(
        &mut self,
        _table: &mut ZoneTable,
        (placed, place): (Placed, PbaExtent),
        plan: &mut Plan,
    ) {
        plan.write(Medium::Platter, place, Purpose::Host, Source::Host(placed.extent.start.into()));
    }

    /// Plans a part of a read, in one zone.
    pub(super) fn read(
        &self,
        _table: &ZoneTable,
        _command: CommandId,
        (_zone, _part, place): (u32, LbaExtent, PbaExtent),
        plan: &mut Plan,
    ) {
        plan.read(Medium::Platter, place, Purpose::Host);
    }

    /// A zone was reset: what is kept of it elsewhere is gone.
    pub(super) fn reset(&mut self, _zone: u32) {}

    /// Appends the locations of a part of an extent, in one zone.
    pub(super) fn locate(
        &self,
        _table: &ZoneTable,
        (_zone, _part, place): (u32, LbaExtent, PbaExtent),
        pieces: &mut Vec<Piece>,
    ) {
        pieces.push(Piece { medium: Medium::Platter, extent: place, cached: false });
    }

    /// The idle time before [`Aware::idle`]; `None` without background work.
    pub(super) fn idle_after(&self) -> Option<Nanos> {
        None
    }

    /// Appends one unit of background work, if there is any.
    pub(super) fn idle(&mut self, _table: &mut ZoneTable, _plan: &mut Plan) -> Idle {
        Idle::Nothing
    }

    /// The space on the media with what this adds to that of the zones.
    pub(super) fn media_use(&self, zones: MediaUse) -> MediaUse {
        zones
    }

    /// Takes up what was found in the persistent cache.
    pub(super) fn restore(&mut self, _found: &Recovered<'_>) -> Result<(), Misplaced> {
        Ok(())
    }

    /// The use of the persistent cache.
    pub(super) fn cache_use(&self) -> CacheUse {
        CacheUse::default()
    }
}
