//! The buffer that a drive has, or a new one on a drive without data.
//!
//! Invariant: a drive with data that no buffer wrote is left as it is.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::capabilities::zoned::ZoneLayout;
use skylight_layer::hbuffer::device::{Bytes, ZonedDevice};
use skylight_layer::hbuffer::format::{Checkpoint, Identity};
use skylight_layer::hbuffer::layout::{LEAST_LOG_ZONES, Sizes, Tuning};
use skylight_layer::hbuffer::policies;
use skylight_layer::hbuffer::recovery::RecoveryError;
use skylight_layer::hbuffer::{HBuffer, NewError};

use super::device::ServedZones;
use super::waiting::Waiting;
use crate::core::{Backend, BlockState, Failure, StatusQuery};

/// Zones of the log, of the paper's case study (section 5).
const LOG_ZONES: u32 = 100;
/// A small drive has one in so many zones for the log. Chosen: most of a drive is for data.
const LOG_SHARE: u32 = 8;
/// With two, a zone is rewritten while the old place of the one before waits for a flush.
const SPARE_ZONES: u32 = 2;
/// What is read at a time to look for data, 1 MiB.
const LOOK: Sectors = Sectors(2048);

/// Which buffer to put before a drive.
#[derive(Clone, Debug)]
pub struct HBufferPlan {
    /// The name of the policy that decides where writes go.
    pub policy: String,
    /// Zones of the log; `None` for those of the buffer that the drive has, or the default.
    pub zones: Option<u32>,
}

/// Why a drive cannot be served with a host buffer, as one line.
#[derive(Debug, thiserror::Error)]
pub enum HBufferError {
    /// The drive is no zoned one.
    #[error("the drive has no zones: leave out --hbuffer, or serve one with zones such as st8000as0022")]
    NoZones,
    /// There is no such policy.
    #[error("{0}: no policy of a host buffer; use one of {names}", names = policies::NAMES.join(", "))]
    Policy(String),
    /// There is data of somebody else.
    #[error(
        "the drive has data that no host buffer wrote: serve it without --hbuffer, or make another image"
    )]
    OtherData,
    /// The drive cannot have such a buffer, or not be prepared for it.
    #[error(transparent)]
    New(#[from] NewError),
    /// The buffer that the drive has cannot be taken up.
    #[error(transparent)]
    Recovery(RecoveryError),
    /// The drive fails.
    #[error("the drive cannot be read: {0}")]
    Drive(Failure),
    /// A system call failed.
    #[error("cannot start the host buffer: {0}; try again when fewer programs run")]
    System(#[from] io::Error),
}

impl HBufferError {
    /// Whether the drive or the system failed, rather than that something is asked for that cannot be.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::NoZones | Self::Policy(_) | Self::OtherData => false,
            Self::New(error) => !matches!(error, NewError::Spec(_)),
            Self::Recovery(error) => !matches!(error, RecoveryError::Spec(_)),
            Self::Drive(_) | Self::System(_) => true,
        }
    }
}

/// See the module page.
pub(super) fn open(
    drive: Arc<dyn Backend>,
    plan: &HBufferPlan,
) -> Result<(HBuffer, Bytes<ServedZones, Waiting>), HBufferError> {
    let device = ServedZones::of(drive.clone()).map_err(HBufferError::Drive)?;
    let mut device = device.ok_or(HBufferError::NoZones)?;
    let layout = device.layout();
    let policy = || policies::by_name(&plan.policy).ok_or_else(|| HBufferError::Policy(plan.policy.clone()));
    let asked = plan.zones.map(|zones| Sizes { zones, spare_zones: SPARE_ZONES });
    match HBuffer::recover(asked, Tuning::default(), &mut device, policy()?) {
        Ok((buffer, _)) => {
            let waiting = Waiting::new(layout.capacity);
            return Ok((buffer, Bytes::new(device, waiting)));
        }
        Err(RecoveryError::NoCheckpoint) => {}
        Err(error) => return Err(HBufferError::Recovery(error)),
    }
    if has_other_data(drive.as_ref(), &mut device)? {
        return Err(begun_at(&mut device)?
            .map_or(HBufferError::OtherData, |at| HBufferError::Recovery(RecoveryError::NoneWhole(at))));
    }
    let mut identity = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut identity)?;
    let sizes = asked.unwrap_or(Sizes { zones: default_zones(&layout), spare_zones: SPARE_ZONES });
    let spec = (sizes, Tuning::default(), Identity(identity));
    let mut work = Bytes::new(device, Waiting::new(layout.capacity));
    let buffer = HBuffer::new(spec, layout, &mut work, policy()?)?;
    Ok((buffer, work))
}

fn default_zones(layout: &ZoneLayout) -> u32 {
    ((layout.zones - layout.conventional) / LOG_SHARE).clamp(LEAST_LOG_ZONES, LOG_ZONES)
}

/// Whether zones without a write pointer have data. Zones with one show it by their write pointers.
fn has_other_data(drive: &dyn Backend, device: &mut ServedZones) -> Result<bool, HBufferError> {
    let layout = device.layout();
    if layout.conventional == 0 {
        return Ok(false);
    }
    let end = layout.start_of(layout.conventional);
    let mut from = Lba(0);
    // A new buffer whose first checkpoint a cut left incomplete has no data yet.
    for place in HBuffer::checkpoint_places(&layout) {
        if has_data(drive, device, LbaExtent::new(from, place.start - from))? {
            return Ok(true);
        }
        from = if is_begun(device, place)? { place.end() } else { place.start };
    }
    has_data(drive, device, LbaExtent::new(from, end - from))
}

/// Whether a checkpoint begins at a place without a write pointer.
fn is_begun(device: &mut ServedZones, place: LbaExtent) -> Result<bool, HBufferError> {
    let mut first = vec![0; SECTOR_BYTES as usize];
    let read = device.read(LbaExtent::new(place.start, Sectors(1)), &mut first);
    read.map_err(HBufferError::Drive)?;
    Ok(Checkpoint::len_of(&first).is_some())
}

/// Where zones without a write pointer have the beginning of a checkpoint.
fn begun_at(device: &mut ServedZones) -> Result<Option<Lba>, HBufferError> {
    for place in HBuffer::checkpoint_places(&device.layout()) {
        if is_begun(device, place)? {
            return Ok(Some(place.start));
        }
    }
    Ok(None)
}

/// Whether anything but zeros was written to an extent.
fn has_data(drive: &dyn Backend, device: &mut ServedZones, extent: LbaExtent) -> Result<bool, HBufferError> {
    let mut at = extent.start;
    let mut buffer = Vec::new();
    while at < extent.end() {
        let (offset, len) = (at.get() * SECTOR_BYTES, (extent.end() - at).bytes());
        let mut states = Vec::new();
        drive
            .block_status(offset, len, StatusQuery::Allocation, 1, &mut states)
            .map_err(HBufferError::Drive)?;
        let Some(run) = states.first() else { return Err(HBufferError::Drive(Failure::Internal)) };
        let run_end = (at + Sectors(run.len / SECTOR_BYTES)).min(extent.end());
        if run.state == BlockState::Hole {
            at = run_end;
        }
        while at < run_end {
            let here = LbaExtent::new(at, LOOK.min(run_end - at));
            buffer.resize(here.len.bytes() as usize, 0);
            let read = device.read(here, &mut buffer);
            read.map_err(HBufferError::Drive)?;
            if buffer.iter().any(|&byte| byte != 0) {
                return Ok(true);
            }
            at = here.end();
        }
    }
    Ok(false)
}
