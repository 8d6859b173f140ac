//! What an image keeps of a drive whose sectors can be overwritten: which write destroyed what.
//!
//! The layer alone knows that ([`skylight_layer::Overwriting`]). The image makes a record of each write that the layer takes:
//! a tag in the log, with the number and the time that the layer gives it. A checkpoint has the layer's snapshot. At
//! a start the layer takes up the snapshot and then, in their order, the writes whose tags are there.
//!
//! Times are nanoseconds of the UNIX clock, in model time too: there the drive adds to its own clock when the server began
//! (`drive/drive.rs`).
//!
//! Invariants: a write's tag is written before its bytes, so a process that is killed leaves no write of which it is
//! unknown what it destroyed; where writes are durable when answered (`Interpreter::records_first`), the tag is durable
//! before any byte is written, so that holds for a power cut too. A flush makes durable the tags of all writes before it: what a write destroyed
//! before a flush never reads as native after a cut. What becomes of a write that is refused is in `store_errors.rs`.
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), section 3.2.3, for the read modes.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use skylight_disk::{Direction, LbaExtent, Pba, SECTOR_BYTES, Sectors, Time};
use skylight_drive::profile::{Layout, Profile};
use skylight_layer::{Bands, CommandId, Layer, Plan, Step};

use crate::error::ImageError;
use crate::format::tag_log::{Kind, TAGS};
use crate::interpreter::Interpreter;
use crate::planted_bugs::Planted;

/// A run of bands of one size, each with a guard behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BandRun {
    /// The first host sector.
    pub first_lba: u64,
    /// Host sectors.
    pub sectors: u64,
    /// Sectors of a band.
    pub band_sectors: u64,
    /// Sectors of the guard behind each.
    pub guard_sectors: u64,
    /// Where the first band begins on the medium.
    pub first_pba: u64,
}

/// A recording zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// Tracks of each surface.
    pub tracks: u32,
    /// Sectors of a track.
    pub sectors_per_track: u32,
}

/// The tracks of a drive whose sectors can be overwritten, in short, for upper layers that lay out data by them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShingledInfo {
    /// Tracks that a write covers.
    pub width_tracks: u32,
    /// Tracks of each surface.
    pub tracks: u32,
    /// Surfaces.
    pub surfaces: u16,
    /// How sectors go from track to track.
    pub layout: Layout,
    /// A turn, ns.
    pub rotation_ns: u64,
    /// How far the next track begins behind the end of the one before, as a share of a turn.
    pub track_skew_turns: f64,
    /// Recording zones from the outer diameter on.
    pub zones: Vec<Zone>,
    /// Tracks of a band, if the disk is banded.
    pub band_tracks: Option<u32>,
    /// The share of the tracks that holds data: b / (b + k - 1), for whole bands.
    pub efficiency: Option<f64>,
    /// Where the bands lie.
    pub bands: Vec<BandRun>,
    /// Sectors that are overwritten.
    pub overwritten_sectors: u64,
    /// Fragments that they make.
    pub overwritten_fragments: u64,
    /// Writes since the image was made.
    pub writes: u64,
}

impl ShingledInfo {
    /// What there is to say of the disk of a profile; none if its sectors cannot be overwritten.
    pub fn of(profile: &Profile, layer: &mut dyn Layer) -> Option<Self> {
        let disk = layer.overwriting()?;
        let mut bands = Vec::new();
        let mut first_lba = 0;
        for run in disk.bands().into_iter().flat_map(Bands::stretches) {
            bands.push(BandRun {
                first_lba,
                sectors: run.sectors.get(),
                band_sectors: run.band.get(),
                guard_sectors: run.guard.get(),
                first_pba: run.start.get(),
            });
            first_lba += run.sectors.get();
        }
        let width_tracks = disk.shingling().width_tracks();
        let efficiency = |tracks| f64::from(tracks) / f64::from(tracks + width_tracks - 1);
        let (tracks, surfaces) = (disk.geometry().tracks(), disk.geometry().surfaces());
        let rotation_ns = profile.mechanics.rotation().nanos().get();
        let zones = skylight_drive::build::recording_zones(profile);
        let (counters, band_tracks) = (disk.counters(), profile.band_tracks());
        Some(Self {
            width_tracks,
            tracks,
            surfaces,
            layout: profile.geometry.layout,
            rotation_ns,
            track_skew_turns: profile.geometry.track_skew.nanos().get() as f64 / rotation_ns as f64,
            zones: zones
                .iter()
                .map(|zone| Zone { tracks: zone.tracks, sectors_per_track: zone.sectors_per_track })
                .collect(),
            band_tracks,
            efficiency: band_tracks.map(efficiency),
            bands,
            overwritten_sectors: counters.overwritten_sectors,
            overwritten_fragments: counters.fragments,
            writes: counters.writes,
        })
    }
}

/// Now, in nanoseconds of the UNIX clock: what layers behind a drive that keeps data are told ([`Layer::clock`]).
pub fn wall_clock() -> Time {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
}

impl Interpreter {
    /// Whether a write must be known for what it destroys, also after a power cut, before any of its bytes are
    /// there: asked for where writes are durable when they are answered.
    pub fn record_first(&mut self, first: bool) {
        self.records_first = first;
    }

    /// Makes a record of the write that a plan takes, before its bytes are anywhere, if it overwrites others.
    pub(crate) fn record(&mut self, layer: &mut dyn Layer) -> Result<(), ImageError> {
        let Some((extent, stamp)) = layer.overwriting().and_then(|of| of.unrecorded()) else {
            return Ok(());
        };
        // A flush leaves the rest of a block.
        if self.log.room() <= 2 * TAGS as u64 {
            self.checkpoint_now(false, layer)?;
        }
        self.begin_tag()?;
        let tag = self.tag(extent, Pba(0), Kind::Written { number: stamp.write, at_ns: stamp.at.get() });
        if !self.plants.has(Planted::NoRecord) {
            self.log.append(tag);
        }
        if let Some(overwriting) = layer.overwriting() {
            overwriting.recorded();
        }
        if self.records_first && !self.plants.has(Planted::RecordWithData) {
            return self.flush_now();
        }
        self.log.write(self.store.as_mut()).map_err(|error| self.failed("write its tag log", error))
    }

    /// Reads what the plan of a read says: native data, or that of the writes that destroyed it, or a pattern. The
    /// parts of it that are errors.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read_plan(
        &self,
        plan: &Plan,
        command: CommandId,
        extent: LbaExtent,
        buffer: &mut [u8],
    ) -> Result<Vec<LbaExtent>, ImageError> {
        self.check_readable()?;
        let (mut at, mut failed) = (0, Vec::new());
        for step in plan.steps() {
            match *step {
                Step::Access { medium, direction: Direction::Read, extent: piece, .. } => {
                    let len = piece.len.bytes() as usize;
                    let first = extent.start + Sectors(at as u64 / SECTOR_BYTES);
                    self.read_media(medium, piece.start, first, &mut buffer[at..at + len])?;
                    at += len;
                }
                Step::Fill { command: id, extent: part, pattern } if id == command => {
                    let from = ((part.start - extent.start).get() * SECTOR_BYTES) as usize;
                    buffer[from..from + part.len.bytes() as usize].fill(pattern);
                }
                Step::Fail { command: id, extent: part, .. } if id == command => failed.push(part),
                _ => {}
            }
        }
        Ok(failed)
    }
}
