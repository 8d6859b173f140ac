//! A buffer on a drive, driven by a host: the commands to the drive are executed on [`Media`], and all that the host reads compared.

use std::collections::VecDeque;
use std::rc::Rc;

use skylight_disk::{Direction, Lba, LbaExtent, Sectors};
use skylight_layer::capabilities::zoned::Zoned as _;
use skylight_layer::hbuffer::HBuffer;
use skylight_layer::hbuffer::below::{Action, Data};
use skylight_layer::hbuffer::format::Kind;
use skylight_layer::hbuffer::recovery::{Found, RecoveryError};
use skylight_layer::{Command, CommandId, Layer, Op, Outcome, Plan, Queue, Step};

use super::common::host::{Host, Sizes};
use super::media::{Media, Sector};
use super::shadow::{Shadow, stamp};
use super::shape::Shape;

/// One write in so many is FUA.
const FUA_EVERY: u32 = 9;

/// A fault between a buffer and its drive, as a bug in the buffer would make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An entry of the log is written, but for its last sector.
    ShortEntry,
    /// What cleaning moves is of the sector beside it.
    MovedBeside,
    /// Cleaning leaves out what the log has.
    MovedStale,
    /// A read is of the sector beside it.
    ReadBeside,
    /// A write home is not done.
    LostWrite,
    /// A zone is not emptied, which only a host-aware drive lets pass.
    NoReset,
    /// No flush before a record, the emptying of a zone, a checkpoint; none after that.
    NoFlushBeforeRecord,
    NoFlushBeforeReset,
    NoFlushBeforeCheckpoint,
    NoFlushBehindCheckpoint,
    /// A flush of the host makes nothing durable.
    NoHostFlush,
    /// No record of a cleaned zone, or of a trim.
    NoRecord,
    /// A recovery takes entries whose data is not whole.
    NoChecksum,
}

/// See the module page.
pub struct Session {
    pub shape: Shape,
    pub layer: HBuffer,
    media: Media,
    shadow: Shadow,
    pub host: Host,
    plan: Plan,
    bug: Option<Bug>,
    cuts: bool,
    /// The commands to the drive after which the power goes; only with cuts.
    left: u64,
    pub made: Made,
}

/// What a session made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    pub cuts: u64,
    pub entries: u64,
    pub appended: u64,
    pub rewritten: u64,
    pub checkpoints: u64,
    pub drive_cache: u64,
    pub direct: u64,
}

impl Session {
    pub fn new(shape: Shape, seed: u64, deepest: u64, cuts: bool, bug: Option<Bug>) -> Self {
        let mut layer = shape.buffer(seed);
        layer.keep_actions();
        let capacity = layer.capacity().get();
        let zone = shape.layout().capacity.get();
        let bands =
            (0..capacity / zone).map(|home| LbaExtent::new(Lba(home * zone), Sectors(zone))).collect();
        let sizes = Sizes { capacity, bands, unit: shape.entry };
        let mut session = Self {
            media: Media::new(shape.layout(), cuts, bug == Some(Bug::NoChecksum)),
            shadow: Shadow::new(capacity),
            host: Host::new(sizes, seed, deepest),
            plan: Plan::default(),
            left: 0,
            made: Made::default(),
            shape,
            layer,
            bug,
            cuts,
        };
        session.left = session.draw_cut();
        session
    }

    /// How many commands to the drive the next cut comes after.
    fn draw_cut(&mut self) -> u64 {
        let most = [3, 20, 200][self.host.stream.below(3) as usize];
        self.host.stream.below(most)
    }

    /// At least so many operations.
    pub fn run(&mut self, operations: u64) -> Result<u64, String> {
        while self.host.issued() < operations {
            self.step().map_err(|why| format!("operation {}: {why}", self.host.issued()))?;
        }
        self.check_all()?;
        self.count();
        Ok(self.host.issued())
    }

    /// Notes what the buffer has done, before it is made anew.
    fn count(&mut self) {
        let counters = *self.layer.counters();
        self.made.appended += counters.appended_zones;
        self.made.rewritten += counters.rewritten_zones;
        self.made.checkpoints += counters.checkpoints;
        self.made.drive_cache += counters.drive_cache;
        self.made.direct += counters.direct;
    }

