//! A zoned drive by the tables of the standard ([`tables`](super::tables)): which commands fail for which reasons, and the
//! condition and write pointer of every zone behind each.
//!
//! What the standard leaves open the model leaves open: which of several violations is reported, and which of the
//! implicitly opened zones is closed to make way for another. It follows the drive there, within these limits.

use skylight_disk::Lba;
use skylight_layer::capabilities::zoned::{
    ZoneCondition as Condition, ZoneDescriptor, ZoneKind, ZoneModel as DriveModel,
};
use skylight_layer::{Command, Failure, Op, ZoneAction};

use super::tables::{Action, Effect, Tables, closed, is_required, row};

/// A zone; addresses in sectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    pub start: u64,
    pub end: u64,
    /// The end of what can be written.
    pub writable_end: u64,
    pub kind: ZoneKind,
    pub condition: Condition,
    /// The next block to be written, where the condition has one.
    pub pointer: u64,
    /// Whether a block was written elsewhere than at the write pointer since the zone was empty.
    pub non_sequential: bool,
}

/// What a drive is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub model: DriveModel,
    pub capacity: u64,
    pub zone_sectors: u64,
    pub writable_sectors: u64,
    pub conventional: u64,
    pub max_open: Option<u64>,
    pub max_active: Option<u64>,
    pub unrestricted_reads: bool,
}

/// What a drive has to answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// The command fails for one of these reasons; none if it succeeds.
    pub fails: Vec<Failure>,
    /// It may fail for this reason, which the standard leaves open.
    pub may_fail: Option<Failure>,
    /// Where an append goes.
    pub appended: Option<u64>,
    /// Implicitly opened zones that the drive closes to make way.
    pub gives_way: usize,
}

impl Expected {
    fn failure(failure: Failure) -> Self {
        Self { fails: vec![failure], ..Self::default() }
    }
}

/// See the module page.
pub struct Model {
    pub shape: Shape,
    pub tables: Tables,
    pub zones: Vec<Zone>,
    /// Zones by row of their condition.
    counts: [u64; 8],
    /// The zone that the last command was for: it does not give way.
    target: Option<usize>,
}

impl Model {
    pub fn new(shape: Shape, tables: Tables) -> Self {
        let zones = (0..shape.capacity.div_ceil(shape.zone_sectors)).map(|number| {
            let start = number * shape.zone_sectors;
            let end = (start + shape.zone_sectors).min(shape.capacity);
            let conventional = number < shape.conventional;
            let writable_end = if conventional { end } else { end.min(start + shape.writable_sectors) };
            let (kind, condition) = match shape.model {
                _ if conventional => (ZoneKind::Conventional, Condition::NotWritePointer),
                DriveModel::HostManaged => (ZoneKind::SequentialWriteRequired, Condition::Empty),
                DriveModel::HostAware => (ZoneKind::SequentialWritePreferred, Condition::Empty),
            };
            Zone { start, end, writable_end, kind, condition, pointer: start, non_sequential: false }
        });
        let mut model = Self { shape, tables, zones: zones.collect(), counts: [0; 8], target: None };
        model.zones.iter().for_each(|zone| model.counts[row(zone.condition)] += 1);
        model
    }

    fn of(&self, sector: u64) -> usize {
        (sector / self.shape.zone_sectors) as usize
    }

    fn sum(&self, of: &[bool; 8]) -> u64 {
        self.counts.iter().zip(of).filter(|(_, counts)| **counts).map(|(count, _)| count).sum()
    }

    /// Zones of a condition.
    pub fn count(&self, condition: Condition) -> u64 {
        self.counts[row(condition)]
    }

    fn set(&mut self, index: usize, condition: Condition, pointer: u64) {
        let zone = &mut self.zones[index];
        self.counts[row(zone.condition)] -= 1;
        self.counts[row(condition)] += 1;
        let non_sequential = zone.non_sequential && condition != Condition::Empty;
        *zone = Zone { condition, pointer, non_sequential, ..*zone };
    }

