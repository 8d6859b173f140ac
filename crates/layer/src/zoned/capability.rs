//! The capability of a drive with zones: reports, records, and the admission of cached writes.

use skylight_command::{Command, Failure};
use skylight_disk::{Lba, Nanos, Time};

use super::ZonedLayer;
use crate::capabilities::zoned::{
    Preparation, ZoneAccess, ZoneCounts, ZoneDescriptor, ZoneFilter, ZoneLayout, ZoneRecord, Zoned,
};
use crate::plan::Plan;

impl Zoned for ZonedLayer {
    fn layout(&self) -> &ZoneLayout {
        self.table.layout()
    }

    fn descriptor(&self, zone: u32) -> ZoneDescriptor {
        self.table.descriptor(zone)
    }

    fn report(
        &self,
        from: Lba,
        filter: ZoneFilter,
        most: usize,
        out: &mut Vec<ZoneDescriptor>,
    ) -> Result<(), Failure> {
        let layout = self.table.layout();
        if from >= Lba(layout.sectors.get()) {
            return Err(Failure::InvalidField);
        }
        let zones = layout.zone_of(from)..layout.zones;
        let descriptors = zones.map(|zone| self.table.descriptor(zone));
        out.extend(descriptors.filter(|descriptor| filter.lists(descriptor)).take(most));
        Ok(())
    }

    fn counts(&self) -> ZoneCounts {
        self.table.counts()
    }

    fn admit(&mut self, write: &Command) -> Result<(), Failure> {
        self.table.admit(write.extent)
    }

    fn prepare(&mut self, write: &Command, now: Time, plan: &mut Plan) -> Preparation {
        let Self { table, aware, .. } = self;
        match aware {
            Some(aware) => aware.prepare(write.extent, now, table, plan),
            None => Preparation::Time(Nanos(0)),
        }
    }

    fn may_close(&self, zone: u32) -> bool {
        self.aware.as_ref().is_some_and(|aware| aware.may_close(zone))
    }

    fn set_access(&mut self, zone: u32, access: ZoneAccess) {
        self.table.set_access(zone, access);
    }

    fn recommend_reset(&mut self, zone: u32, recommended: bool) {
        self.table.recommend_reset(zone, recommended);
    }

    fn record(&self, zone: u32) -> ZoneRecord {
        self.table.record(zone)
    }

    fn take_changed(&mut self, visit: &mut dyn FnMut(ZoneRecord)) {
        self.table.take_changed(visit);
    }

    fn restore_zone(&mut self, record: ZoneRecord) -> bool {
        self.table.restore(record)
    }
}