    fn step(&mut self) -> Result<(), String> {
        self.host.submit_some();
        if self.host.stream.once_in(20) {
            for _ in 0..self.host.stream.below(12) {
                self.plan.clear();
                self.layer.idle(&mut self.plan);
                if !self.execute(&mut VecDeque::new(), &mut Vec::new())? {
                    return self.recover(&[]);
                }
            }
        }
        let chosen = self.host.choose();
        self.plan.clear();
        let queue = self.host.queue(chosen);
        // Some writes are durable when they are answered.
        let is_fua = |command: &Command| command.op == Op::Write && command.id.0.is_multiple_of(FUA_EVERY);
        let waiting: Vec<_> = queue.waiting.iter().map(|command| command.with_fua(is_fua(command))).collect();
        self.layer.take(Queue { waiting: &waiting, next: queue.next }, &mut self.plan);
        let mut taken = Vec::new();
        for (id, outcome) in self.plan.completions() {
            let command = waiting.iter().find(|command| command.id == id).ok_or("not a command")?;
            if outcome != Outcome::Done {
                return Err(format!("{command:?} fails: {outcome:?}"));
            }
            taken.push((*command, self.shadow.number()));
        }
        let (mut data, mut read) = (VecDeque::new(), Vec::new());
        for (command, number) in taken.iter().filter(|(command, _)| command.op == Op::Write) {
            let lbas = command.extent.start.get()..command.extent.end().get();
            data.extend(lbas.map(|lba| (lba, stamp(*number, lba))));
        }
        let whole = self.execute(&mut data, &mut read)?;
        let ids: Vec<CommandId> = taken.iter().map(|(command, _)| command.id).collect();
        self.host.completed(&ids);
        if !whole {
            return self.recover(&taken);
        }
        for (command, number) in taken {
            match command.op {
                Op::Write => self.shadow.write(command.extent, number, command.flags.fua),
                Op::Trim => self.shadow.trim(command.extent),
                Op::Flush => self.shadow.flush(),
                _ => {
                    let lbas: Vec<u64> = read.iter().map(|&(lba, _)| lba).collect();
                    let asked: Vec<u64> = (command.extent.start.get()..command.extent.end().get()).collect();
                    if lbas != asked {
                        return Err(format!("a read of {asked:?} returns {lbas:?}"));
                    }
                    read.iter().try_for_each(|&(lba, stamp)| self.shadow.check(lba, stamp))?;
                }
            }
        }
        self.check_pointers()
    }

    /// Executes the commands to the drive; `false` if the power went.
    fn execute(
        &mut self,
        data: &mut VecDeque<(u64, u64)>,
        read: &mut Vec<(u64, u64)>,
    ) -> Result<bool, String> {
        let actions = self.layer.take_actions();
        self.check_plan(&actions)?;
        for (index, action) in actions.iter().enumerate() {
            if self.cuts && self.made.checkpoints + self.layer.counters().checkpoints > 0 {
                if self.left == 0 {
                    return Ok(false);
                }
                self.left -= 1;
            }
            let next = actions.get(index + 1);
            let before = index.checked_sub(1).and_then(|index| actions.get(index));
            match self.is_left_out(action, before, next) {
                false => self.act(action, data, read)?,
                true => {
                    if let Action::Write { data: Data::Host(extent), .. } = action {
                        data.drain(..extent.len.get() as usize);
                    }
                }
            }
        }
        if data.is_empty() { Ok(true) } else { Err(format!("{} sectors were not written", data.len())) }
    }

