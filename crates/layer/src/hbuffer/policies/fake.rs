//! A drive and a mechanism for the tests of policies: zones that do what they are told.

use skylight_disk::{Lba, LbaExtent, Nanos, Sectors, Time};

use super::super::policy::{Fill, HomeZone, HomeZones, Occasion, Path, Policy, State, WritePart};
use super::super::streams::Streams;
use crate::capabilities::zoned::{ZoneCondition, ZoneCounts, ZoneLayout, ZoneModel};

/// Sectors of a zone.
pub(crate) const ZONE: u64 = 1 << 19;

pub(crate) struct Fake {
    pub layout: ZoneLayout,
    pub homes: Vec<HomeZone>,
    /// The clock, if there is one.
    pub now: Option<Time>,
    pub fill: Fill,
    streams: Streams,
}

struct Zones<'a>(&'a [HomeZone]);

impl HomeZones for Zones<'_> {
    fn count(&self) -> u32 {
        self.0.len() as u32
    }

    fn zone(&self, zone: u32) -> HomeZone {
        self.0[zone as usize]
    }

    fn zone_of(&self, lba: Lba) -> u32 {
        (lba.get() / ZONE) as u32
    }

    fn next_dirty(&self, from: u32) -> Option<u32> {
        (from..self.count()).find(|&zone| self.zone(zone).buffered.get() > 0)
    }

    fn oldest(&self) -> Option<u32> {
        self.next_dirty(0)
    }
}

impl Fake {
    fn new(model: ZoneModel, zones: u32) -> Self {
        let mut layout = ZoneLayout::new(model, Sectors(u64::from(zones) * ZONE), Sectors(ZONE));
        layout.max_open = Some(128);
        layout.recommended_non_sequential = (model == ZoneModel::HostAware).then_some(8);
        let home = |zone| HomeZone {
            extent: layout.extent_of(zone),
            condition: ZoneCondition::Empty,
            written: Sectors(0),
            non_sequential: false,
            buffered: Sectors(0),
            cleaning: false,
        };
        Self {
            homes: (0..zones).map(home).collect(),
            layout,
            now: None,
            fill: Fill::default(),
            streams: Streams::default(),
        }
    }

    pub(crate) fn host_aware(zones: u32) -> Self {
        Self::new(ZoneModel::HostAware, zones)
    }

    pub(crate) fn host_managed(zones: u32) -> Self {
        Self::new(ZoneModel::HostManaged, zones)
    }

    /// Has all zones written to their end.
    pub(crate) fn full(mut self) -> Self {
        for home in &mut self.homes {
            (home.written, home.condition) = (Sectors(ZONE), ZoneCondition::Full);
        }
        self
    }

    pub(crate) fn counts(&self) -> ZoneCounts {
        let non_sequential = self.homes.iter().filter(|home| home.non_sequential).count() as u32;
        ZoneCounts { non_sequential, ..ZoneCounts::default() }
    }

    /// Cleans all zones, as a mechanism with much memory does.
    fn clean(&mut self) {
        for home in self.homes.iter_mut().filter(|home| home.buffered.get() > 0) {
            home.written = (home.written + home.buffered).min(Sectors(ZONE));
            home.buffered = Sectors(0);
        }
    }

    /// Has a question asked of a policy.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&State<'_>) -> T) -> T {
        question(&State {
            now: self.now,
            idle: Nanos(0),
            layout: &self.layout,
            counts: self.counts(),
            fill: self.fill,
            streams: &self.streams,
            homes: &Zones(&self.homes),
        })
    }

    /// Asks the policy for the path of a write at a sector of a zone, and does it.
    pub(crate) fn write(&mut self, policy: &mut dyn Policy, zone: usize, at: u64, len: u64) -> Path {
        let extent = LbaExtent::new(self.homes[zone].extent.start + Sectors(at), Sectors(len));
        let in_stream = self.streams.note(extent);
        let part = WritePart { extent, zone: zone as u32, in_stream };
        let path = self.ask(|state| policy.path(&part, state));
        let clean = self.ask(|state| policy.clean(Occasion::Write, state));
        let home = &mut self.homes[zone];
        match path {
            Path::Buffer => home.buffered += extent.len,
            _ if home.continues(extent) => home.written += extent.len,
            _ => home.non_sequential = true,
        }
        if clean.is_some() {
            self.clean();
        }
        path
    }
}
