//! The sizes of a host buffer, and which zones of the drive it takes.
//!
//! The address space of the host is cut into *home zones*, each as long as the capacity of a zone of the drive. From the start of
//! the drive on, its zones are: conventional ones for checkpoints, or where there are none two with a write pointer; the
//! other conventional ones, which are home zones for good; the zones of the log; and all others, which hold home zones in any
//! order, but for the spares. A last zone that is shorter is left out.

use skylight_disk::{Lba, LbaExtent, Nanos, Sectors};

use super::format;
use crate::capabilities::zoned::ZoneLayout;

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HBufferSpec {
    /// Zones of the circular log; at least three. The paper's case study has 100.
    pub zones: u32,
    /// Zones without data into which a home zone is rewritten; at least one.
    pub spare_zones: u32,
    /// Most data of one entry of the log, sectors.
    pub entry_max: Sectors,
    /// How much of a zone cleaning moves at a time: what a host command waits for that comes in idle time. Memory of the host.
    pub chunk: Sectors,
    /// Idle time before zones are cleaned; `None` to clean only where the policy or the log must.
    pub idle_after: Option<Nanos>,
}

/// Why a drive cannot have this buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Too few zones of the log.
    #[error("the log of a host buffer needs 3 zones or more, not {0}")]
    Log(u32),
    /// No spare zone.
    #[error("a host buffer needs a spare zone to rewrite others")]
    Spare,
    /// Nothing is left for data.
    #[error("a host buffer needs {needed} zones and one for data, and the drive has {whole} whole ones")]
    Zones {
        /// Zones that it takes.
        needed: u32,
        /// Whole zones of the drive.
        whole: u32,
    },
    /// Zones that are too small.
    #[error("zones of {0} sectors are too small for the entries, records or checkpoints of a host buffer")]
    ZoneSize(u64),
    /// Something was written to the drive.
    #[error("{0} zones of the drive were written: reset them for a new host buffer")]
    Written(u32),
    /// A limit on active zones: home zones that are partly written would take them all.
    #[error("a drive that limits active zones cannot have a host buffer: partly written zones stay active")]
    ActiveZones,
}

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// The two places of checkpoints, in sectors of the drive.
    pub checkpoints: [LbaExtent; 2],
    /// Whether these are zones with a write pointer.
    pub checkpoints_in_order: bool,
    /// Conventional home zones: zones of the drive from this one on ...
    pub conventional_from: u32,
    /// ... and how many.
    pub conventional: u32,
    /// The first zone of the log.
    pub log: u32,
    /// The first of the zones that hold home zones, and spares.
    pub pool: u32,
    /// Zones of the pool.
    pub pool_zones: u32,
    /// Home zones, conventional ones first.
    pub homes: u32,
    /// Sectors of a home zone.
    pub home: Sectors,
    /// Most entries of the map, so that a checkpoint fits its place.
    pub map_limit: u64,
}

impl Places {
    /// Divides a drive up.
    ///
    /// # Errors
    /// When the drive cannot have this buffer.
    pub fn new(layout: &ZoneLayout, spec: &HBufferSpec) -> Result<Self, SpecError> {
        let home = layout.capacity;
        if spec.zones < 3 {
            return Err(SpecError::Log(spec.zones));
        }
        if spec.spare_zones == 0 {
            return Err(SpecError::Spare);
        }
        if layout.max_active.is_some() {
            return Err(SpecError::ActiveZones);
        }
        let last_is_short = layout.extent_of(layout.zones - 1).len < home;
        let whole = layout.zones - u32::from(last_is_short);
        // One conventional zone has both places, two have one each.
        let in_order = layout.conventional == 0;
        let checkpoint_zones = if in_order { 2 } else { layout.conventional.min(2) };
        let first = |zone: u32| layout.start_of(zone);
        let checkpoints = if checkpoint_zones == 2 {
            [0, 1].map(|zone| LbaExtent::new(first(zone), home))
        } else {
            let half = Sectors(home.get() / 2);
            [LbaExtent::new(Lba(0), half), LbaExtent::new(Lba(0) + half, half)]
        };
        let log = layout.conventional.max(checkpoint_zones);
        let pool = log + spec.zones;
        let needed = pool + spec.spare_zones;
        if whole <= needed {
            return Err(SpecError::Zones { needed, whole });
        }
        let conventional = log - checkpoint_zones;
        let pool_zones = whole - pool;
        let homes = conventional + pool_zones - spec.spare_zones;
        let map_limit = format::map_limit(checkpoints[0].len, homes);
        let entry = format::HEADER + spec.entry_max;
        // A zone of the log takes an entry and a record for each home zone that has to be cleaned for the next one.
        let least = entry.get() + u64::from(pool_zones) + 2;
        let (Some(map_limit), true) = (map_limit, home.get() > least && spec.entry_max.get() > 0) else {
            return Err(SpecError::ZoneSize(home.get()));
        };
        Ok(Self {
            checkpoints,
            checkpoints_in_order: in_order,
            conventional_from: checkpoint_zones,
            conventional,
            log,
            pool,
            pool_zones,
            homes,
            home,
            map_limit,
        })
    }
}
