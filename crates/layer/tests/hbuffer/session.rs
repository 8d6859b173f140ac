//! A buffer on a drive, driven by a host: what it asks of the drive is done on [`Media`], and all that the host reads compared.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors, Time};
use skylight_layer::capabilities::zoned::ZoneDescriptor;
use skylight_layer::hbuffer::device::{Action, Bytes, Data, Executor, HostData};
use skylight_layer::hbuffer::format::{Header, Kind};
use skylight_layer::hbuffer::recovery::RecoveryError;
use skylight_layer::hbuffer::{HBuffer, NewError};
use skylight_layer::{Command, CommandId, Failure, Op, Outcome, Queue};

use super::common::host::{Host, Sizes};
use super::media::{Media, Sector, fill};
use super::random_policy::RandomPolicy;
use super::shadow::{Shadow, stamp};
use super::shape::Shape;

/// One write in so many is FUA.
const FUA_EVERY: u32 = 9;
/// In a session with failing commands a read fails within so many. Chosen: a zone is read around one bad sector in fewer.
const READ_FAILS_WITHIN: u64 = 60;
/// Most sectors of a drive that cannot be read at a time.
const UNREADABLE: usize = 6;

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
    /// The record of sectors that cannot be read names none.
    NoLossRecord,
    /// Cleaning makes something up for sectors that cannot be read.
    MadeUp,
    /// A recovery takes entries whose data is not whole.
    NoChecksum,
}

/// The data of the host's writes, made when it is asked for, space for what it reads, and its answers.
#[derive(Default)]
pub struct Hosted {
    pub writes: BTreeMap<CommandId, (LbaExtent, u64, OnceCell<Vec<u8>>)>,
    pub read: Vec<u8>,
    pub answers: Vec<(CommandId, Outcome)>,
}

impl HostData for Hosted {
    fn data(&self, command: CommandId) -> &[u8] {
        let (extent, number, data) = &self.writes[&command];
        data.get_or_init(|| {
            let mut bytes = vec![0; extent.len.bytes() as usize];
            for (lba, sector) in (extent.start.get()..).zip(bytes.chunks_mut(SECTOR_BYTES as usize)) {
                fill(sector, stamp(*number, lba));
            }
            bytes
        })
    }

    fn buffer(&mut self, _: CommandId) -> &mut [u8] {
        &mut self.read
    }

    fn complete(&mut self, command: CommandId, outcome: Outcome) {
        self.answers.push((command, outcome));
    }
}

/// What does the actions, with a bug or without.
pub struct Faulty {
    pub bytes: Bytes<Media, Hosted>,
    pub bug: Option<Bug>,
    /// A flush that is left out if the bug says so of what comes next.
    held: bool,
    behind_checkpoint: bool,
    /// The host flushes.
    host_flush: bool,
}

fn is_record(action: &Action) -> bool {
    matches!(action, Action::Write { data: Data::Entry(header, _), .. } if matches!(header.kind, Kind::Home { .. }))
}

fn is_checkpoint(action: &Action) -> bool {
    matches!(action, Action::Write { data: Data::Bytes(bytes), .. } if bytes.len() > SECTOR_BYTES as usize)
}

impl Faulty {
    pub fn new(media: Media, bug: Option<Bug>) -> Self {
        let bytes = Bytes::new(media, Hosted::default());
        Self { bytes, bug, held: false, behind_checkpoint: false, host_flush: false }
    }

    fn media(&mut self) -> &mut Media {
        &mut self.bytes.device
    }

    /// Whether the bug leaves an action out.
    fn is_left_out(&mut self, action: &Action) -> bool {
        let is_flush = *action == Action::Flush;
        let behind = std::mem::replace(&mut self.behind_checkpoint, is_checkpoint(action));
        match self.bug {
            Some(Bug::NoFlushBeforeRecord | Bug::NoFlushBeforeReset | Bug::NoFlushBeforeCheckpoint) => {
                self.held |= is_flush;
                is_flush
            }
            Some(Bug::NoFlushBehindCheckpoint) => is_flush && behind,
            Some(Bug::NoHostFlush) => is_flush && self.host_flush,
            Some(Bug::NoRecord) => is_record(action),
            Some(Bug::NoReset) => matches!(action, Action::Reset { .. }),
            Some(Bug::LostWrite) => matches!(action, Action::Write { data: Data::Host(_), .. }),
            _ => false,
        }
    }

