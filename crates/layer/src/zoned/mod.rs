//! The layer of drives with zones: host-managed, and host-aware with what [`host_aware`] adds.
//!
//! * `rules`: the rules of zones (conditions, write pointers, resources, what fails why); `states` keeps them.
//! * [`host_aware`]: what a host-aware drive does with writes out of order and beside the standard.
//!
//! Every sector of a zone that holds data has one place on the platters, in order; sectors beyond the capacity of a zone
//! have none. What was not written since the last reset reads as zeros, from no medium. Zone actions move no data: a reset
//! only forgets, and what a finished zone lacks reads as zeros.
//!
//! Invariants: a command that fails has a plan of its completion alone and leaves the layer as it was; a plan reads only
//! what plans have written.
//! Sources: see `crates/layer/src/capabilities/zoned.rs`.

mod capability;
pub mod host_aware;
mod recently_written;
mod rules;
mod states;
#[cfg(test)]
mod tests;

use skylight_command::{Command, CommandId, Failure, Op, Outcome, ZoneAction};
use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};

use crate::CacheUse;
use crate::capabilities::zoned::{Part, ZoneLayout, ZoneModel, Zoned};
use crate::plan::{Idle, Layer, Medium, Piece, Plan, Purpose, Queue, Room, Source, Step};
use crate::restore::{MediaUse, Misplaced, Recovered};
use host_aware::{Aware, AwareSpec, ZoneLog};
use rules::{Placed, PointerMoves, ZoneTable};

/// What unwritten sectors read as: the initialization pattern of ZBC.
const UNWRITTEN: u8 = 0;

/// A drive with zones.
#[derive(Clone, Debug)]
pub struct ZonedSpec {
    /// The zones.
    pub layout: ZoneLayout,
    /// Where on the platters the first zone begins.
    pub start: Pba,
    /// What a host-aware drive adds; `None` for a host-managed one, or for the standard alone.
    pub aware: Option<AwareSpec>,
}

/// The places of the zones on the platters.
#[derive(Clone, Copy, Debug)]
struct Places {
    start: Pba,
    /// The first sector of the first zone with a write pointer.
    sequential: Lba,
    /// Space before zones with a write pointer, for the drive's metadata of each ...
    before_zone: Sectors,
    /// ... which is together for so many neighbours, before the first of them.
    together: u32,
}

impl Places {
    fn new(spec: &ZonedSpec) -> Self {
        let sequential = spec.layout.start_of(spec.layout.conventional).get();
        let (before_zone, together) = match spec.aware.as_ref().map(|aware| aware.zone_log) {
            Some(ZoneLog::BeforeZones { each, together }) => (each, together.max(1)),
            Some(ZoneLog::At(_)) | None => (Sectors(0), 1),
        };
        let sequential = Lba(sequential.min(spec.layout.sectors.get()));
        Self { start: spec.start, sequential, before_zone, together }
    }

    /// The space for the metadata of a zone with a write pointer.
    fn before(&self, layout: &ZoneLayout, zone: u32) -> PbaExtent {
        let index = (zone - layout.conventional) % self.together;
        let first = self.of(layout, layout.start_of(zone - index));
        let back = u64::from(self.together - index) * self.before_zone.get();
        PbaExtent::new(Pba(first.get() - back), self.before_zone)
    }

    /// The place of a sector; of one beyond the capacity of its zone, that of the next zone's first.
    #[inline]
    fn of(&self, layout: &ZoneLayout, lba: Lba) -> Pba {
        let is_packed = layout.capacity == layout.zone && self.before_zone == Sectors(0);
        if lba < self.sequential || is_packed {
            return self.start + Sectors(lba.get());
        }
        let (zone, offset) = layout.place_of(lba);
        let index = zone - layout.conventional;
        let metadata = u64::from((index / self.together + 1) * self.together) * self.before_zone.get();
        let before = u64::from(index) * layout.capacity.get() + metadata;
        self.start + Sectors(self.sequential.get() + before) + offset.min(layout.capacity)
    }
}

/// See the module documentation.
pub struct ZonedLayer {
    places: Places,
    table: ZoneTable,
    aware: Option<Aware>,
    spec: ZonedSpec,
    /// Scratch space: the commands of a run or an entry.
    taken: Vec<CommandId>,
    /// Scratch space: the parts of writes that are out of order.
    out_of_order: Vec<LbaExtent>,
    /// Scratch space: writes of a run that stay, and zones of an entry.
    staying: Vec<LbaExtent>,
    staying_zones: Vec<u32>,
}