    /// A medium defect takes a zone out of use: the host has no command for it.
    pub fn fail_zone(&mut self, index: usize, condition: Condition) {
        self.set(index, condition, self.zones[index].pointer);
    }

    /// The resources of an open zone, and of an active one, for one that has none: how many zones give way, or why there
    /// are none.
    fn resources(&self, index: usize, active: bool) -> Result<usize, Failure> {
        let (tables, at) = (&self.tables, row(self.zones[index].condition));
        let Shape { max_open, max_active, .. } = self.shape;
        let refused = Err(tables.rules.resources);
        // Sequential write preferred zones have a number that is recommended, and no limit.
        if self.zones[index].kind == ZoneKind::SequentialWritePreferred || tables.open[at] {
            return Ok(0);
        }
        if active && !tables.active[at] && max_active.is_some_and(|most| self.sum(&tables.active) >= most) {
            return refused;
        }
        match max_open {
            Some(most) if self.sum(&tables.open) >= most => {
                if self.count(tables.gives_way) > 0 {
                    Ok(1)
                } else {
                    refused
                }
            }
            _ => Ok(0),
        }
    }

    /// Follows a command; what the drive has to answer.
    pub fn step(&mut self, command: &Command) -> Expected {
        self.target = None;
        let (start, end) = (command.extent.start.get(), command.extent.end().get());
        match command.op {
            Op::Read => self.read(start, end),
            Op::Write => self.write(start, end),
            Op::Append => self.append(start, end - start),
            Op::Zone(ZoneAction::Open) => self.act(Action::Open, start, end),
            Op::Zone(ZoneAction::Close) => self.act(Action::Close, start, end),
            Op::Zone(ZoneAction::Finish) => self.act(Action::Finish, start, end),
            Op::Zone(ZoneAction::Reset) => self.act(Action::Reset, start, end),
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Cache => Expected::default(),
        }
    }

    fn act(&mut self, action: Action, start: u64, end: u64) -> Expected {
        if (start, end) == (0, self.shape.capacity) && self.zones.len() > 1 {
            return self.act_on_all(action);
        }
        let index = self.of(start);
        let zone = self.zones[index];
        if (start, end) != (zone.start, zone.end) {
            return Expected::failure(self.tables.rules.zone_id);
        }
        let effect = self.tables.actions[row(zone.condition)][action as usize];
        self.effect(index, effect).unwrap_or_else(Expected::failure)
    }

    fn effect(&mut self, index: usize, effect: Effect) -> Result<Expected, Failure> {
        let zone = self.zones[index];
        let (condition, gives_way) = match effect {
            Effect::Keep => return Ok(Expected::default()),
            Effect::Fails(failure) => return Err(failure),
            Effect::To(condition) => (condition, 0),
            Effect::ToWithResources(condition) => (condition, self.resources(index, true)?),
            Effect::ToThroughOpen(condition) => (condition, self.resources(index, false)?),
            Effect::ToClosed => (closed(zone.pointer == zone.start), 0),
        };
        let pointer = if condition == Condition::Empty { zone.start } else { zone.pointer };
        self.set(index, condition, pointer);
        self.target = Some(index);
        Ok(Expected { gives_way, ..Expected::default() })
    }

    fn act_on_all(&mut self, action: Action) -> Expected {
        let column = action as usize;
        let acts = |zone: &Zone, tables: &Tables| tables.all[row(zone.condition)][column];
        let many: Vec<usize> =
            (0..self.zones.len()).filter(|&index| acts(&self.zones[index], &self.tables)).collect();
        let mut gives_way = 0;
        if action == Action::Open && self.shape.model == DriveModel::HostManaged {
            // All of them or none: zones that are opened implicitly make way, those opened explicitly do not.
            let open = self.sum(&self.tables.open);
            let more = many.len() as u64;
            let most = self.shape.max_open.unwrap_or(u64::MAX);
            let over = (open + more).saturating_sub(most);
            if over > self.count(self.tables.gives_way) {
                return Expected::failure(self.tables.rules.resources);
            }
            gives_way = over as usize;
        }
        for index in many {
            // Resources are those of all together; a zone that is finished needs them one at a time.
            let effect = match self.tables.actions[row(self.zones[index].condition)][column] {
                Effect::ToWithResources(condition) | Effect::ToThroughOpen(condition) => {
                    Effect::To(condition)
                }
                other => other,
            };
            if let Err(failure) = self.effect(index, effect) {
                return Expected::failure(failure);
            }
        }
        self.target = None;
        Expected { gives_way, ..Expected::default() }
    }