    /// Does a flush that was held, unless the bug leaves it out before this action.
    fn release(&mut self, next: Option<&Action>) -> Result<(), Failure> {
        let held = std::mem::take(&mut self.held);
        let is_left_out = match self.bug {
            Some(Bug::NoFlushBeforeRecord) => next.is_some_and(is_record),
            Some(Bug::NoFlushBeforeReset) => matches!(next, Some(Action::Reset { .. })),
            Some(Bug::NoFlushBeforeCheckpoint) => next.is_some_and(is_checkpoint),
            _ => false,
        };
        if held && !is_left_out { self.bytes.execute(&Action::Flush) } else { Ok(()) }
    }

    /// Puts a sector over the one behind it, if it has one.
    fn smear(&mut self, extent: LbaExtent) {
        if extent.len > Sectors(1) {
            self.media().copy(extent.start, extent.start + Sectors(1));
        }
    }

    fn spoil(&mut self, action: &Action) {
        match (self.bug, action) {
            (Some(Bug::ShortEntry), Action::Write { extent, data: Data::Entry(..) })
                if extent.len > Sectors(1) =>
            {
                self.media().empty(Lba(extent.end().get() - 1));
            }
            (Some(Bug::MovedBeside), Action::Write { extent, data: Data::Merged { native, pieces } }) => {
                self.smear(LbaExtent::new(extent.start, native.len));
                for (offset, piece) in pieces {
                    self.smear(LbaExtent::new(extent.start + *offset, piece.len));
                }
            }
            (Some(Bug::ReadBeside), Action::Read { command, keep, .. }) if keep[0].1.len > Sectors(1) => {
                let (offset, _) = keep[0];
                let (at, sector) = (offset.bytes() as usize, SECTOR_BYTES as usize);
                self.bytes.host.buffer(*command).copy_within(at..at + sector, at + sector);
            }
            _ => {}
        }
    }
}

impl Executor for Faulty {
    fn execute(&mut self, action: &Action) -> Result<(), Failure> {
        self.release(Some(action))?;
        if self.is_left_out(action) {
            return Ok(());
        }
        match (self.bug, action) {
            (Some(Bug::MovedStale), Action::Write { extent, data: Data::Merged { native, .. } }) => {
                let data = Data::Merged { native: *native, pieces: Vec::new() };
                self.bytes.execute(&Action::Write { extent: *extent, data })?;
            }
            (Some(Bug::NoLossRecord), Action::Write { extent, data: Data::Entry(header, _) })
                if matches!(header.kind, Kind::Unreadable(_)) =>
            {
                let header = Header { kind: Kind::Unreadable(Vec::new()), ..header.clone() };
                let data = Data::Entry(header, Vec::new());
                self.bytes.execute(&Action::Write { extent: *extent, data })?;
            }
            (Some(Bug::MadeUp), Action::Write { data: Data::Merged { .. }, .. }) => {
                let unreadable = std::mem::take(&mut self.media().unreadable);
                let done = self.bytes.execute(action);
                self.media().unreadable = unreadable;
                done?;
            }
            _ => self.bytes.execute(action)?,
        }
        self.spoil(action);
        Ok(())
    }

    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure> {
        self.bytes.report(zones, visit)
    }

    fn complete(&mut self, command: CommandId, outcome: Outcome) {
        self.bytes.complete(command, outcome);
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

/// See the module page.
pub struct Session {
    pub shape: Shape,
    pub layer: HBuffer,
    pub drive: Faulty,
    shadow: Shadow,
    pub host: Host,
    cuts: bool,
    /// Now and then the drive fails a command.
    pub failures: bool,
    /// A command failed since the pass began.
    pass_failed: bool,
    pub made: Made,
}

/// What a session made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    pub cuts: u64,
    pub failures: u64,
    pub entries: u64,
    pub appended: u64,
    pub rewritten: u64,
    pub checkpoints: u64,
    pub drive_cache: u64,
    pub direct: u64,
    pub lost: u64,
    pub unread: u64,
    pub settled: u64,
}

impl Made {
    /// Adds what another session made.
    pub fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.failures += other.failures;
        self.entries += other.entries;
        self.appended += other.appended;
        self.rewritten += other.rewritten;
        self.checkpoints += other.checkpoints;
        self.drive_cache += other.drive_cache;
        self.direct += other.direct;
        self.lost += other.lost;
        self.unread += other.unread;
        self.settled += other.settled;
    }
}

