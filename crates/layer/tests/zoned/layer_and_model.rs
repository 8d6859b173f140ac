//! A zoned layer and the model of the standard, side by side: each random command is asked of both, and behind each, whether
//! it failed or not, every zone is compared.

use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::capabilities::zoned::{
    ZoneAccess, ZoneCondition as Condition, ZoneDescriptor, ZoneFilter,
};
use skylight_layer::{Command, CommandId, Layer, Op, Outcome, Plan, Queue, ZoneAction};

use super::common::host::Stream;
use super::model::{Expected, Model, Shape, Zone};
use super::tables::{CONDITIONS, Tables};

/// Commands between two reports with a filter.
const REPORT_EVERY: u64 = 64;
/// Commands between two defects of the medium.
const DEFECT_EVERY: u64 = 4_000;
/// Commands between two recommendations to reset a zone.
const RECOMMENDATION_EVERY: u64 = 100;
/// Commands after which the drive is made anew, so that zones that failed are not all there is.
const ERASE_EVERY: u64 = 10_000;

/// See the module page.
pub struct Pair<L: Layer> {
    layer: L,
    model: Model,
    stream: Stream,
    plan: Plan,
    reported: Vec<ZoneDescriptor>,
    /// Zones whose reset is recommended: the standard leaves it to the drive when, so it is no part of the model.
    recommended: Vec<bool>,
    /// How often a command failed, and succeeded, by operation.
    pub failed: [u64; Op::COUNT],
    pub done: [u64; Op::COUNT],
}

impl<L: Layer> Pair<L> {
    pub fn new(layer: L, shape: Shape, tables: Tables, seed: u64) -> Self {
        Self {
            layer,
            recommended: vec![false; shape.capacity.div_ceil(shape.zone_sectors) as usize],
            model: Model::new(shape, tables),
            stream: Stream(seed),
            plan: Plan::default(),
            reported: Vec::new(),
            failed: [0; Op::COUNT],
            done: [0; Op::COUNT],
        }
    }

