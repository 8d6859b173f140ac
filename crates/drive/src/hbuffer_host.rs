//! A host with an H-Buffer before a zoned drive, in virtual time: what policies cost.
//!
//! The buffer is the one that keeps data (`crates/layer/src/hbuffer`), with its records, checkpoints and flushes; what it asks for
//! becomes commands of the right length at the right place, one at a time, so the drive's volatile cache, its open zones and its own
//! cleaning cost what they cost any host. No data is moved. Conventional zones are left out of the address space, so that every policy
//! meets the same zones.
//!
//! Invariant: the same commands give the same nanoseconds.
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), sections 4 and 5.

use std::ops::Range;

use skylight_command::{Command, CommandId, Failure, Flags, Op, Outcome, ZoneAction};
use skylight_disk::{Lba, LbaExtent, Nanos, SECTOR_BYTES, Sectors, Time};
use skylight_layer::capabilities::zoned::ZoneDescriptor;
use skylight_layer::hbuffer::device::{Action, Data, Executor};
use skylight_layer::hbuffer::format::Identity;
use skylight_layer::hbuffer::layout::{Sizes, Tuning};
use skylight_layer::hbuffer::policy::Policy;
use skylight_layer::hbuffer::{Counters, HBuffer, NewError};
use skylight_layer::{Idle, Queue};

use crate::batch::Batch;
use crate::drive::Drive;

/// Most of a command to the drive. Chosen: two tracks, as a host splits long ones.
const COMMAND: Sectors = Sectors((4 << 20) / SECTOR_BYTES);
/// How often the drive is looked at while it cleans by itself: long beside a step of cleaning, short beside a zone's.
const DRIVE_LOOK: Nanos = Nanos(100_000_000);
/// When the wait for the drive's own cleaning is given up. Chosen: no drive cleans a zone for that long.
const DRIVE_GIVES_UP: Nanos = Nanos(600_000_000_000);
/// Spare zones: one is rewritten to while the other waits for a flush.
const SPARE_ZONES: u32 = 2;

/// Why a drive cannot have this buffer, or a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferedError {
    /// The drive has no zones.
    #[error("a host buffer needs a drive with zones; name a zoned profile")]
    NoZones,
    /// The drive cannot have this buffer.
    #[error(transparent)]
    New(#[from] NewError),
    /// A command outside of the host's address space, or of an operation that is not run here.
    #[error("command {0} is neither a read nor a write within the {1} bytes of the buffered drive")]
    Command(usize, u64),
    /// The buffer or its drive refused a command of the host: a fault of ours.
    #[error("the buffer refused command {0}: {1}")]
    Refused(usize, Failure),
    /// The drive refused what the buffer asked in idle time: a fault of ours.
    #[error("the drive refused to clean: {0}")]
    Cleaning(#[from] Failure),
    /// The drive does not clean its cache.
    #[error("the drive did not clean its persistent cache in {0} s of idle time")]
    NotCleaned(u64),
}

/// What the host did, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Time of the host's commands, cleaning that they waited for included.
    pub foreground: Nanos,
    /// Cleaning in idle time.
    pub idle_cleaning: Nanos,
    /// Cleaning after the last command, of the host and then of the drive.
    pub cleaning_after: Nanos,
}

/// Does what a buffer asks for as commands of a drive, without data.
struct Timed {
    drive: Drive,
    /// The failure of the host's last command.
    failed: Option<Failure>,
}