impl Session {
    pub fn new(shape: Shape, seed: u64, deepest: u64, cuts: bool, bug: Option<Bug>) -> Self {
        let media = || {
            let mut media = Media::new(shape.layout(), shape.at_once, cuts);
            media.lenient = bug == Some(Bug::NoChecksum);
            media
        };
        let mut drive = Faulty::new(media(), bug);
        // The power may go while the buffer is made, after any of some commands.
        drive.media().left = (cuts && seed.is_multiple_of(2)).then_some(seed / 2 % 8 + 1);
        let policy = || Box::new(RandomPolicy::new(seed));
        let mut stream = super::common::host::Stream(seed);
        let layer = match HBuffer::new(shape.spec(seed), shape.layout(), &mut drive, policy()) {
            Ok(layer) => layer,
            Err(NewError::Drive(_)) if drive.media().is_off() => {
                drive.media().cut(&mut stream);
                match HBuffer::recover(None, shape.spec(0).1, drive.media(), policy()) {
                    Ok((layer, _)) => layer,
                    Err(RecoveryError::NoCheckpoint) => {
                        drive = Faulty::new(media(), bug);
                        HBuffer::new(shape.spec(seed), shape.layout(), &mut drive, policy())
                            .unwrap_or_else(|error| panic!("{shape:?}: {error}"))
                    }
                    Err(error) => panic!("{shape:?}, seed {seed}: {error}"),
                }
            }
            Err(error) => panic!("{shape:?}: {error}"),
        };
        let (capacity, zone) = (layer.capacity().get(), shape.layout().capacity.get());
        let bands =
            (0..capacity / zone).map(|home| LbaExtent::new(Lba(home * zone), Sectors(zone))).collect();
        let host = Host::new(Sizes { capacity, bands, unit: shape.entry }, seed, deepest);
        let (shadow, made) = (Shadow::new(capacity), Made::default());
        let mut session =
            Self { shape, layer, drive, shadow, host, cuts, failures: false, pass_failed: false, made };
        session.draw_cut();
        session
    }