    /// Asks so many commands of both.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn run(&mut self, commands: u64) -> Result<u64, String> {
        for number in 1..=commands {
            let command = self.draw();
            self.ask(&command).map_err(|why| format!("command {number}, {command:?}: {why}"))?;
            if self.stream.once_in(REPORT_EVERY) {
                self.report().map_err(|why| format!("after command {number}: {why}"))?;
            }
            if self.stream.once_in(DEFECT_EVERY) {
                self.defect();
            }
            if self.stream.once_in(RECOMMENDATION_EVERY) {
                self.recommend();
            }
            if self.stream.once_in(ERASE_EVERY) {
                self.layer.erase();
                self.recommended.fill(false);
                self.model = Model::new(self.model.shape, self.model.tables.clone());
            }
        }
        Ok(commands)
    }

    fn ask(&mut self, command: &Command) -> Result<(), String> {
        self.plan.clear();
        self.layer.take(Queue { waiting: std::slice::from_ref(command), next: 0 }, &mut self.plan);
        let mut completions = self.plan.completions();
        let (Some((_, outcome)), None) = (completions.next(), completions.next()) else {
            return Err("a command completes once".to_owned());
        };
        drop(completions);
        let emptied = self.would_empty(command);
        let expected = self.model.step(command);
        let op = command.op.index();
        match outcome {
            Outcome::Failed(_) => self.failed[op] += 1,
            _ => self.done[op] += 1,
        }
        check_outcome(outcome, &expected, command.op)?;
        if outcome == Outcome::Done {
            emptied.into_iter().for_each(|zone| self.recommended[zone] = false);
        }
        self.compare(expected.gives_way)
    }

    /// Compares every zone.
    fn compare(&mut self, gives_way: usize) -> Result<(), String> {
        self.reported.clear();
        let zoned = self.layer.zoned().ok_or("it has no zones")?;
        let most = self.model.zones.len();
        zoned.report(Lba(0), ZoneFilter::All, most, &mut self.reported).map_err(|why| why.to_string())?;
        let marked = |&(zone, found): &(&bool, &ZoneDescriptor)| *zone != found.reset_recommended;
        if let Some((_, found)) = self.recommended.iter().zip(&self.reported).find(marked) {
            return Err(format!("whether the reset is recommended differs: {found:?}"));
        }
        self.model.agree(&self.reported, gives_way)
    }

    /// A report from somewhere on with a filter, and the counts.
    fn report(&mut self) -> Result<(), String> {
        let from = self.stream.below(self.model.shape.capacity);
        let condition = CONDITIONS[self.stream.below(CONDITIONS.len() as u64) as usize];
        let most = 1 + self.stream.below(self.model.zones.len() as u64) as usize;
        // The numbers of the REPORTING OPTIONS field.
        let (number, takes): (u8, fn(&ZoneDescriptor, Condition) -> bool) = match self.stream.below(4) {
            0 => (0, |_, _| true),
            1 => (0x10, |zone, _| zone.reset_recommended),
            2 => (0x11, |zone, _| zone.non_sequential),
            _ => (reporting_option(condition), |zone, condition| zone.condition == condition),
        };
        let filter = ZoneFilter::from_code(number).ok_or("a report has no such filter")?;
        let zoned = self.layer.zoned().ok_or("it has no zones")?;
        let mut found = Vec::new();
        zoned.report(Lba(from), filter, most, &mut found).map_err(|why| why.to_string())?;
        // The first zone of a report is the one that has the sector.
        let right = |zone: &&ZoneDescriptor| (zone.start + zone.len).get() > from && takes(zone, condition);
        let expected: Vec<ZoneDescriptor> = self.reported.iter().filter(right).take(most).copied().collect();
        if found != expected {
            return Err(format!(
                "{filter:?} from {from} on reports {found:?}, and has to report {expected:?}"
            ));
        }
        let (counted, there) = (u64::from(zoned.counts().of(condition)), self.model.count(condition));
        if counted == there {
            Ok(())
        } else {
            Err(format!("{counted} zones are {condition:?}, and {there} have to be"))
        }
    }

    /// The zones that a command empties if it succeeds: those with something in them that a reset names.
    fn would_empty(&self, command: &Command) -> Vec<usize> {
        if command.op != Op::Zone(ZoneAction::Reset) {
            return Vec::new();
        }
        let start = command.extent.start.get()..command.extent.end().get();
        let zones = self.model.zones.iter().enumerate();
        let named = zones.filter(|(_, zone)| start.contains(&zone.start) && can_be_emptied(zone.condition));
        named.map(|(index, _)| index).collect()
    }

    /// Has the drive recommend the reset of some zone that it can empty, or no longer.
    fn recommend(&mut self) {
        let index = self.stream.below(self.model.zones.len() as u64) as usize;
        let recommended = !self.stream.once_in(4);
        if let Some(zoned) = self.layer.zoned().filter(|_| can_be_emptied(self.model.zones[index].condition))
        {
            zoned.recommend_reset(index as u32, recommended);
            self.recommended[index] = recommended;
        }
    }

    /// A medium defect in some zone.
    fn defect(&mut self) {
        let index = self.stream.below(self.model.zones.len() as u64) as usize;
        let Zone { condition, .. } = self.model.zones[index];
        if condition == Condition::NotWritePointer {
            return;
        }
        let (to, access) = match self.stream.once_in(2) {
            true => (Condition::ReadOnly, ZoneAccess::ReadOnly),
            false => (Condition::Offline, ZoneAccess::Offline),
        };
        if let Some(zoned) = self.layer.zoned() {
            zoned.set_access(index as u32, access);
        }
        self.model.fail_zone(index, to);
    }

    /// A random command: each rule is kept and broken often.
    fn draw(&mut self) -> Command {
        let zone = self.draw_zone();
        let Shape { capacity, .. } = self.model.shape;
        let (op, start, len) = match self.stream.below(16) {
            0..=6 => self.draw_write(zone),
            7 | 8 => self.draw_read(zone),
            9 => (Op::Append, self.draw_zone_id(zone), self.draw_len(zone)),
            10 if self.stream.once_in(8) => (self.draw_action(), 0, capacity),
            _ => {
                let start = self.draw_zone_id(zone);
                let len = if self.stream.once_in(40) {
                    1 + self.stream.below(zone.end - zone.start)
                } else {
                    zone.end - zone.start
                };
                (self.draw_action(), start, len)
            }
        };
        let extent = LbaExtent::new(Lba(start), Sectors(len.min(capacity - start).max(1)));
        Command::new(CommandId(0), op, extent)
    }

    /// A zone: often one that is in use.
    fn draw_zone(&mut self) -> Zone {
        let count = self.model.zones.len() as u64;
        let (one, other) = (self.stream.below(count) as usize, self.stream.below(count) as usize);
        let (one, other) = (self.model.zones[one], self.model.zones[other]);
        let idle = [Condition::Empty, Condition::Full, Condition::ReadOnly, Condition::Offline];
        if idle.contains(&one.condition) && self.stream.once_in(2) { other } else { one }
    }

    fn draw_action(&mut self) -> Op {
        match self.stream.below(5) {
            0 | 1 => Op::Zone(ZoneAction::Open),
            2 => Op::Zone(ZoneAction::Close),
            3 => Op::Zone(ZoneAction::Finish),
            _ => Op::Zone(ZoneAction::Reset),
        }
    }

    /// The first sector of a zone, or now and then another one.
    fn draw_zone_id(&mut self, zone: Zone) -> u64 {
        if self.stream.once_in(20) {
            zone.start + self.stream.below(zone.end - zone.start)
        } else {
            zone.start
        }
    }

    fn draw_len(&mut self, zone: Zone) -> u64 {
        let all = zone.end - zone.start;
        match self.stream.below(6) {
            0 => zone.writable_end.saturating_sub(zone.pointer).max(1),
            1 => 1 + self.stream.below(all + all / 4),
            _ => 1 + self.stream.below(all.div_ceil(4)),
        }
    }

    fn draw_write(&mut self, zone: Zone) -> (Op, u64, u64) {
        let len = self.draw_len(zone);
        let start = match self.stream.below(10) {
            0 => zone.start + self.stream.below(zone.end - zone.start),
            1 => zone.pointer.saturating_sub(1).max(zone.start),
            2 => (zone.pointer + 1).min(zone.end - 1),
            _ => zone.pointer.min(zone.end - 1),
        };
        (Op::Write, start, len)
    }

    fn draw_read(&mut self, zone: Zone) -> (Op, u64, u64) {
        let below = zone.pointer - zone.start;
        if below > 0 && self.stream.once_in(2) {
            let start = self.stream.below(below);
            return (Op::Read, zone.start + start, 1 + self.stream.below(below - start + 1));
        }
        let len = 1 + self.stream.below(2 * (zone.end - zone.start));
        (Op::Read, zone.start + self.stream.below(zone.end - zone.start), len)
    }
}

