//! Small drives of every kind, with a buffer.

use proptest::prelude::*;
use skylight_disk::{Nanos, Sectors};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel};
use skylight_layer::hbuffer::format::Identity;
use skylight_layer::hbuffer::layout::{Sizes, Tuning};

/// A drive and a buffer.
#[derive(Clone, Debug)]
pub struct Shape {
    pub model: ZoneModel,
    /// Whether a write out of order moves the write pointer of a host-aware drive.
    pub at_once: bool,
    pub zones: u64,
    pub zone: u64,
    pub capacity: u64,
    pub last: u64,
    pub conventional: u32,
    pub log: u32,
    pub spares: u32,
    pub entry: u64,
    pub chunk: u64,
    pub memory: u64,
}

pub fn any_shape() -> impl Strategy<Value = Shape> {
    let drive = (any::<bool>(), 4u64..12, 40u64..100, 0u64..24, 0u32..5);
    let buffer = (3u32..6, 1u32..3, 1u64..13, 1u64..48, 1u64..200, any::<bool>());
    (drive, buffer).prop_map(|((aware, more, zone, less, conventional), buffer)| {
        let (log, spares, entry, chunk, memory, at_once) = buffer;
        let model = if aware { ZoneModel::HostAware } else { ZoneModel::HostManaged };
        // Only the zones of a host-managed drive may have less capacity than their size.
        let capacity = if aware { zone } else { zone - less.min(zone / 4) };
        let zones = u64::from(conventional.max(2) + log + spares) + more;
        let last = if less % 2 == 0 { zone } else { 1 + less };
        Shape { model, at_once, zones, zone, capacity, last, conventional, log, spares, entry, chunk, memory }
    })
}

impl Shape {
    pub fn layout(&self) -> ZoneLayout {
        let sectors = Sectors((self.zones - 1) * self.zone + self.last);
        let mut layout = ZoneLayout::new(self.model, sectors, Sectors(self.zone));
        layout.capacity = Sectors(self.capacity);
        layout.conventional = self.conventional;
        layout.max_open = Some(4);
        layout
    }

    /// The zones of the log: behind the places of checkpoints.
    pub fn log_zones(&self) -> std::ops::Range<u32> {
        let first = if self.conventional == 1 { 1 } else { self.conventional.max(2) };
        first..first + self.log
    }

    /// The sizes, how the work is done, and an identity.
    pub fn spec(&self, seed: u64) -> (Sizes, Tuning, Identity) {
        let tuning = Tuning {
            entry_max: Sectors(self.entry),
            chunk: Sectors(self.chunk),
            memory: Sectors(self.memory),
            idle_after: Some(Nanos(1_000_000)),
        };
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&seed.to_le_bytes());
        (Sizes { zones: self.log, spare_zones: self.spares }, tuning, Identity(identity))
    }
}
