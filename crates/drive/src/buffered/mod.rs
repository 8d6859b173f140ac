//! A host that has an H-Buffer before a zoned drive, in virtual time: what policies cost.
//!
//! The host sends ordinary commands to a [`Drive`], one at a time, so the drive's volatile cache, its open zones and its own
//! cleaning cost what they cost any host. No data is moved: of the buffer there is the log, the map and the cleaning, as
//! commands of the right length at the right place. The layer in `crates/layer/src/hbuffer` keeps data; a policy is the same for both.
//!
//! * This file: the paths of a write, reads, idle time, the accounts.
//! * [`log`]: the circular log.
//! * [`homes`]: the zones of the host's address space and where they lie.
//! * [`cleaning`]: many zones at a time, in as much memory as the host gives.
//!
//! Invariants: what the map does not have is in the drive's zone of its home zone, below [`homes::Homes::valid`]; the buffer's data
//! of a zone is dropped only after its cleaning has ended with a FLUSH; the same commands give the same nanoseconds.
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), sections 4 and 5.

mod cleaning;
mod homes;
mod log;

use skylight_command::code;
use skylight_disk::{Lba, LbaExtent, Nanos, SECTOR_BYTES, Sectors, Time};
use skylight_layer::capabilities::zoned::ZoneCounts;
use skylight_layer::hbuffer::policy::{Fill, HomeZones, Occasion, Path, Policy, State, WritePart};
use skylight_layer::hbuffer::streams::Streams;
use skylight_layer::{ExtentMap, ZoneLayout, ZoneModel};

use crate::batch::{Batch, BatchError};
use crate::drive::Drive;
use cleaning::Cleaning;
use homes::Homes;
use log::{HEADER, Log};

/// Idle time before the host cleans. Chosen: some revolutions, so that a host that thinks between commands is not taken for one
/// that is gone.
const IDLE_AFTER: Nanos = Nanos(100_000_000);
/// How often the drive is looked at while it cleans by itself: long beside a step of cleaning, short beside a zone's.
const DRIVE_LOOK: Nanos = Nanos(100_000_000);
/// When the wait for the drive's own cleaning is given up. Chosen: no drive cleans a zone for that long.
const DRIVE_GIVES_UP: Nanos = Nanos(600_000_000_000);

/// The sizes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Zones of the log, at least two.
    pub zones: u32,
    /// Memory of the host for cleaning: data that is gathered from the log at a time.
    pub memory: Sectors,
}

/// Why a drive cannot have this buffer, or a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferedError {
    /// The drive has no zones.
    #[error("a buffer of zones needs a drive with zones; name a zoned profile")]
    NoZones,
    /// The drive has too few zones.
    #[error("a buffer of {0} zones leaves none of the drive's {1} for data; name fewer")]
    Zones(u32, u32),
    /// A command outside of the host's address space, or of an operation that hosts of a block device do not have.
    #[error("command {0} is neither a read nor a write within the {1} bytes of the buffered drive")]
    Command(usize, u64),
    /// Longer than an entry can be.
    #[error("command {0} is longer than a zone of the log")]
    Long(usize),
    /// The drive refused a command of the host: a fault of ours.
    #[error("the drive refused a command of the buffer: {0}")]
    Refused(String),
    /// The drive does not clean its cache.
    #[error("the drive did not clean its persistent cache in {0} s of idle time")]
    NotCleaned(u64),
}

