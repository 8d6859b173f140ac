//! Small drives of every kind, with a buffer.

use proptest::prelude::*;
use skylight_disk::{Nanos, Pba, Sectors};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel, Zoned as _};
use skylight_layer::hbuffer::HBuffer;
use skylight_layer::hbuffer::spec::HBufferSpec;
use skylight_layer::{ZonedLayer, ZonedSpec};

use super::media::Media;
use super::session::Recovered;
use super::whim::Whim;

/// A drive and a buffer.
#[derive(Clone, Debug)]
pub struct Shape {
    pub model: ZoneModel,
    pub zones: u64,
    pub zone: u64,
    pub capacity: u64,
    pub last: u64,
    pub conventional: u32,
    pub log: u32,
    pub spares: u32,
    pub entry: u64,
    pub chunk: u64,
}

pub fn any_shape() -> impl Strategy<Value = Shape> {
    let drive = (any::<bool>(), 4u64..12, 40u64..100, 0u64..24, 0u32..5);
    let buffer = (3u32..6, 1u32..3, 1u64..16, 1u64..48);
    (drive, buffer).prop_map(|((aware, more, zone, less, conventional), (log, spares, entry, chunk))| {
        let model = if aware { ZoneModel::HostAware } else { ZoneModel::HostManaged };
        // Only the zones of a host-managed drive may have less capacity than their size.
        let capacity = if aware { zone } else { zone - less.min(zone / 4) };
        let zones = u64::from(conventional.max(2) + log + spares) + more;
        let last = if less % 2 == 0 { zone } else { 1 + less };
        Shape { model, zones, zone, capacity, last, conventional, log, spares, entry, chunk }
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

    pub fn spec(&self) -> HBufferSpec {
        HBufferSpec {
            zones: self.log,
            spare_zones: self.spares,
            entry_max: Sectors(self.entry),
            chunk: Sectors(self.chunk),
            idle_after: Some(Nanos(1_000_000)),
        }
    }

    fn drive(&self) -> ZonedLayer {
        ZonedLayer::new(ZonedSpec { layout: self.layout(), start: Pba(0), aware: None })
    }

    pub fn buffer(&self, seed: u64) -> HBuffer {
        HBuffer::new(self.spec(), self.drive(), Box::new(Whim::new(seed)))
            .unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    pub fn recover(&self, media: &Media, seed: u64) -> Recovered {
        let mut drive = self.drive();
        for record in media.records() {
            assert!(drive.restore_zone(record), "{record:?}");
        }
        HBuffer::recover(self.spec(), drive, Box::new(Whim::new(seed)), &mut &*media)
    }
}