    fn read(&self, start: u64, end: u64) -> Expected {
        let (tables, mut fails) = (&self.tables, Vec::new());
        let zones = &self.zones[self.of(start)..=self.of(end - 1)];
        fails.extend(zones.iter().filter_map(|zone| tables.reads[row(zone.condition)]));
        if self.shape.model == DriveModel::HostAware {
            return Expected { fails, ..Expected::default() };
        }
        if zones.iter().any(|zone| zone.kind != zones[0].kind) {
            fails.push(tables.rules.read_types);
        }
        if self.shape.unrestricted_reads {
            return Expected { fails, ..Expected::default() };
        }
        if zones.len() > 1 && zones.iter().any(|zone| is_required(zone.kind)) {
            fails.push(tables.rules.read_boundary);
        }
        let has_pointer =
            |zone: &Zone| tables.active[row(zone.condition)] || zone.condition == Condition::Empty;
        if zones.iter().any(|zone| has_pointer(zone) && end.min(zone.end) > zone.pointer) {
            fails.push(tables.rules.invalid_data);
        }
        // A read-only zone reports no write pointer, and the standard that has capacities less than sizes is another one.
        let is_unclear = |zone: &Zone| {
            let known = if zone.condition == Condition::ReadOnly { zone.pointer } else { zone.writable_end };
            is_required(zone.kind) && end.min(zone.end) > known
        };
        let may_fail = zones.iter().any(is_unclear).then_some(tables.rules.invalid_data);
        Expected { fails, may_fail, ..Expected::default() }
    }

    fn write(&mut self, start: u64, end: u64) -> Expected {
        let (first, last) = (self.of(start), self.of(end - 1));
        let zone = self.zones[first];
        if self.shape.model == DriveModel::HostAware {
            return self.write_preferred(start, end);
        }
        if zone.kind == ZoneKind::Conventional {
            if self.zones[last].kind == zone.kind {
                return Expected::default();
            }
            let unwritable = self.zones[first..=last].iter().filter_map(|zone| self.refusal(zone));
            let fails = unwritable.chain([self.tables.rules.write_boundary]).collect();
            return Expected { fails, ..Expected::default() };
        }
        let mut fails = Vec::new();
        if end > zone.writable_end {
            fails.push(self.tables.rules.write_boundary);
        }
        match self.tables.writes[row(zone.condition)] {
            Effect::Fails(failure) => fails.push(failure),
            _ if start != zone.pointer => fails.push(self.tables.rules.unaligned),
            _ => {}
        }
        if !fails.is_empty() {
            return Expected { fails, ..Expected::default() };
        }
        self.advance(first, end).unwrap_or_else(Expected::failure)
    }

    /// Why a zone takes no write at all.
    fn refusal(&self, zone: &Zone) -> Option<Failure> {
        match self.tables.writes[row(zone.condition)] {
            Effect::Fails(failure) => Some(failure),
            _ => None,
        }
    }

    /// A write at the write pointer moves it, and fills a zone at its end.
    fn advance(&mut self, index: usize, end: u64) -> Result<Expected, Failure> {
        let expected = self.effect(index, self.tables.writes[row(self.zones[index].condition)])?;
        let zone = self.zones[index];
        let condition = if end == zone.writable_end { Condition::Full } else { zone.condition };
        self.set(index, condition, end);
        Ok(expected)
    }

