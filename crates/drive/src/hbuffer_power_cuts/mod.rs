//! A host buffer that loses power again and again: what each recovery finds, and how long the drive takes for it.
//!
//! A host writes to random places until the log has gone round, and flushes now and then. The power goes at random commands to the
//! drive. Each recovery reads what the drive then has (`surviving_writes`), and all that the host wrote is looked up where the buffer says it
//! is. The reads of the recovery, and nothing else, are then timed on a drive of the profile whose zones are written as far.
//! The last cut is as far from a checkpoint as the log ever gets.
//!
//! Invariant: the same profile, plan and seed give the same cuts and the same nanoseconds.
//! Source: the drive, and the 100 zones of the log, are those of Evaluating Host Aware SMR Drives (HotStorage '16), section 5.

mod surviving_writes;

use std::collections::{BTreeMap, BTreeSet};

use skylight_command::code::Code;
use skylight_command::{Command, CommandId, Failure, Op};
use skylight_disk::{Lba, LbaExtent, Nanos, SECTOR_BYTES, Sectors, splitmix64};
use skylight_layer::hbuffer::format::Identity;
use skylight_layer::hbuffer::layout::{Sizes, Tuning};
use skylight_layer::hbuffer::policy::{Path, Static};
use skylight_layer::hbuffer::recovery::{Found, RecoveryError};
use skylight_layer::hbuffer::{HBuffer, NewError};
use skylight_layer::{Queue, ZoneLayout, ZoneRecord};

use crate::batch::{Batch, BatchError};
use crate::drive::Drive;
use crate::profile::{Profile, ProfileError};
use surviving_writes::Kept;

/// A host splits a long read into commands of so many bytes, and has so many of them outstanding.
const READ_BYTES: u64 = 1 << 20;
const DEPTH: usize = 8;
/// Spare zones of the buffer.
const SPARE_ZONES: u32 = 2;
/// One write in so many is followed by a flush.
const FLUSH_EVERY: u64 = 16;
/// The power goes within so many commands to the drive, behind a write that is drawn. Chosen: most writes are one command to the drive,
/// so most cuts come in one of the next ones; few come in a checkpoint or in cleaning.
const CUT_WITHIN: u64 = 12;
/// Home zones that are written to. Chosen: fewer than a pass cleans together.
const HOMES: u64 = 256;