    /// How many commands to the drive the next cut comes after.
    fn draw_cut(&mut self) {
        let most = [3, 20, 200][self.host.stream.below(3) as usize];
        self.drive.media().left = self.cuts.then_some(self.host.stream.below(most) + 1);
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

    /// Whether a command may fail by now: the power is off, or the drive failed one.
    fn may_fail(&mut self) -> bool {
        let (failures, media) = (self.failures, self.drive.media());
        media.is_off() || (failures && (media.fails.is_none() || media.read_fails.is_none()))
    }

    /// Idle time, in which the buffer and the drive clean.
    fn idle(&mut self) -> Result<(), String> {
        if self.host.stream.once_in(2) {
            self.drive.media().clean_some(&mut self.host.stream);
        }
        for _ in 0..self.host.stream.below(12) {
            // Cleaning that goes on without a zone says so at its end, behind other commands.
            let pass_failed = self.pass_failed && self.layer.is_cleaning();
            let done = self.layer.idle(&mut self.drive);
            self.pass_failed = pass_failed || self.may_fail();
            if let (Err(failure), false) = (done, self.pass_failed) {
                return Err(format!("idle time: {failure}"));
            }
        }
        Ok(())
    }

    /// The drive loses a sector at home that is durable, if one that is drawn is. Not one that cleaning may have a copy of already.
    fn lose_some(&mut self) {
        let lba = self.host.stream.below(self.layer.capacity().get());
        let found = self.layer.locate(LbaExtent::new(Lba(lba), Sectors(1)), 1)[0].1;
        let media = &mut self.drive.bytes.device;
        let zone = |place| self.layer.layout().zone_of(place);
        let at_home = found.filter(|&place| !self.shape.log_zones().contains(&zone(place)));
        if let Some(place) = at_home
            && !self.layer.is_cleaning()
            && self.shadow.is_durable(lba)
            && media.unreadable.len() < UNREADABLE
        {
            media.unreadable.push(place);
            self.shadow.lose(lba);
            self.made.lost += 1;
        }
    }

    /// Reads what was in doubt before a flush.
    fn settle(&mut self) -> Result<(), String> {
        self.drive.media().read_fails = None;
        for lba in self.shadow.take_doubtful() {
            let read = self.read_sector(lba)?;
            if self.drive.media().is_off() {
                return Ok(());
            }
            self.shadow.settle(lba, read)?;
            self.made.settled += 1;
        }
        Ok(())
    }

    /// The data that waiting writes have, in the order in which a buffer takes them, and space for that of a read.
    fn provide(&mut self, waiting: &[Command], next: usize) {
        let hosted = &mut self.drive.bytes.host;
        hosted.writes.clear();
        hosted.read.clear();
        hosted.read.resize(waiting[next].extent.len.bytes() as usize, 0xff);
        let others = waiting.iter().enumerate().filter(|&(index, _)| index != next);
        let taken = std::iter::once(&waiting[next]).chain(others.map(|(_, command)| command));
        for command in taken.filter(|command| command.op == Op::Write) {
            hosted.writes.insert(command.id, (command.extent, self.shadow.number(), OnceCell::new()));
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.host.submit_some();
        if self.failures {
            let fails = self.host.stream.once_in(10);
            self.drive.media().fails = Some(if fails { |_| true } else { |_| false });
            let read_fails = self.host.stream.once_in(10).then(|| self.host.stream.below(READ_FAILS_WITHIN));
            self.drive.media().read_fails = Some(read_fails.unwrap_or(u64::MAX));
        }
        if self.host.stream.once_in(20) {
            self.idle()?;
        }
        if self.host.stream.once_in(8) {
            self.lose_some();
        }
        let chosen = self.host.choose();
        let queue = self.host.queue(chosen);
        // Some writes are durable when they are answered.
        let is_fua = |command: &Command| command.op == Op::Write && command.id.0.is_multiple_of(FUA_EVERY);
        let waiting: Vec<_> = queue.waiting.iter().map(|command| command.with_fua(is_fua(command))).collect();
        let next = queue.next;
        let flush_failed = self.drive.media().flush_failed;
        self.provide(&waiting, next);
        self.drive.host_flush = waiting[next].op == Op::Flush;
        self.layer.take(Queue { waiting: &waiting, next }, &mut self.drive);
        let held = self.drive.release(None);
        let (is_off, may_fail) = (self.drive.media().is_off(), self.may_fail());
        self.made.failures += u64::from(self.failures && may_fail && !is_off);
        self.pass_failed = may_fail || (self.pass_failed && self.layer.is_cleaning());
        if held.is_err() && !is_off {
            return Err("a flush fails".to_owned());
        }
        let answers = std::mem::take(&mut self.drive.bytes.host.answers);
        if !answers.iter().any(|&(id, _)| id == waiting[next].id) {
            return Err("the next command is not answered".to_owned());
        }
        // A flush that failed is not kept from the host. Writes that share an entry with one that is FUA fail with it.
        let asks = |command: &Command| command.op == Op::Flush || command.flags.fua;
        let is_answered = |command: &&Command| answers.iter().any(|&(id, _)| id == command.id);
        let told = flush_failed && waiting.iter().filter(is_answered).any(asks);
        for &(id, outcome) in &answers {
            let command = waiting.iter().find(|command| command.id == id).ok_or("not a command")?;
            match outcome {
                Outcome::Done if flush_failed && asks(command) => {
                    return Err(format!("{command:?} is done after a flush that failed"));
                }
                Outcome::Failed(_) if told => self.in_doubt(command),
                Outcome::Done => self.done(command)?,
                Outcome::Failed(_) if may_fail => self.in_doubt(command),
                Outcome::Failed(Failure::Medium)
                    if command.op == Op::Read && self.shadow.may_fail(command.extent) =>
                {
                    self.made.unread += 1;
                }
                _ => return Err(format!("{command:?} fails: {outcome:?}")),
            }
        }
        if waiting[next].op == Op::Flush {
            self.drive.media().flush_failed = false;
            if answers.iter().any(|&(_, outcome)| outcome == Outcome::Done) {
                self.settle()?;
            }
        }
        let ids: Vec<CommandId> = answers.iter().map(|&(id, _)| id).collect();
        self.host.completed(&ids);
        if self.drive.media().is_off() { self.recover() } else { self.check_pointers() }
    }

    /// What the host may expect from now on, or was to expect.
    fn done(&mut self, command: &Command) -> Result<(), String> {
        match command.op {
            Op::Write => self.shadow.write(command.extent, self.number(command), command.flags.fua),
            Op::Trim => self.shadow.trim(command.extent),
            Op::Flush => self.shadow.flush(),
            _ => {
                for (lba, found) in self.found(command)? {
                    self.shadow.check(lba, Some(found))?;
                }
            }
        }
        Ok(())
    }

    /// A command that may have been done, or in part.
    fn in_doubt(&mut self, command: &Command) {
        match command.op {
            Op::Write => self.shadow.begin(command.extent, self.number(command)),
            Op::Trim => self.shadow.trim(command.extent),
            _ => {}
        }
    }

    /// The number of a write.
    fn number(&self, command: &Command) -> u64 {
        self.drive.bytes.host.writes[&command.id].1
    }

    /// What a read returned.
    fn found(&self, command: &Command) -> Result<Vec<(u64, u64)>, String> {
        let sectors = self.drive.bytes.host.read.chunks(SECTOR_BYTES as usize);
        let lbas = command.extent.start.get()..;
        lbas.zip(sectors)
            .map(|(lba, bytes)| match Sector::of(bytes) {
                Sector::Stamp(stamp) => Ok((lba, stamp)),
                Sector::Bytes(_) => Err(format!("at sector {lba} the host reads what is not its own")),
            })
            .collect()
    }

    /// What the buffer knows of a zone is so on the drive.
    fn check_pointers(&mut self) -> Result<(), String> {
        if !self.host.stream.once_in(50) || self.drive.bug.is_some() {
            return Ok(());
        }
        for (zone, written) in self.drive.bytes.device.in_order() {
            let known = self.layer.written_of(zone);
            if known != written && !self.layer.is_non_sequential(zone) {
                return Err(format!("zone {zone} is known to have {known:?}, and has {written:?}"));
            }
        }
        Ok(())
    }

    /// The power went, and comes back. Then everything is read.
    fn recover(&mut self) -> Result<(), String> {
        self.count();
        self.made.cuts += 1;
        let media = &mut self.drive.bytes.device;
        media.cut(&mut self.host.stream);
        (media.fails, media.read_fails, media.flush_failed) = (None, None, false);
        let seed = self.host.stream.next();
        let (sizes, tuning, _) = self.shape.spec(0);
        let named = self.host.stream.once_in(2).then_some(sizes);
        let recovered = HBuffer::recover(named, tuning, media, Box::new(RandomPolicy::new(seed)));
        let (layer, found) = recovered.map_err(|error| format!("recovery: {error}"))?;
        self.layer = layer;
        self.made.entries += found.entries;
        // Memory is lost.
        self.drive.execute(&Action::Forget).map_err(|failure| failure.to_string())?;
        for (lba, read) in self.read_all()? {
            self.shadow.check_cut(lba, read)?;
        }
        self.draw_cut();
        Ok(())
    }

    /// What sectors have, if they can be read.
    fn read(&mut self, extent: LbaExtent) -> Result<Option<Vec<(u64, u64)>>, String> {
        let command = Command::new(CommandId(0), Op::Read, extent);
        self.provide(&[command], 0);
        self.layer.take(Queue { waiting: &[command], next: 0 }, &mut self.drive);
        match std::mem::take(&mut self.drive.bytes.host.answers)[..] {
            [(_, Outcome::Done)] => self.found(&command).map(Some),
            [(_, Outcome::Failed(Failure::Medium))] => Ok(None),
            ref other => Err(format!("a read is answered by {other:?}")),
        }
    }

    fn read_sector(&mut self, lba: u64) -> Result<Option<u64>, String> {
        let read = self.read(LbaExtent::new(Lba(lba), Sectors(1)))?;
        Ok(read.map(|sectors| sectors[0].1))
    }

    /// All sectors: each alone if they cannot be read together.
    fn read_all(&mut self) -> Result<Vec<(u64, Option<u64>)>, String> {
        match self.read(LbaExtent::new(Lba(0), self.layer.capacity()))? {
            Some(sectors) => Ok(sectors.into_iter().map(|(lba, read)| (lba, Some(read))).collect()),
            None => {
                let all = 0..self.layer.capacity().get();
                all.map(|lba| Ok((lba, self.read_sector(lba)?))).collect()
            }
        }
    }

    fn check_all(&mut self) -> Result<(), String> {
        let media = self.drive.media();
        (media.left, media.fails, media.read_fails) = (None, None, None);
        let read = self.read_all()?;
        read.into_iter().try_for_each(|(lba, stamp)| self.shadow.check(lba, stamp))
    }
}
