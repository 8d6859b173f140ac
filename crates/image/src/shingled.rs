//! What an image of a raw shingled disk keeps beside the data: which write destroyed what.
//!
//! The image has a disk of its own ([`skylight_layer::Swd`]) to which it makes every write a second time, by its
//! number and the wall clock. Each write has a tag in the log; a checkpoint has the whole map. So what is
//! overwritten after a start follows from the writes whose tags are there, in their order.
//!
//! Invariants: a write's tag is written before its bytes, so a process that is killed leaves no write of which it is
//! unknown what it destroyed; where writes are durable when answered, the tag is durable before any byte is written,
//! so that holds for a power cut too. A flush makes durable the tags of all writes before it: what a write destroyed
//! before a flush never reads as native after a cut.
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), section 3.2.3, for the read modes.

use std::time::{SystemTime, UNIX_EPOCH};

use skylight_disk::{Direction, LbaExtent, Pba, SECTOR_BYTES, Sectors};
use skylight_drive::profile::Profile;
use skylight_layer::swd::{SectorState, Stamp};
use skylight_layer::{Bands, CommandId, Layer, Plan, Step, Swd};

use crate::error::ImageError;
use crate::format::tag::{Kind, TAGS};
use crate::host::HostWrite;
use crate::interpreter::Interpreter;
use crate::planted::Planted;

/// Sectors that a read was refused, and the write that had destroyed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What the host calls them.
    pub lba: LbaExtent,
    /// Where the data comes from that lies on the first of them now.
    pub source: Pba,
    /// The number of the write among all that the disk took, and nanoseconds of the UNIX clock.
    pub by: Stamp,
}

/// Counters of a raw shingled disk; those of reads since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShingledCounters {
    /// Sectors that are overwritten now.
    pub overwritten_sectors: u64,
    /// Fragments that they make.
    pub fragments: u64,
    /// Writes since the image was made.
    pub writes: u64,
    /// Writes that destroyed sectors, since it was opened.
    pub overwriting_writes: u64,
    /// Reads that met an overwritten sector.
    pub overwritten_reads: u64,
    /// Overwritten sectors that they met.
    pub overwritten_sectors_read: u64,
}

/// A run of bands of one size, each with a guard behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A raw shingled disk in short, for upper layers that lay out data by its tracks.
#[derive(Clone, Debug, PartialEq)]
pub struct ShingledInfo {
    /// Tracks that a write covers.
    pub width_tracks: u32,
    /// Tracks of each surface.
    pub tracks: u32,
    /// Surfaces.
    pub surfaces: u16,
    /// How sectors go from track to track.
    pub layout: String,
    /// A turn, ns.
    pub rotation_ns: u64,
    /// How far the next track begins behind the end of the one before, as a share of a turn.
    pub track_skew_turns: f64,
    /// Recording zones from the outer diameter on: tracks of each surface, and sectors of a track.
    pub zones: Vec<(u32, u32)>,
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
    /// What there is to say of the disk of a profile; none if it is no raw shingled one.
    pub fn of(profile: &Profile, layer: &mut dyn Layer) -> Option<Self> {
        let (skylight_drive::profile::Layer::Swd(keys), Some(disk)) = (&profile.layer, layer.raw_shingled())
        else {
            return None;
        };
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
        let width_tracks = keys.width_tracks;
        let efficiency = |tracks| f64::from(tracks) / f64::from(tracks + width_tracks - 1);
        let (tracks, surfaces) = (disk.geometry().tracks(), disk.geometry().surfaces());
        let rotation_ns = profile.mechanics.rotation().nanos().get();
        let zones = skylight_drive::build::recording_zones(profile);
        let counters = disk.counters();
        Some(Self {
            width_tracks,
            tracks,
            surfaces,
            layout: profile.geometry.layout.name().to_owned(),
            rotation_ns,
            track_skew_turns: profile.geometry.track_skew.nanos().get() as f64 / rotation_ns as f64,
            zones: zones.iter().map(|zone| (zone.tracks, zone.sectors_per_track)).collect(),
            band_tracks: keys.band_tracks,
            efficiency: keys.band_tracks.map(efficiency),
            bands,
            overwritten_sectors: counters.overwritten_sectors,
            overwritten_fragments: disk.map_entries().0 as u64,
            writes: disk.writes(),
        })
    }
}