impl From<BatchError> for BufferedError {
    fn from(error: BatchError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// What the host did, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Sectors that the host wrote by path: direct, drive cache, buffer.
    pub written: [u64; 3],
    /// Time of the host's commands.
    pub foreground: Nanos,
    /// Of this, cleaning that writes waited for.
    pub blocked: Nanos,
    /// Cleaning in idle time.
    pub idle_cleaning: Nanos,
    /// Cleaning after the last command, of the host and then of the drive.
    pub cleaning_after: Nanos,
    /// Home zones cleaned by writing what was missing behind their write pointer, and by rewriting them.
    pub appended: u64,
    /// See `appended`.
    pub rewritten: u64,
}

/// See the module page.
pub struct BufferedHost {
    drive: Drive,
    policy: Box<dyn Policy>,
    spec: BufferSpec,
    layout: ZoneLayout,
    homes: Homes,
    log: Log,
    map: ExtentMap,
    streams: Streams,
    cleaning: Cleaning,
    account: Account,
}

impl BufferedHost {
    /// Puts an empty buffer before a new drive.
    ///
    /// # Errors
    /// When the drive has no zones, or too few.
    pub fn new(mut drive: Drive, policy: Box<dyn Policy>, spec: BufferSpec) -> Result<Self, BufferedError> {
        let layout = *drive.layer_mut().zoned().ok_or(BufferedError::NoZones)?.layout();
        let homes = Homes::new(&layout, spec.zones).ok_or(BufferedError::Zones(spec.zones, layout.zones))?;
        Ok(Self {
            drive,
            policy,
            spec,
            homes,
            log: Log::new(spec.zones, layout.capacity),
            map: ExtentMap::new(),
            streams: Streams::default(),
            cleaning: Cleaning::default(),
            account: Account::default(),
            layout,
        })
    }

    /// Sectors of the host's address space.
    pub fn capacity(&self) -> Sectors {
        self.homes.capacity()
    }

    /// Sectors of a home zone.
    pub fn home_len(&self) -> Sectors {
        self.layout.capacity
    }