impl ZonedLayer {
    /// A drive whose zones are empty.
    pub fn new(spec: ZonedSpec) -> Self {
        let places = Places::new(&spec);
        let aware = spec.aware.clone().map(|aware| Aware::new(aware, places, spec.layout.zones));
        let pointer_moves = aware.as_ref().map_or(PointerMoves::AtOnce, Aware::pointer_moves);
        let table = ZoneTable::new(spec.layout, pointer_moves);
        Self {
            places,
            table,
            aware,
            spec,
            taken: Vec::new(),
            out_of_order: Vec::new(),
            staying: Vec::new(),
            staying_zones: Vec::new(),
        }
    }

    /// The place of a part of one zone on the platters; shorter, or empty, where the zone has no capacity for it.
    #[inline]
    fn native(&self, part: LbaExtent) -> PbaExtent {
        let layout = self.table.layout();
        let zone = layout.zone_of(part.start);
        let end = part.end().min(layout.start_of(zone) + layout.capacity_of(zone)).max(part.start);
        PbaExtent::new(self.places.of(layout, part.start), end - part.start)
    }

    /// Visits the parts of an extent, zone by zone.
    fn visit_parts(&self, extent: LbaExtent, mut visit: impl FnMut(&Self, u32, LbaExtent)) {
        for Part { zone, extent, .. } in self.table.layout().parts(extent) {
            visit(self, zone, extent);
        }
    }

    fn read(&mut self, command: Command, plan: &mut Plan) {
        let Command { id, extent, .. } = command;
        if let Err(failure) = self.table.check_read(extent) {
            return plan.fail(id, failure);
        }
        self.visit_parts(extent, |layer, zone, part| match &layer.aware {
            Some(aware) => aware.read(id, (zone, part), &layer.table, plan),
            None => layer.read_part(id, zone, part, plan),
        });
        plan.complete(id);
    }

    /// Reads what was written of a part of a zone, and fills the rest.
    fn read_part(&self, command: CommandId, zone: u32, part: LbaExtent, plan: &mut Plan) {
        let layout = self.table.layout();
        let written = match layout.is_conventional(zone) {
            true => part.end(),
            false => (layout.start_of(zone) + self.table.written(zone)).clamp(part.start, part.end()),
        };
        let (there, unwritten) =
            (LbaExtent::new(part.start, written - part.start), LbaExtent::new(written, part.end() - written));
        if !there.is_empty() {
            plan.read(Medium::Platter, self.native(there), Purpose::Host);
        }
        if !unwritten.is_empty() {
            plan.push(Step::Fill { command, extent: unwritten, pattern: UNWRITTEN });
        }
    }

    /// Places the data of an admitted write, or of several that continue each other.
    fn place(&mut self, extent: LbaExtent, plan: &mut Plan) {
        let Self { table, aware, places, out_of_order, .. } = self;
        out_of_order.clear();
        table.place(extent, |table, placed: Placed| {
            let LbaExtent { start, len } = placed.extent;
            let place = PbaExtent::new(places.of(table.layout(), start), len);
            match aware.as_mut() {
                Some(_) if !placed.sequential => out_of_order.push(placed.extent),
                Some(aware) => aware.write_in_order((placed, place), table, plan),
                None => plan.write(Medium::Platter, place, Purpose::Host, Source::Host(start.into())),
            }
        });
        if let Some(aware) = aware.as_mut().filter(|_| !out_of_order.is_empty()) {
            aware.write_out_of_order(out_of_order, table, plan);
        }
    }

    /// Places the oldest waiting write of a zone, and with it what goes to the media in the same access: the writes that
    /// continue it in its zone, or other writes out of order, in one journal entry.
    fn place_with_others(
        &mut self,
        queue: Queue<'_>,
        of_zone: &mut dyn Iterator<Item = Command>,
        plan: &mut Plan,
    ) {
        let next = queue.next_command();
        let (zone, offset) = self.table.layout().place_of(next.extent.start);
        let end_of_zone = next.extent.start + (self.table.layout().zone - offset);
        if next.extent.end() > end_of_zone {
            self.place(next.extent, plan);
            return plan.complete(next.id);
        }
        match &mut self.aware {
            Some(aware) if !self.table.continues(zone, offset) => {
                let limits = aware.entry_limits();
                self.place_entry(queue, limits, plan);
            }
            _ => self.place_run(next, (of_zone, end_of_zone), plan),
        }
    }