    fn act(
        &mut self,
        action: &Action,
        data: &mut VecDeque<(u64, u64)>,
        read: &mut Vec<(u64, u64)>,
    ) -> Result<(), String> {
        let mut take = |extent: LbaExtent| -> Result<Vec<u64>, String> {
            let taken: Vec<(u64, u64)> = data.drain(..data.len().min(extent.len.get() as usize)).collect();
            let lbas = extent.start.get()..extent.end().get();
            match taken.iter().map(|&(lba, _)| lba).eq(lbas) {
                true => Ok(taken.into_iter().map(|(_, stamp)| stamp).collect()),
                false => Err(format!("the data of {extent:?} is not what comes next")),
            }
        };
        match action {
            Action::Flush => self.media.flush(),
            Action::Reset { zone } => self.media.reset(*zone),
            Action::Zeros(extent) => {
                read.extend((extent.start.get()..extent.end().get()).map(|lba| (lba, 0)))
            }
            Action::Read { from, to } => {
                for offset in 0..from.len.get() {
                    let beside = u64::from(self.bug == Some(Bug::ReadBeside) && offset > 0);
                    let sector = self.media.sector(from.start + Sectors(offset - beside));
                    let stamp = sector.stamp().ok_or("the host reads what is not its own")?;
                    read.push((to.get() + offset, stamp));
                }
            }
            Action::Write { at, data } => {
                let sectors = match data {
                    Data::Host(extent) => take(*extent)?.into_iter().map(Sector::Host).collect(),
                    Data::Entry(header) => {
                        let mut stamps = Vec::new();
                        if let Kind::Data(extents) = &header.kind {
                            for &extent in extents {
                                stamps.extend(take(extent)?);
                            }
                        }
                        let data: Vec<Sector> = stamps.iter().copied().map(Sector::Host).collect();
                        let header = Sector::Header(Rc::new((header.clone(), stamps)));
                        std::iter::once(header).chain(data).collect()
                    }
                    Data::Moved(pieces) => self.moved(pieces),
                    Data::Bytes(bytes) => {
                        let bytes = Rc::new(bytes.clone());
                        (0..bytes.len() / 512).map(|index| Sector::Bytes(bytes.clone(), index)).collect()
                    }
                };
                self.write(*at, sectors, matches!(data, Data::Entry(_)));
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Lba, mut sectors: Vec<Sector>, entry: bool) {
        if entry && sectors.len() > 1 && self.bug == Some(Bug::ShortEntry) {
            let last = sectors.len() - 1;
            sectors[last] = Sector::Zeros;
        }
        self.media.write(at, &sectors);
    }

    fn moved(&self, pieces: &[(Option<Lba>, Sectors)]) -> Vec<Sector> {
        let mut sectors = Vec::new();
        for &(start, len) in pieces {
            for offset in 0..len.get() {
                let beside = u64::from(self.bug == Some(Bug::MovedBeside) && offset > 0);
                let stale = self.bug == Some(Bug::MovedStale) && pieces.len() > 1 && offset == 0;
                sectors.push(match start {
                    Some(start) if !stale => self.media.sector(start + Sectors(offset - beside)),
                    _ => Sector::Zeros,
                });
            }
        }
        sectors
    }

    /// Whether a planted bug leaves out a command to the drive.
    fn is_left_out(&self, action: &Action, before: Option<&Action>, next: Option<&Action>) -> bool {
        let is_record = |action: &Action| matches!(action, Action::Write { data: Data::Entry(header), .. } if matches!(header.kind, Kind::Home { .. }));
        let is_checkpoint =
            |action: Option<&Action>| matches!(action, Some(Action::Write { data: Data::Bytes(_), .. }));
        let is_reset = |action: Option<&Action>| matches!(action, Some(Action::Reset { .. }));
        let is_flush = *action == Action::Flush;
        match self.bug {
            Some(Bug::NoFlushBeforeRecord) => is_flush && next.is_some_and(is_record),
            Some(Bug::NoFlushBeforeReset) => is_flush && is_reset(next),
            Some(Bug::NoFlushBeforeCheckpoint) => is_flush && is_checkpoint(next),
            Some(Bug::NoFlushBehindCheckpoint) => is_flush && is_checkpoint(before),
            Some(Bug::NoHostFlush) => is_flush && next.is_none() && before.is_none(),
            Some(Bug::NoRecord) => is_record(action),
            Some(Bug::NoReset) => is_reset(Some(action)),
            Some(Bug::LostWrite) => matches!(action, Action::Write { data: Data::Host(_), .. }),
            _ => false,
        }
    }

    /// The steps of the plan move the sectors that the commands to the drive move.
    fn check_plan(&self, actions: &[Action]) -> Result<(), String> {
        let (mut steps, mut commands) = (Runs::default(), Runs::default());
        for step in self.plan.steps() {
            if let Step::Access { direction: Direction::Write, extent, .. } = *step {
                steps.add((extent.start.get(), extent.len.get()));
            }
        }
        let drive = self.layer.drive();
        let place = |lba: Lba| drive.locate_first(LbaExtent::new(lba, Sectors(1)), false).1.get();
        for action in actions {
            if let Action::Write { at, data } = action {
                let len = match data {
                    Data::Host(extent) => extent.len,
                    Data::Entry(header) => Sectors(1) + header.data(),
                    Data::Moved(pieces) => Sectors(pieces.iter().map(|(_, len)| len.get()).sum()),
                    Data::Bytes(bytes) => Sectors(bytes.len() as u64 / 512),
                };
                commands.add((place(*at), len.get()));
            }
        }
        match steps.0 == commands.0 {
            true => Ok(()),
            false => Err(format!("the plan writes {:?}, and the commands {:?}", steps.0, commands.0)),
        }
    }

    /// What the drive's layer has of a zone is so on the drive.
    fn check_pointers(&mut self) -> Result<(), String> {
        if !self.host.stream.once_in(50) || self.bug.is_some() {
            return Ok(());
        }
        for record in self.media.records() {
            let has = self.layer.drive().record(record.zone);
            if has.written != record.written {
                return Err(format!("zone {} is {has:?}, and on the drive {record:?}", record.zone));
            }
        }
        Ok(())
    }

    /// The power goes; what was taken then may have been done or not. Then everything is read.
    fn recover(&mut self, taken: &[(Command, u64)]) -> Result<(), String> {
        for (command, number) in taken {
            match command.op {
                Op::Write => self.shadow.begin(command.extent, *number),
                Op::Trim => self.shadow.trim(command.extent),
                _ => {}
            }
        }
        self.count();
        self.made.cuts += 1;
        self.media.cut(&mut self.host.stream);
        self.left = self.draw_cut();
        let seed = self.host.stream.next();
        let found = match self.shape.recover(&self.media, seed) {
            Ok((layer, found)) => {
                self.layer = layer;
                found
            }
            // The first checkpoint was lost, and nothing was promised.
            Err(RecoveryError::NoCheckpoint) if self.made.checkpoints <= 1 => {
                let cuts = self.made.cuts;
                *self = Self::new(self.shape.clone(), seed, 8, true, self.bug);
                self.made.cuts = cuts;
                return Ok(());
            }
            Err(error) => return Err(format!("recovery: {error}")),
        };
        self.layer.keep_actions();
        self.made.entries += found.entries;
        for (lba, read) in self.read_all()? {
            self.shadow.check_cut(lba, read)?;
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<Vec<(u64, u64)>, String> {
        let all = LbaExtent::new(Lba(0), self.layer.capacity());
        let command = Command::new(CommandId(0), Op::Read, all);
        self.plan.clear();
        self.layer.take(Queue { waiting: &[command], next: 0 }, &mut self.plan);
        let mut read = Vec::new();
        for action in self.layer.take_actions() {
            self.act(&action, &mut VecDeque::new(), &mut read)?;
        }
        match read.len() as u64 == all.len.get() {
            true => Ok(read),
            false => Err(format!("a read of all returns {} sectors", read.len())),
        }
    }

    fn check_all(&mut self) -> Result<(), String> {
        let read = self.read_all()?;
        read.into_iter().try_for_each(|(lba, stamp)| self.shadow.check(lba, stamp))
    }
}

/// Extents of a medium, those that continue each other as one.
#[derive(Default)]
struct Runs(Vec<(u64, u64)>);

impl Runs {
    fn add(&mut self, (start, len): (u64, u64)) {
        match self.0.last_mut() {
            Some((last, length)) if *last + *length == start => *length += len,
            _ => self.0.push((start, len)),
        }
    }
}

pub type Recovered = Result<(HBuffer, Found), RecoveryError>;