    /// What was done so far.
    pub fn account(&self) -> Account {
        self.account
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Forgets what was done so far, but not what is where; the policy is a new one. For drives that were used before.
    pub fn start_over(&mut self, policy: Box<dyn Policy>) {
        self.policy = policy;
        self.account = Account::default();
        self.streams = Streams::default();
    }

    /// Runs host commands one after the other: each begins when the one before is done and not before `arrive_ns`, counted
    /// from the first. `took_ns` receives how long each took.
    ///
    /// # Errors
    /// When a command is not one of this device; those before it were run.
    pub fn run(
        &mut self,
        batch: &Batch<'_>,
        arrive_ns: &[u64],
        took_ns: &mut [u64],
    ) -> Result<(), BufferedError> {
        let start = self.drive.now();
        for (row, took) in took_ns.iter_mut().enumerate() {
            let extent = self.checked(batch, row)?;
            let due = start + Nanos(arrive_ns[row]);
            if due > self.drive.now() {
                self.idle_until(due)?;
            }
            let began = self.drive.now();
            match batch.op[row] {
                code::READ => self.read(extent)?,
                _ => self.write(extent)?,
            }
            *took = (self.drive.now() - began).get();
            self.account.foreground += Nanos(*took);
        }
        Ok(())
    }

    fn checked(&self, batch: &Batch<'_>, row: usize) -> Result<LbaExtent, BufferedError> {
        let capacity = self.capacity();
        let (offset, size) =
            (Sectors(batch.offset[row] / SECTOR_BYTES), Sectors(u64::from(batch.size[row]) / SECTOR_BYTES));
        let known = matches!(batch.op[row], code::READ | code::WRITE);
        if !known || size.get() == 0 || size > capacity || offset.get() > capacity.get() - size.get() {
            return Err(BufferedError::Command(row, capacity.bytes()));
        }
        if size + HEADER > self.layout.capacity {
            return Err(BufferedError::Long(row));
        }
        Ok(LbaExtent::new(Lba(offset.get()), size))
    }

    /// Cleans until nothing is in the buffer nor in the drive's persistent cache.
    ///
    /// # Errors
    /// When the drive refuses a command or never cleans.
    pub fn finish(&mut self) -> Result<Nanos, BufferedError> {
        let began = self.drive.now();
        self.flush()?;
        self.cut_short();
        self.end_cleaning()?;
        while let Some(zone) = self.homes.next_dirty(0) {
            self.begin_cleaning(zone);
            self.end_cleaning()?;
        }
        let (mut left, mut since) = (self.non_sequential(), self.drive.now());
        while left > 0 {
            self.drive.pause(DRIVE_LOOK);
            let now = self.non_sequential();
            if now < left {
                (left, since) = (now, self.drive.now());
            }
            if self.drive.now() - since > DRIVE_GIVES_UP {
                return Err(BufferedError::NotCleaned(DRIVE_GIVES_UP.get() / 1_000_000_000));
            }
        }
        let took = self.drive.now() - began;
        self.account.cleaning_after += took;
        Ok(took)
    }

    fn write(&mut self, extent: LbaExtent) -> Result<(), BufferedError> {
        let in_stream = self.streams.note(extent);
        let mut rest = extent;
        while !rest.is_empty() {
            let (zone, offset) = self.homes.place_of(rest.start);
            let len = rest.len.min(self.layout.capacity - offset);
            let part = WritePart { extent: LbaExtent::new(rest.start, len), zone, in_stream };
            self.write_part(&part)?;
            rest = LbaExtent::new(rest.start + len, rest.len - len);
        }
        Ok(())
    }

    /// The path that the policy chooses, or the buffer where that is not safe.
    fn path(&mut self, part: &WritePart) -> Path {
        self.refresh(part.zone);
        let chosen = self.consult(Nanos(0), |policy, state| policy.path(part, state));
        let home = self.homes.zone(part.zone);
        let is_buffered = home.buffered.get() > 0 && self.map.overlapping(part.extent).next().is_some();
        let in_order = home.continues(part.extent);
        match chosen {
            _ if home.cleaning || is_buffered => Path::Buffer,
            Path::Direct if !in_order => Path::Buffer,
            Path::DriveCache if !in_order && self.layout.model == ZoneModel::HostManaged => Path::Buffer,
            chosen => chosen,
        }
    }

    /// Asks the policy something, with all that it may see.
    fn consult<T>(&mut self, idle: Nanos, ask: impl FnOnce(&mut dyn Policy, &State<'_>) -> T) -> T {
        let mut counts = ZoneCounts::default();
        if let Some(zoned) = self.drive.layer_mut().zoned() {
            counts = zoned.counts();
            self.homes.refresh_flagged(zoned, counts.non_sequential);
        }
        self.homes.set_oldest(self.log.oldest().map(|record| self.homes.place_of(record.lba.start).0));
        let fill = Fill {
            zones: self.spec.zones,
            free_zones: self.log.free_zones(),
            space_in_zone: self.log.space_in_zone(),
            live: Sectors(self.map.sectors()),
            dirty_zones: self.homes.dirty_zones(),
            map_entries: self.map.entries(),
        };
        let state = State {
            now: Some(self.drive.now()),
            idle,
            layout: &self.layout,
            counts,
            fill,
            streams: &self.streams,
            homes: &self.homes,
        };
        ask(self.policy.as_mut(), &state)
    }

    fn write_part(&mut self, part: &WritePart) -> Result<(), BufferedError> {
        let path = self.path(part);
        self.account.written[path as usize] += part.extent.len.get();
        let began = self.drive.now();
        match path {
            Path::Direct | Path::DriveCache => {
                self.issue(code::WRITE, self.homes.native(part.extent))?;
                self.homes.wrote(part.zone, part.extent);
            }
            Path::Buffer => self.write_to_log(part)?,
        }
        let took = self.drive.now() - began;
        self.refresh(part.zone);
        self.policy.took(path, part, took);
        while let Some(zone) = self.ask(Occasion::Write, Nanos(0)) {
            self.clean_now(zone)?;
        }
        Ok(())
    }

    fn write_to_log(&mut self, part: &WritePart) -> Result<(), BufferedError> {
        let at = loop {
            match self.log.append(part.extent) {
                Some(at) => break at,
                None => self.make_space()?,
            }
        };
        let (zone, offset) = self.log.place(at);
        let start = self.layout.start_of(self.homes.log_zone(zone)) + offset;
        self.issue(code::WRITE, LbaExtent::new(start, HEADER + part.extent.len))?;
        let before: u64 = self.map.overlapping(part.extent).map(|mapped| mapped.lba.len.get()).sum();
        self.map.insert(part.extent, at + HEADER);
        self.homes.buffered(part.zone, Sectors(part.extent.len.get() - before));
        Ok(())
    }

    fn read(&mut self, extent: LbaExtent) -> Result<(), BufferedError> {
        let pieces: Vec<_> = self.map.overlapping(extent).collect();
        let mut from = extent.start;
        for piece in pieces {
            self.read_home(LbaExtent::new(from, piece.lba.start - from))?;
            let (zone, offset) = self.log.place(piece.pba);
            let start = self.layout.start_of(self.homes.log_zone(zone)) + offset;
            self.issue(code::READ, LbaExtent::new(start, piece.lba.len))?;
            from = piece.lba.end();
        }
        self.read_home(LbaExtent::new(from, extent.end() - from))
    }

    /// Reads what home zones have of an extent; what was never written needs no command.
    fn read_home(&mut self, mut rest: LbaExtent) -> Result<(), BufferedError> {
        while !rest.is_empty() {
            let (zone, offset) = self.homes.place_of(rest.start);
            let len = rest.len.min(self.layout.capacity - offset);
            let valid = Sectors(self.homes.valid(zone).get().saturating_sub(offset.get())).min(len);
            if valid.get() > 0 {
                self.issue(code::READ, self.homes.native(LbaExtent::new(rest.start, valid)))?;
            }
            rest = LbaExtent::new(rest.start + len, rest.len - len);
        }
        Ok(())
    }

    /// Lets time pass, in which the host and the drive may clean.
    fn idle_until(&mut self, due: Time) -> Result<(), BufferedError> {
        let since = self.drive.now();
        self.cut_short();
        while self.drive.now() < due {
            let idle = self.drive.now() - since;
            if idle < IDLE_AFTER {
                self.drive.pause((IDLE_AFTER - idle).min(due - self.drive.now()));
                continue;
            }
            if self.cleaning.is_over() {
                match self.ask(Occasion::Idle, idle) {
                    Some(zone) => self.begin_cleaning(zone),
                    None => {
                        self.drive.pause(due - self.drive.now());
                        break;
                    }
                }
            }
            let began = self.drive.now();
            self.clean_step()?;
            self.account.idle_cleaning += self.drive.now() - began;
        }
        Ok(())
    }

    /// The zone that the policy would clean, if the buffer has something of it.
    fn ask(&mut self, occasion: Occasion, idle: Nanos) -> Option<u32> {
        let zone = self.consult(idle, |policy, state| policy.clean(occasion, state))?;
        (zone < self.homes.count() && self.homes.zone(zone).buffered.get() > 0).then_some(zone)
    }

    /// Cleans until the log has space for its next zone, oldest data first.
    fn make_space(&mut self) -> Result<(), BufferedError> {
        let free = self.log.free_zones();
        while self.log.free_zones() == free {
            let Some(record) = self.log.oldest() else {
                return Err(BufferedError::Refused("no live data, and no free zone of the log".into()));
            };
            self.clean_now(self.homes.place_of(record.lba.start).0)?;
        }
        Ok(())
    }

    /// Does the rest of a pass.
    fn end_cleaning(&mut self) -> Result<(), BufferedError> {
        while !self.cleaning.is_over() {
            self.clean_step()?;
        }
        Ok(())
    }

    /// Ends what is being cleaned, and cleans a zone with what goes along.
    fn clean_now(&mut self, zone: u32) -> Result<(), BufferedError> {
        let began = self.drive.now();
        self.end_cleaning()?;
        if self.homes.zone(zone).buffered.get() > 0 {
            self.begin_cleaning(zone);
            self.end_cleaning()?;
        }
        self.account.blocked += self.drive.now() - began;
        Ok(())
    }

    fn non_sequential(&mut self) -> u32 {
        self.drive.layer_mut().zoned().map_or(0, |zoned| zoned.counts().non_sequential)
    }

    /// Takes the zone's descriptor over from the drive.
    fn refresh(&mut self, zone: u32) {
        if let Some(zoned) = self.drive.layer_mut().zoned() {
            self.homes.refresh(zone, zoned);
        }
    }

    fn flush(&mut self) -> Result<(), BufferedError> {
        self.issue(code::FLUSH, LbaExtent::default())
    }

    /// Sends one command to the drive and waits for it.
    fn issue(&mut self, op: u8, extent: LbaExtent) -> Result<(), BufferedError> {
        let (op, offset, size) = ([op], [extent.start.get() * SECTOR_BYTES], [extent.len.bytes() as u32]);
        let batch = Batch { op: &op, offset: &offset, size: &size };
        self.drive.run(&batch, 1, &mut [0], &mut [0])?;
        match self.drive.results().first() {
            Some(result) => Err(BufferedError::Refused(format!("{batch:?}: {:?}", result.outcome))),
            None => Ok(()),
        }
    }
}