impl Timed {
    /// Sends commands to the drive, and waits for each.
    fn issue(&mut self, op: Op, extent: LbaExtent) -> Result<(), Failure> {
        let most = if matches!(op, Op::Read | Op::Write) { COMMAND } else { extent.len };
        let mut rest = extent;
        loop {
            let len = rest.len.min(most);
            let command = Command::new(CommandId(0), op, LbaExtent::new(rest.start, len));
            self.drive.run_command(command).status()?;
            rest = LbaExtent::new(rest.start + len, rest.len - len);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn non_sequential(&mut self) -> u32 {
        self.drive.layer_mut().zoned().map_or(0, |zoned| zoned.counts().non_sequential)
    }
}

impl Executor for Timed {
    fn execute(&mut self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::Read { from, .. } | Action::Gather { from, .. } => self.issue(Op::Read, *from),
            Action::Zeros { .. } | Action::Forget => Ok(()),
            Action::Write { extent, data } => {
                if let Data::Merged { native, .. } = data
                    && !native.is_empty()
                {
                    self.issue(Op::Read, *native)?;
                }
                self.issue(Op::Write, *extent)
            }
            Action::Reset { zone } => {
                let layout = self.drive.layer_mut().zoned().map(|zoned| *zoned.layout());
                let extent = layout.ok_or(Failure::Unsupported)?.extent_of(*zone);
                self.issue(Op::Zone(ZoneAction::Reset), extent)
            }
            Action::Flush => self.issue(Op::Flush, LbaExtent::default()),
        }
    }

    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure> {
        let zoned = self.drive.layer_mut().zoned().ok_or(Failure::Unsupported)?;
        zones.for_each(|zone| visit(zone, zoned.descriptor(zone)));
        Ok(())
    }

    fn complete(&mut self, _: CommandId, outcome: Outcome) {
        self.failed = outcome.status().err();
    }

    fn now(&self) -> Option<Time> {
        Some(self.drive.now())
    }
}

/// See the module page.
pub struct BufferedHost {
    timed: Timed,
    buffer: HBuffer,
    idle_after: Nanos,
    /// Where the address space begins in the buffer's: behind the conventional zones.
    base: Sectors,
    account: Account,
    /// What the buffer had done before the accounts began.
    before: Counters,
}

impl BufferedHost {
    /// Puts a buffer with a log of so many zones before a new drive; cleaning may have so much memory of the host.
    ///
    /// # Errors
    /// When the drive has no zones, or cannot have this buffer.
    pub fn new(
        mut drive: Drive,
        policy: Box<dyn Policy>,
        zones: u32,
        memory: Sectors,
    ) -> Result<Self, BufferedError> {
        let layout = *drive.layer_mut().zoned().ok_or(BufferedError::NoZones)?.layout();
        let mut timed = Timed { drive, failed: None };
        let sizes = Sizes { zones, spare_zones: SPARE_ZONES };
        let tuning = Tuning { memory, ..Tuning::default() };
        // Nothing is ever read of what it writes, so any identity will do.
        let spec = (sizes, tuning, Identity::default());
        let buffer = HBuffer::new(spec, layout, &mut timed, policy)?;
        let (home, conventional) = buffer.home_zones();
        let base = Sectors(home.get() * u64::from(conventional));
        let before = *buffer.counters();
        let (idle_after, account) = (tuning.idle_after.unwrap_or_default(), Account::default());
        Ok(Self { timed, buffer, idle_after, base, account, before })
    }

    /// Sectors of the host's address space.
    pub fn capacity(&self) -> Sectors {
        self.buffer.capacity() - self.base
    }

    /// Sectors of a home zone.
    pub fn home_len(&self) -> Sectors {
        self.buffer.home_zones().0
    }

    /// What was done since the accounts began.
    pub fn account(&self) -> Account {
        self.account
    }

    /// What the buffer did since it was made, and what of that was before the accounts began.
    pub fn counters(&self) -> (&Counters, &Counters) {
        (self.buffer.counters(), &self.before)
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.timed.drive
    }

    /// Begins the accounts anew, with another policy; what is where stays. For drives that were used before.
    pub fn start_over(&mut self, policy: Box<dyn Policy>) {
        self.buffer.set_policy(policy);
        (self.account, self.before) = (Account::default(), *self.buffer.counters());
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
        let start = self.timed.drive.now();
        for (row, took) in took_ns.iter_mut().enumerate() {
            let command = self.checked(batch, row)?;
            let due = start + Nanos(arrive_ns[row]);
            if due > self.timed.drive.now() {
                self.idle_until(due)?;
            }
            let began = self.timed.drive.now();
            self.buffer.take(Queue { waiting: &[command], next: 0 }, &mut self.timed);
            if let Some(failure) = self.timed.failed.take() {
                return Err(BufferedError::Refused(row, failure));
            }
            *took = (self.timed.drive.now() - began).get();
            self.account.foreground += Nanos(*took);
        }
        Ok(())
    }

    fn checked(&self, batch: &Batch<'_>, row: usize) -> Result<Command, BufferedError> {
        let capacity = self.capacity();
        let (offset, size) =
            (Sectors(batch.offset[row] / SECTOR_BYTES), Sectors(u64::from(batch.size[row]) / SECTOR_BYTES));
        let op = match batch.op[row].operation() {
            (op @ (Op::Read | Op::Write), Flags::NONE) => Some(op),
            _ => None,
        };
        let is_within = size.get() > 0 && size <= capacity && offset <= capacity - size;
        let op = op.filter(|_| is_within).ok_or(BufferedError::Command(row, capacity.bytes()))?;
        Ok(Command::new(CommandId(0), op, LbaExtent::new(Lba(0) + self.base + offset, size)))
    }

    /// Cleans until nothing is in the buffer nor in the drive's persistent cache; how long that took.
    ///
    /// # Errors
    /// When the drive refuses a command or never cleans.
    pub fn finish(&mut self) -> Result<Nanos, BufferedError> {
        let began = self.timed.drive.now();
        while self.buffer.drain(&mut self.timed)? == Idle::Worked {}
        self.timed.execute(&Action::Flush)?;
        let (mut left, mut since) = (self.timed.non_sequential(), self.timed.drive.now());
        while left > 0 {
            self.timed.drive.pause(DRIVE_LOOK);
            let now = self.timed.non_sequential();
            if now < left {
                (left, since) = (now, self.timed.drive.now());
            }
            if self.timed.drive.now() - since > DRIVE_GIVES_UP {
                return Err(BufferedError::NotCleaned(DRIVE_GIVES_UP.get() / 1_000_000_000));
            }
        }
        let took = self.timed.drive.now() - began;
        self.account.cleaning_after += took;
        Ok(took)
    }