/// Whether a reset has an effect on a zone of a condition.
fn can_be_emptied(condition: Condition) -> bool {
    let idle = [Condition::NotWritePointer, Condition::Empty, Condition::ReadOnly, Condition::Offline];
    !idle.contains(&condition)
}

/// The number of the report of the zones of a condition (ZBC-2, REPORT ZONES).
fn reporting_option(condition: Condition) -> u8 {
    match condition {
        Condition::Empty => 1,
        Condition::ImplicitOpen => 2,
        Condition::ExplicitOpen => 3,
        Condition::Closed => 4,
        Condition::Full => 5,
        Condition::ReadOnly => 6,
        Condition::Offline => 7,
        Condition::NotWritePointer => 0x3f,
    }
}

fn check_outcome(outcome: Outcome, expected: &Expected, op: Op) -> Result<(), String> {
    let right = match outcome {
        Outcome::Done => expected.fails.is_empty() && op != Op::Append,
        Outcome::Appended(at) => expected.fails.is_empty() && expected.appended == Some(at.get()),
        Outcome::Failed(failure) => expected.fails.contains(&failure) || expected.may_fail == Some(failure),
    };
    if right {
        Ok(())
    } else {
        Err(format!("the drive answers {outcome:?}, and the standard has {expected:?}"))
    }
}