    /// Places the next write with those that continue it within a zone, as one. Older writes may stay behind in a
    /// conventional zone only: none that overlaps what is taken.
    fn place_run(
        &mut self,
        next: Command,
        (of_zone, end_of_zone): (&mut dyn Iterator<Item = Command>, Lba),
        plan: &mut Plan,
    ) {
        let start = next.extent.start;
        let mut end = next.extent.end();
        let Self { taken, staying, .. } = self;
        taken.clear();
        staying.clear();
        taken.push(next.id);
        for command in &mut *of_zone {
            if command.id == next.id {
                break;
            }
            staying.push(command.extent);
        }
        for command in of_zone {
            let continues = command.extent.start == end && command.extent.end() <= end_of_zone;
            if !continues || staying.iter().any(|one| one.overlaps(command.extent)) {
                break;
            }
            end = command.extent.end();
            taken.push(command.id);
        }
        self.place(LbaExtent::new(start, end - start), plan);
        self.taken.iter().for_each(|&id| plan.complete(id));
    }

    /// Places waiting writes that are out of order in one journal entry, oldest first: the next one to serve, and others
    /// as long as no older write to their zone stays behind.
    fn place_entry(&mut self, queue: Queue<'_>, (most, writes): (Sectors, usize), plan: &mut Plan) {
        let Self { table, aware, taken, out_of_order: parts, staying_zones: staying, .. } = self;
        let mut data = Sectors(0);
        taken.clear();
        parts.clear();
        staying.clear();
        let next = queue.next_command();
        let others = queue.waiting.iter().enumerate().filter(|&(index, _)| index != queue.next);
        for command in std::iter::once(&next).chain(others.map(|(_, command)| command)) {
            let LbaExtent { start, len } = command.extent;
            let zone = table.layout().zone_of(start);
            let last = table.layout().zone_of(Lba(command.extent.end().get() - 1));
            let alone = zone != last || table.is_in_order(start);
            if alone || staying.contains(&zone) {
                staying.extend(zone..=last);
                continue;
            }
            if !taken.is_empty() && (taken.len() == writes || (data + len).get() > most.get()) {
                break;
            }
            table.place(command.extent, |_, placed| parts.push(placed.extent));
            data += len;
            taken.push(command.id);
        }
        if let Some(aware) = aware {
            aware.write_out_of_order(parts, table, plan);
        }
        taken.iter().for_each(|&id| plan.complete(id));
    }

    /// The zone of a zone action, `None` for all zones.
    ///
    /// # Errors
    /// [`Failure::InvalidField`] when the extent is neither the whole drive nor a zone with a write pointer.
    fn zone_id(&self, extent: LbaExtent) -> Result<Option<u32>, Failure> {
        let layout = self.table.layout();
        if extent.start == Lba(0) && extent.len == layout.sectors {
            return Ok(None);
        }
        let zone = layout.zone_of(extent.start);
        let is_zone =
            zone < layout.zones && extent == layout.extent_of(zone) && !layout.is_conventional(zone);
        if is_zone { Ok(Some(zone)) } else { Err(Failure::InvalidField) }
    }

    /// A zone action.
    fn act(&mut self, action: ZoneAction, extent: LbaExtent) -> Result<(), Failure> {
        let Some(zone) = self.zone_id(extent)? else {
            return self.act_on_all(action);
        };
        match action {
            ZoneAction::Open => self.table.open_zone(zone),
            ZoneAction::Close => self.table.close_zone(zone).map(|()| self.close(zone)),
            ZoneAction::Finish => self.table.finish_zone(zone).map(|()| self.close(zone)),
            ZoneAction::Reset => self.table.reset_zone(zone).map(|had_data| {
                if let Some(aware) = self.aware.as_mut().filter(|_| had_data) {
                    aware.reset(zone, self.table.layout());
                }
            }),
        }
    }

    /// A zone is no longer open.
    fn close(&mut self, zone: u32) {
        if let Some(aware) = &mut self.aware {
            aware.close(zone);
        }
    }

    fn act_on_all(&mut self, action: ZoneAction) -> Result<(), Failure> {
        let Self { table, aware, .. } = self;
        match action {
            ZoneAction::Open => return table.open_all(),
            ZoneAction::Close => table.close_all(),
            ZoneAction::Finish => table.finish_all(),
            ZoneAction::Reset => {
                let layout = *table.layout();
                table.reset_all(|zone| {
                    if let Some(aware) = aware {
                        aware.reset(zone, &layout);
                    }
                });
            }
        }
        if let Some(aware) = aware {
            aware.close_all();
        }
        Ok(())
    }

    /// Admits and places an append.
    fn append(&mut self, command: Command, plan: &mut Plan) {
        match self.table.append(command.extent) {
            Ok(at) => {
                self.place(LbaExtent::new(at, command.extent.len), plan);
                plan.push(Step::Complete { command: command.id, outcome: Outcome::Appended(at) });
            }
            Err(failure) => plan.fail(command.id, failure),
        }
    }
}