    /// Sequential write preferred zones take writes anywhere, and across zones; the write pointer is behind the last
    /// block written.
    fn write_preferred(&mut self, start: u64, end: u64) -> Expected {
        let zones = self.of(start)..=self.of(end - 1);
        // They are written to when they are full, too.
        let refusals = zones.clone().filter_map(|index| self.refusal(&self.zones[index]));
        let fails: Vec<Failure> = refusals.filter(|failure| *failure != Failure::InvalidField).collect();
        if !fails.is_empty() {
            return Expected { fails, ..Expected::default() };
        }
        for index in zones {
            let zone = self.zones[index];
            let (from, to) = (start.max(zone.start), end.min(zone.end));
            if zone.kind == ZoneKind::Conventional {
                continue;
            }
            let full = zone.condition == Condition::Full;
            let pointer = if full { zone.pointer } else { zone.pointer.max(to) };
            let condition = match zone.condition {
                _ if pointer >= zone.writable_end || full => Condition::Full,
                Condition::Empty | Condition::Closed => Condition::ImplicitOpen,
                other => other,
            };
            let elsewhere = full || from != zone.pointer;
            self.set(index, condition, pointer);
            self.zones[index].non_sequential |= elsewhere;
        }
        Expected::default()
    }

    fn append(&mut self, start: u64, sectors: u64) -> Expected {
        let index = self.of(start);
        let zone = self.zones[index];
        if start != zone.start {
            return Expected::failure(self.tables.rules.zone_id);
        }
        if zone.kind == ZoneKind::Conventional {
            return Expected::failure(self.tables.rules.append_kind);
        }
        let mut fails = Vec::new();
        if let Some(failure) = self.refusal(&zone) {
            fails.push(failure);
        } else if zone.pointer + sectors > zone.writable_end {
            fails.push(self.tables.rules.write_boundary);
        }
        if !fails.is_empty() {
            return Expected { fails, ..Expected::default() };
        }
        let advanced = self.advance(index, zone.pointer + sectors);
        advanced
            .map_or_else(Expected::failure, |expected| Expected { appended: Some(zone.pointer), ..expected })
    }

    /// Compares with what the drive reports of all its zones, and follows it where it chose which zones gave way.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn agree(&mut self, reported: &[ZoneDescriptor], gives_way: usize) -> Result<(), String> {
        if reported.len() != self.zones.len() {
            return Err(format!("{} zones reported of {}", reported.len(), self.zones.len()));
        }
        let mut gave_way = 0;
        for (index, found) in reported.iter().enumerate() {
            let zone = self.zones[index];
            if zone.is(found) {
                continue;
            }
            let way = Zone { condition: Condition::Closed, ..zone };
            let may = zone.condition == self.tables.gives_way && way.is(found) && self.target != Some(index);
            if !may || (gave_way == gives_way && self.shape.model == DriveModel::HostManaged) {
                return Err(format!("zone {index} has to be {zone:?} and is {found:?}"));
            }
            gave_way += 1;
            self.set(index, Condition::Closed, zone.pointer);
        }
        match gave_way >= gives_way {
            true => Ok(()),
            false => Err(format!("{gave_way} zones gave way, and {gives_way} have to")),
        }
    }
}

impl Zone {
    /// Whether a drive reports this; the write pointer counts where the condition has one.
    pub fn is(&self, found: &ZoneDescriptor) -> bool {
        let has_pointer = matches!(
            self.condition,
            Condition::Empty | Condition::ImplicitOpen | Condition::ExplicitOpen | Condition::Closed
        );
        (self.start, self.end - self.start) == (found.start.get(), found.len.get())
            && self.writable_end - self.start == found.capacity.get()
            && (self.kind, self.condition) == (found.kind, found.condition)
            && (!has_pointer || found.write_pointer == Some(Lba(self.pointer)))
            && (self.non_sequential || !found.non_sequential)
    }
}