    /// Lets time pass, in which the host and the drive may clean.
    fn idle_until(&mut self, due: Time) -> Result<(), BufferedError> {
        let waits = self.idle_after.min(due - self.timed.drive.now());
        self.timed.drive.pause(waits);
        while self.timed.drive.now() < due {
            let began = self.timed.drive.now();
            if self.buffer.idle(&mut self.timed)? == Idle::Nothing {
                let left = due - self.timed.drive.now();
                self.timed.drive.pause(self.buffer.idle_again_after().map_or(left, |after| after.min(left)));
                continue;
            }
            self.account.idle_cleaning += self.timed.drive.now() - began;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use skylight_command::code::Code;
    use skylight_layer::hbuffer::policies::by_name;

    /// Runs writes of `size` bytes at these offsets, as fast as they go.
    fn write(host: &mut BufferedHost, offset: &[u64], size: u32) {
        let (op, size) = (vec![Code::Write; offset.len()], vec![size; offset.len()]);
        let batch = Batch { op: &op, offset, size: &size };
        host.run(&batch, &vec![0; offset.len()], &mut vec![0; offset.len()]).expect("it writes");
    }

    /// An emulated drive with a log of ten zones, and 1 GiB of memory.
    fn buffered(policy: &str) -> BufferedHost {
        let text = include_str!("../../../python/skylight/profiles/st8000as0022.toml");
        let profile = Profile::from_toml(text, "st8000as0022").unwrap_or_else(|error| panic!("{error}"));
        let drive = Drive::new(&profile, 1).expect("it is a drive");
        BufferedHost::new(drive, named(policy), 10, Sectors(1 << 21)).expect("it has zones")
    }

    fn named(policy: &str) -> Box<dyn Policy> {
        by_name(policy).expect("it is a policy")
    }

    #[test]
    fn a_host_that_pauses_only_briefly_does_not_keep_the_log_from_being_cleaned() {
        let mut host = buffered("direct");
        let (zone, large) = (host.home_len().bytes(), 4_u64 << 20);
        // Six zones with data, and pieces of each between as much other data as needs several reads of the log.
        write(&mut host, &(0..6 * zone / large).map(|at| at * large).collect::<Vec<_>>(), large as u32);
        host.finish().expect("it cleans");
        host.start_over(named("buffer"));
        for round in 0..4 {
            let filler: Vec<u64> = (0..16).map(|at| 8 * zone + (16 * round + at) * large).collect();
            write(&mut host, &filler, large as u32);
            write(&mut host, &(0..6).map(|home| home * zone + 8192 * round).collect::<Vec<_>>(), 4096);
        }
        let before = host.buffer.counters().rewritten_zones;
        // Each pause is long enough for a step, and a write to another zone ends it.
        let pauses = 500;
        let pause = host.idle_after + Nanos(1_000_000);
        let arrive: Vec<u64> = (0..pauses).map(|row| row * pause.get()).collect();
        let offset: Vec<u64> = (0..pauses).map(|row| 9 * zone + row * 8192).collect();
        let (op, size) = (vec![Code::Write; offset.len()], vec![4096; offset.len()]);
        let batch = Batch { op: &op, offset: &offset, size: &size };
        host.run(&batch, &arrive, &mut vec![0; offset.len()]).expect("it writes");
        assert_eq!(host.buffer.counters().rewritten_zones - before, 6);
    }

    #[test]
    fn what_was_written_in_order_is_read_from_the_log_without_waiting_for_the_platter() {
        let mut host = buffered("buffer");
        let (count, size) = (400_u64, 65_536_u32);
        let offset: Vec<u64> = (0..count).map(|at| at * u64::from(size)).collect();
        write(&mut host, &offset, size);
        let (op, size) = (vec![Code::Read; offset.len()], vec![size; offset.len()]);
        let batch = Batch { op: &op, offset: &offset, size: &size };
        let mut took = vec![0; offset.len()];
        host.run(&batch, &vec![0; offset.len()], &mut took).expect("it reads");
        took.sort_unstable();
        // A revolution of this drive is 10 ms.
        assert!(took[offset.len() * 9 / 10] < 2_000_000, "{} ns", took[offset.len() * 9 / 10]);
    }

    #[test]
    fn what_a_policy_leaves_for_later_is_cleaned_at_the_end() {
        let mut host = buffered("adaptive");
        let chunk = 1_u64 << 20;
        let zone: Vec<u64> = (0..host.home_len().bytes() / chunk).map(|at| at * chunk).collect();
        write(&mut host, &zone, chunk as u32);
        host.finish().expect("it cleans");
        host.start_over(named("adaptive"));
        write(&mut host, &[chunk], 4096);
        assert_eq!(host.buffer.fill().dirty_zones, 1);
        assert_eq!(host.buffer.idle(&mut host.timed), Ok(Idle::Nothing), "the host may overwrite more");
        assert!(host.buffer.idle_again_after().is_some());
        host.finish().expect("it cleans");
        assert_eq!(host.buffer.fill().dirty_zones, 0);
        assert_eq!(host.buffer.idle_again_after(), None);
    }
}