/// What is done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Zones of the log.
    pub zones: u32,
    /// Sectors of a write; a divisor of a zone.
    pub write: Sectors,
    /// How often the log goes round.
    pub rounds: u32,
    /// Cuts at random commands; one more comes at the end.
    pub cuts: u32,
    /// Of the places, the cuts, and what they leave.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Sectors of the log.
    pub log: Sectors,
    /// Recoveries.
    pub recoveries: u32,
    /// Extents that were looked up after each, in all.
    pub looked_up: u64,
    /// Of these, those that had neither their last durable write nor a later one, whole.
    pub wrong: u64,
    /// The recovery that took longest: the drive's time, and what was found.
    pub longest: Nanos,
    /// See `longest`.
    pub found: Found,
    /// Home zones that were cleaned.
    pub cleaned_zones: u64,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum CutsError {
    /// The profile cannot be built.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The drive has no zones.
    #[error("a host buffer needs a drive with zones; name a zoned profile")]
    NoZones,
    /// The drive cannot have this buffer.
    #[error(transparent)]
    New(#[from] NewError),
    /// There is no buffer after a cut.
    #[error("after cut {0}: {1}")]
    Recovery(u32, RecoveryError),
    /// A command failed while the power was there: a fault of ours.
    #[error("write {0} failed: {1}")]
    Write(u64, Failure),
    /// The drive refused the reads of a recovery: a fault of ours.
    #[error("the drive refused the reads of a recovery: {0}")]
    Reads(#[from] BatchError),
    /// A recovery read nothing, or in no time: a fault of ours.
    #[error("a recovery took the drive no time")]
    NoReads,
    /// The timed drive cannot have a zone as the cut left it: a fault of ours.
    #[error("the timed drive cannot have {0:?}")]
    Zone(ZoneRecord),
}

/// The numbers of the last durable write of an extent, and of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    durable: u64,
    last: u64,
}

/// A host, its buffer and the drive.
struct Rig {
    plan: Plan,
    drawn: u64,
    kept: Kept,
    buffer: HBuffer,
    /// By host sector.
    expected: BTreeMap<Lba, Expected>,
    changed: Vec<Lba>,
    cuts: Cuts,
}

fn tuning() -> Tuning {
    Tuning { idle_after: None, ..Tuning::default() }
}

impl Rig {
    fn new(plan: Plan, layout: ZoneLayout) -> Result<Self, CutsError> {
        let mut kept = Kept::new(layout);
        let identity = splitmix64(plan.seed, 0).to_le_bytes();
        let identity = Identity(std::array::from_fn(|index| identity[index % identity.len()]));
        let spec = (Sizes { zones: plan.zones, spare_zones: SPARE_ZONES }, tuning(), identity);
        let buffer = HBuffer::new(spec, layout, &mut kept, Box::new(Static(Path::Buffer)))?;
        let log = Sectors(u64::from(plan.zones) * buffer.home_zones().0.get());
        let (expected, changed, cuts) = (BTreeMap::new(), Vec::new(), Cuts { log, ..Cuts::default() });
        Ok(Self { plan, drawn: 0, kept, buffer, expected, changed, cuts })
    }

    /// A number below another.
    fn draw(&mut self, below: u64) -> u64 {
        self.drawn += 1;
        splitmix64(self.plan.seed, self.drawn) % below
    }

    fn take(&mut self, op: Op, extent: LbaExtent) -> Result<(), Failure> {
        let command = Command::new(CommandId(0), op, extent);
        self.buffer.take(Queue { waiting: &[command], next: 0 }, &mut self.kept);
        self.kept.failed.take().map_or(Ok(()), Err)
    }

    /// A write to a random place, and perhaps a flush. What fails without power is in doubt.
    fn write(&mut self) -> Result<(), CutsError> {
        let (home, conventional) = self.buffer.home_zones();
        let per_home = home.get() / self.plan.write.get();
        let homes = HOMES.min(self.buffer.capacity().get() / home.get() - u64::from(conventional));
        let slot = u64::from(conventional) * per_home + self.draw(homes * per_home);
        let extent = LbaExtent::new(Lba(slot * self.plan.write.get()), self.plan.write);
        self.kept.write += 1;
        let number = self.kept.write;
        let mut done = self.take(Op::Write, extent);
        self.expected.entry(extent.start).or_default().last = number;
        self.changed.push(extent.start);
        if done.is_ok() && number.is_multiple_of(FLUSH_EVERY) {
            done = self.take(Op::Flush, LbaExtent::default());
            if done.is_ok() {
                for start in self.changed.drain(..) {
                    self.expected.entry(start).and_modify(|expected| expected.durable = expected.last);
                }
            }
        }
        match done {
            Err(failure) if !self.kept.is_off() => Err(CutsError::Write(number, failure)),
            _ => Ok(()),
        }
    }

    /// Writes until the log has gone round, with cuts; each is handed over when the buffer is there again.
    fn run(
        &mut self,
        mut recovered: impl FnMut(&mut Self, Found) -> Result<(), CutsError>,
    ) -> Result<(), CutsError> {
        // A zone more, so that the first one is written again.
        let zones = u64::from(self.plan.zones) * u64::from(self.plan.rounds) + 1;
        let writes = zones * self.buffer.home_zones().0.get() / (self.plan.write.get() + 1);
        let at: BTreeSet<u64> = (0..self.plan.cuts).map(|_| self.draw(writes)).collect();
        let (mut number, mut stretch, mut checkpoints) = (0, Sectors(0), 0);
        while number < writes || self.buffer.since_checkpoint() < stretch {
            number += 1;
            if at.contains(&number) {
                self.kept.left = Some(1 + self.draw(CUT_WITHIN));
            }
            let since = self.buffer.since_checkpoint();
            self.write()?;
            if self.kept.is_off() {
                let found = self.recover()?;
                recovered(self, found)?;
            } else if self.buffer.counters().checkpoints > checkpoints {
                stretch = since;
            }
            checkpoints = self.buffer.counters().checkpoints;
        }
        let found = self.recover()?;
        recovered(self, found)
    }

    /// The power goes, and comes back; everything is looked up.
    fn recover(&mut self) -> Result<Found, CutsError> {
        let counters = self.buffer.counters();
        self.cuts.cleaned_zones += counters.appended_zones + counters.rewritten_zones;
        let (seed, mut drawn) = (self.plan.seed, self.drawn);
        self.kept.cut(|below| {
            drawn += 1;
            splitmix64(seed, drawn) % below
        });
        self.drawn = drawn;
        self.kept.reads.clear();
        self.cuts.recoveries += 1;
        let policy = Box::new(Static(Path::Buffer));
        let (buffer, found) = HBuffer::recover(None, tuning(), &mut self.kept, policy)
            .map_err(|error| CutsError::Recovery(self.cuts.recoveries, error))?;
        self.buffer = buffer;
        self.changed.clear();
        let mut expected = std::mem::take(&mut self.expected);
        for (&start, expected) in &mut expected {
            let found = self.found(LbaExtent::new(start, self.plan.write));
            let is_right = found.is_some_and(|found| (expected.durable..=expected.last).contains(&found));
            self.cuts.looked_up += 1;
            self.cuts.wrong += u64::from(!is_right);
            // That is the truth from now on.
            *expected = Expected { durable: found.unwrap_or(0), last: found.unwrap_or(0) };
        }
        self.expected = expected;
        Ok(found)
    }

    /// The write that a host extent is of, 0 if it was never written; `None` if it is not of one write alone, or another extent's.
    fn found(&self, extent: LbaExtent) -> Option<u64> {
        let (mut at, mut until, mut writes) = (extent.start, extent.start, BTreeSet::new());
        for (len, place) in self.buffer.locate(extent, usize::MAX) {
            let place = LbaExtent::new(place.unwrap_or_default(), place.map_or(Sectors(0), |_| len));
            for (begin, run) in self.kept.runs_in(place) {
                let host = at + (begin - place.start);
                writes.extend((host > until).then_some(0));
                writes.insert(if run.host == host { run.write } else { u64::MAX });
                until = host + run.len;
            }
            at += len;
            writes.extend((until < at).then_some(0));
            until = at;
        }
        let write = writes.pop_first();
        write.filter(|_| writes.is_empty())
    }
}

/// How long a drive of the profile takes for these reads, with its zones written as they were.
fn drive_time(profile: &Profile, reads: &[LbaExtent], records: &[ZoneRecord]) -> Result<Nanos, CutsError> {
    let mut drive = Drive::new(profile, 1)?;
    let zoned = drive.layer_mut().zoned().ok_or(CutsError::NoZones)?;
    for &record in records {
        if !zoned.restore_zone(record) {
            return Err(CutsError::Zone(record));
        }
    }
    let (mut offset, mut size) = (Vec::new(), Vec::new());
    for read in reads {
        let mut at = read.start;
        while at < read.end() {
            let len = (read.end() - at).min(Sectors(READ_BYTES / SECTOR_BYTES));
            offset.push(Sectors(at.get()).bytes());
            size.push(len.bytes() as u32);
            at += len;
        }
    }
    let op = vec![Code::Read; offset.len()];
    let (mut submit, mut complete) = (vec![0; op.len()], vec![0; op.len()]);
    drive.run(&Batch { op: &op, offset: &offset, size: &size }, DEPTH, &mut submit, &mut complete)?;
    let took = complete.iter().max().zip(submit.first()).map_or(0, |(end, start)| end - start);
    if took == 0 { Err(CutsError::NoReads) } else { Ok(Nanos(took)) }
}

/// Cuts the power of a drive of the profile, and recovers.
///
/// # Errors
/// When the drive cannot have the buffer, or a recovery finds none.
pub fn run(profile: &Profile, plan: Plan) -> Result<Cuts, CutsError> {
    let layout = *Drive::new(profile, 1)?.layer_mut().zoned().ok_or(CutsError::NoZones)?.layout();
    let mut rig = Rig::new(plan, layout)?;
    rig.run(|rig, found| {
        let took = drive_time(profile, &rig.kept.reads, &rig.kept.records())?;
        if took > rig.cuts.longest {
            (rig.cuts.longest, rig.cuts.found) = (took, found);
        }
        Ok(())
    })?;
    Ok(rig.cuts)
}

#[cfg(test)]
mod tests {
    use skylight_layer::ZoneModel;

    use super::*;

    const SEED: u64 = 1;

    /// A small drive: 4 conventional zones of 4,096 sectors, and 40 with a write pointer.
    fn rig(write: u64, cuts: u32) -> Rig {
        let mut layout = ZoneLayout::new(ZoneModel::HostAware, Sectors(44 * 4_096), Sectors(4_096));
        layout.conventional = 4;
        let plan = Plan { zones: 8, write: Sectors(write), rounds: 4, cuts, seed: SEED };
        Rig::new(plan, layout).expect("the drive is large enough")
    }

    #[test]
    fn every_recovery_is_exact() {
        for write in [8, 64] {
            let mut rig = rig(write, 100);
            rig.run(|_, _| Ok(())).unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
            let Cuts { recoveries, wrong, cleaned_zones, looked_up, .. } = rig.cuts;
            assert!(recoveries > 60 && cleaned_zones > 60 && looked_up > 10_000, "{:?}", rig.cuts);
            assert_eq!(wrong, 0, "seed {SEED}");
            // Where nothing is in doubt, a recovery finds the log and the map as they were.
            for _ in 0..100 {
                rig.write().expect("the power is there");
            }
            rig.take(Op::Flush, LbaExtent::default()).expect("the power is there");
            let fill = rig.buffer.fill();
            rig.recover().expect("it is whole");
            assert_eq!((rig.buffer.fill(), rig.cuts.wrong), (fill, 0), "seed {SEED}");
        }
    }

    #[test]
    fn a_drive_that_forgets_what_was_flushed_is_noticed() {
        let mut rig = rig(8, 20);
        rig.kept.forgetful = true;
        let done = rig.run(|_, _| Ok(()));
        assert!(done.is_err() || rig.cuts.wrong > 0, "seed {SEED}: {:?}", rig.cuts);
    }
}