impl Layer for ZonedLayer {
    #[expect(clippy::misnamed_getters, reason = "the capacity of the layout is that of a zone")]
    fn capacity(&self) -> Sectors {
        self.table.layout().sectors
    }

    #[inline]
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let command = queue.next_command();
        let done = match command.op {
            Op::Read => return self.read(command, plan),
            Op::Append => return self.append(command, plan),
            Op::Write => self.table.admit(command.extent).map(|()| self.place(command.extent, plan)),
            Op::Flush => Ok(()),
            Op::Zone(action) => self.act(action, command.extent),
            Op::Trim | Op::WriteZeroes | Op::Cache => Err(Failure::Unsupported),
        };
        match done {
            Ok(()) => plan.complete(command.id),
            Err(failure) => plan.fail(command.id, failure),
        }
    }

    fn destage(&mut self, queue: Queue<'_>, of_zone: &mut dyn Iterator<Item = Command>, plan: &mut Plan) {
        self.place_with_others(queue, of_zone, plan);
    }

    fn idle_after(&self) -> Option<skylight_disk::Nanos> {
        self.aware.as_ref()?.idle_after()
    }

    fn idle(&mut self, plan: &mut Plan) -> Idle {
        match &mut self.aware {
            Some(aware) => aware.idle(&mut self.table, plan),
            None => Idle::Nothing,
        }
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.visit_parts(extent, |layer, zone, part| {
            let place = layer.native(part);
            match &layer.aware {
                Some(aware) => aware.locate((zone, part), &layer.table, pieces),
                None if place.is_empty() => {}
                None => pieces.push(Piece { medium: Medium::Platter, extent: place, cached: false }),
            }
        });
    }

    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        let at = match &self.aware {
            Some(aware) => aware.locate_first(extent, write, &self.table),
            None => self.places.of(self.table.layout(), extent.start),
        };
        (Medium::Platter, at)
    }

    fn room(&self, _address: Lba) -> Option<Room> {
        self.aware.as_ref().map(Aware::room)
    }

    fn takes_room(&self, extent: LbaExtent) -> bool {
        let (zone, offset) = self.table.layout().place_of(extent.start);
        !self.table.layout().is_conventional(zone) && !self.table.may_continue(zone, offset)
    }

    fn all_go_to_log(&self, commands: &[Command]) -> bool {
        let Some(len) = commands.first().filter(|_| self.aware.is_some()).map(|first| first.extent.len)
        else {
            return false;
        };
        // In one loop, which mostly ends with the first command.
        commands.iter().all(|&Command { op, extent, .. }| {
            op == Op::Write && extent.len == len && !self.table.is_in_order(extent.start)
        })
    }

    /// Not for a write that is off the write pointer where that is required, and not for a read beyond what is written.
    #[inline]
    fn needs_medium(&self, command: &Command) -> bool {
        let (zone, offset) = self.table.layout().place_of(command.extent.start);
        if self.table.layout().is_conventional(zone) {
            return true;
        }
        if command.op == Op::Write {
            return self.table.layout().model == ZoneModel::HostAware
                || self.table.may_continue(zone, offset);
        }
        let is_cached = |aware: &Aware| aware.is_mapped(command.extent);
        offset < self.table.written(zone)
            || command.extent.end() > self.table.layout().extent_of(zone).end()
            || self.aware.as_ref().is_some_and(is_cached)
    }

    fn hint(&mut self, address: Lba) {
        self.table.hint(address);
        if let Some(aware) = &mut self.aware {
            aware.hint(address);
        }
    }

    fn zoned(&mut self) -> Option<&mut dyn Zoned> {
        Some(self)
    }

    fn erase(&mut self) {
        *self = Self::new(self.spec.clone());
    }

    fn media_use(&self) -> MediaUse {
        let layout = self.table.layout();
        let last = layout.extent_of(layout.zones - 1);
        let platter = Sectors(self.native(last).end().get());
        let native = MediaUse { platter, zones: layout.zones.into(), ..MediaUse::default() };
        self.aware.as_ref().map_or(native, |aware| aware.media_use(native))
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.visit_parts(extent, |layer, _, part| {
            let place = layer.native(part);
            if !place.is_empty() {
                visit(place);
            }
        });
    }

    fn restore(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        match &mut self.aware {
            Some(aware) => aware.restore(found, self.table.layout().zones),
            None => Ok(()),
        }
    }

    fn cache_use(&self) -> CacheUse {
        self.aware.as_ref().map(Aware::cache_use).unwrap_or_default()
    }
}
