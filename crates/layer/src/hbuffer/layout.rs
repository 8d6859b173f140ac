//! The sizes of a host buffer, and which zones of the drive it takes.
//!
//! The address space of the host is cut into *home zones*, each as long as the capacity of a zone of the drive. From the start of
//! the drive on, its zones are: conventional ones for checkpoints, or where there are none two with a write pointer; the
//! other conventional ones, which are home zones for good; the zones of the log; and all others, which hold home zones in any
//! order, but for the spares. A last zone that is shorter is left out.

use skylight_disk::{Lba, LbaExtent, Nanos, Sectors};

use super::format;
pub use super::format::Sizes;
use crate::capabilities::zoned::ZoneLayout;

/// The fewest zones of a log: one that is written, one that a recovery scans, and one to go on in.
pub const LEAST_LOG_ZONES: u32 = 3;

/// How the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Most data of one entry of the log, sectors.
    pub entry_max: Sectors,
    /// How much cleaning moves at a time: what a host command waits for that comes in idle time.
    pub chunk: Sectors,
    /// Most data that is gathered from the log at a time to clean many home zones: memory of the host.
    pub memory: Sectors,
    /// Idle time before zones are cleaned; `None` to clean only where the policy or the log must.
    pub idle_after: Option<Nanos>,
}

impl Default for Tuning {
    /// Chosen: entries of 1 MiB, beside which a header is nothing; chunks of 16 MiB, which a disk reads and writes in 0.2 s and of
    /// which two seeks are a tenth; memory of 256 MiB, little for a host of such a drive; 0.1 s, some revolutions, so that a
    /// host that thinks between commands is not taken for one that is gone.
    fn default() -> Self {
        Self {
            entry_max: Sectors(2_048),
            chunk: Sectors(32_768),
            memory: Sectors(524_288),
            idle_after: Some(Nanos(100_000_000)),
        }
    }
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
    /// Other sizes than those of the buffer that the drive has.
    #[error(
        "the drive's host buffer has a log of {} zones and {} spare ones, not {} and {}: name these, or none",
        found.zones, found.spare_zones, asked.zones, asked.spare_zones
    )]
    Sizes {
        /// Those of the drive.
        found: Sizes,
        /// Those that the caller named.
        asked: Sizes,
    },
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
    /// The two places of checkpoints, and how many zones they take.
    pub fn checkpoints(layout: &ZoneLayout) -> ([LbaExtent; 2], u32) {
        let home = layout.capacity;
        // One conventional zone has both places, two have one each.
        if layout.conventional == 1 {
            let half = Sectors(home.get() / 2);
            return ([LbaExtent::new(Lba(0), half), LbaExtent::new(Lba(0) + half, half)], 1);
        }
        ([0, 1].map(|zone| LbaExtent::new(layout.start_of(zone), home)), 2)
    }

    /// Divides a drive up.
    ///
    /// # Errors
    /// When the drive cannot have this buffer.
    pub fn new(layout: &ZoneLayout, sizes: Sizes, entry_max: Sectors) -> Result<Self, SpecError> {
        let home = layout.capacity;
        if sizes.zones < LEAST_LOG_ZONES {
            return Err(SpecError::Log(sizes.zones));
        }
        if sizes.spare_zones == 0 {
            return Err(SpecError::Spare);
        }
        if layout.max_active.is_some() {
            return Err(SpecError::ActiveZones);
        }
        let last_is_short = layout.extent_of(layout.zones - 1).len < home;
        let whole = layout.zones - u32::from(last_is_short);
        let (checkpoints, checkpoint_zones) = Self::checkpoints(layout);
        let log = layout.conventional.max(checkpoint_zones);
        // Sizes may come from a damaged drive.
        let pool = log.saturating_add(sizes.zones);
        let needed = pool.saturating_add(sizes.spare_zones);
        if whole <= needed {
            return Err(SpecError::Zones { needed, whole });
        }
        let conventional = log - checkpoint_zones;
        let pool_zones = whole - pool;
        let homes = conventional + pool_zones - sizes.spare_zones;
        let map_limit = format::map_limit(checkpoints[0].len, homes);
        let entry = format::HEADER + entry_max;
        // A zone of the log takes an entry and a record for each home zone that has to be cleaned for the next one.
        let least = entry.get() + u64::from(pool_zones) + 2;
        let (Some(map_limit), true) = (map_limit, home.get() > least && entry_max.get() > 0) else {
            return Err(SpecError::ZoneSize(home.get()));
        };
        Ok(Self {
            checkpoints,
            checkpoints_in_order: layout.conventional == 0,
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