/// Nanoseconds of the UNIX clock.
fn wall_ns() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

impl Interpreter {
    /// Whether the drive is a raw shingled disk, whose reads are what the layer's plan of them says.
    pub fn is_shingled(&self) -> bool {
        self.state.shingled.is_some()
    }

    /// Whether a write must be known for what it destroys, also after a power cut, before any of its bytes are
    /// there: asked for where writes are durable when they are answered.
    pub fn record_first(&mut self, first: bool) {
        self.records_first = first;
    }

    /// Notes the writes that a plan takes, before their bytes are anywhere.
    pub(crate) fn record(&mut self, writes: &[HostWrite<'_>]) -> Result<(), ImageError> {
        if writes.is_empty() {
            return Ok(());
        }
        let at_ns = wall_ns();
        for write in writes {
            let Some(disk) = &self.state.shingled else { return Ok(()) };
            let number = disk.writes() + 1;
            // A flush leaves the rest of a block.
            if self.log.room() <= 2 * TAGS as u64 {
                self.checkpoint_now(false)?;
            }
            self.begin_tag()?;
            let tag = self.tag(write.extent, Pba(0), Kind::Written { number, at_ns });
            self.state.apply(&tag);
            if self.plants.has(Planted::NoRecord) {
                continue;
            }
            self.log.append(tag);
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
        &mut self,
        plan: &Plan,
        command: CommandId,
        extent: LbaExtent,
        buffer: &mut [u8],
    ) -> Result<Vec<LbaExtent>, ImageError> {
        self.check_readable()?;
        let (mut at, mut failed, mut met) = (0, Vec::new(), 0);
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
        self.visit_overwritten(extent, &mut |part, torn| met += if torn { part.len.get() } else { 0 });
        self.shingled_reads.0 += u64::from(met > 0);
        self.shingled_reads.1 += met;
        Ok(failed)
    }

    /// Which writes destroyed what of an extent.
    pub fn losses(&mut self, extent: LbaExtent) -> Vec<Loss> {
        let mut losses = Vec::new();
        if let Some(disk) = &mut self.state.shingled {
            disk.visit_state(extent, &mut |lba, state| {
                if let SectorState::Overwritten { source, by } = state {
                    losses.push(Loss { lba, source, by });
                }
            });
        }
        losses
    }

    /// Which parts of an extent are overwritten, in order.
    pub fn visit_overwritten(&mut self, extent: LbaExtent, visit: &mut impl FnMut(LbaExtent, bool)) {
        match &mut self.state.shingled {
            Some(disk) if !extent.is_empty() => {
                disk.visit_state(extent, &mut |part, state| visit(part, state != SectorState::Native));
            }
            _ => visit(extent, false),
        }
    }

    /// The counters of a raw shingled disk.
    pub fn shingled_counters(&mut self) -> Option<ShingledCounters> {
        let (overwritten_reads, overwritten_sectors_read) = self.shingled_reads;
        self.state.shingled.as_mut().map(|disk| {
            let counters = disk.counters();
            ShingledCounters {
                overwritten_sectors: counters.overwritten_sectors,
                fragments: disk.map_entries().0 as u64,
                writes: disk.writes(),
                overwriting_writes: counters.overwriting_writes,
                overwritten_reads,
                overwritten_sectors_read,
            }
        })
    }

    /// The disk that the image has of its own.
    pub(crate) fn shingled_mut(&mut self) -> Option<&mut Swd> {
        self.state.shingled.as_mut()
    }
}
