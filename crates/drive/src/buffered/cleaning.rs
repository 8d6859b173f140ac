//! Cleaning of a host's buffer: data goes home, many zones at a time.
//!
//! A *pass* takes the zone that the policy names and then those with data in the oldest part of the log, as much as the host's memory
//! holds. It reads their data from the log in the order of the log, so that streams that were written in turn are read as one,
//! and then goes through the zones in the order of their places. A zone whose data continues its write pointer is *appended* to; any
//! other is *rewritten* into the spare zone, with all that the log has of it, and changes places with the spare.
//! Data of a zone that was buffered after the pass began stays in the buffer.
//!
//! Invariants: the map forgets data, and its zones of the log are reset, only after a FLUSH that followed its writes home; a
//! zone that is written into was reset before.

use std::collections::{BTreeSet, VecDeque};

use skylight_command::code;
use skylight_disk::{LbaExtent, Nanos, Pba, Sectors};
use skylight_layer::Mapped;
use skylight_layer::hbuffer::policy::{Cleaned, HomeZones, Moved};

use super::{BufferedError, BufferedHost, log};

/// Most of a command of cleaning: what a host command that comes in idle time waits for. Chosen: two tracks.
const COMMAND: Sectors = Sectors((4 << 20) / 512);
/// Gaps in the log that are read along. Chosen: a quarter of a revolution, less than a seek there and back.
const READ_ALONG: Sectors = Sectors((512 << 10) / 512);
/// Most zones of a pass, so that its list of commands stays small.
const ZONES: usize = 1024;

/// A command or its consequence.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A command for data of zones that are appended to, of zones that are rewritten, or of the log.
    Issue(u8, LbaExtent, Part),
    /// A zone is rewritten into the spare, as long as it then is.
    Rewrite { zone: u32, valid: Sectors },
    /// The rewritten zone is the home zone, and the other one is reset.
    ChangePlaces { zone: u32, valid: Sectors },
    /// The map forgets the data of a zone that was buffered before.
    Clean { zone: u32, before: Pba },
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Log,
    Append,
    Rewrite,
}

/// What a pass has still to do, and what it did.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    steps: VecDeque<Step>,
    done: Cleaned,
}

impl Cleaning {
    /// Whether there is nothing to do.
    pub(super) fn is_over(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The data of a zone that leaves the buffer.
struct Gathered {
    zone: u32,
    pieces: Vec<Mapped>,
    before: Pba,
    /// The end of its last sector, from the start of the zone.
    end: Sectors,
    /// It continues the write pointer.
    appends: bool,
}

impl Gathered {
    /// Its data.
    fn sectors(&self) -> Sectors {
        self.pieces.iter().fold(Sectors(0), |sum, piece| sum + piece.lba.len)
    }
}

impl BufferedHost {
    /// Plans a pass that begins with a zone.
    pub(super) fn begin_cleaning(&mut self, first: u32) {
        let window = self.log.oldest().map_or(self.log.head(), |record| record.at + self.spec.memory);
        let mut zones = vec![first];
        let mut seen = BTreeSet::from([first]);
        for record in self.log.records().take_while(|record| record.at < window) {
            let zone = self.homes.place_of(record.lba.start).0;
            if zones.len() < ZONES && log::is_live(record, &self.map) && seen.insert(zone) {
                zones.push(zone);
            }
        }
        let (mut gathered, mut data) = (Vec::new(), Sectors(0));
        for zone in zones {
            let next = self.gather(zone, window);
            data += next.sectors();
            if !gathered.is_empty() && data > self.spec.memory {
                break;
            }
            self.homes.begin_cleaning(zone);
            gathered.push(next);
        }
        self.plan_pass(gathered);
    }

    /// What leaves the buffer of a zone: what continues its write pointer within the window, else all.
    fn gather(&mut self, zone: u32, window: Pba) -> Gathered {
        self.refresh(zone);
        let home = self.homes.zone(zone);
        let pointer = home.extent.start + home.written;
        let all: Vec<Mapped> = self.map.overlapping(home.extent).collect();
        let in_order = !home.non_sequential && all.first().is_some_and(|first| first.lba.start >= pointer);
        let mut end = pointer;
        let old: Vec<Mapped> = all
            .iter()
            .take_while(|piece| {
                let continues = piece.lba.start == end && piece.pba < window;
                end = if continues { piece.lba.end() } else { end };
                continues
            })
            .copied()
            .collect();
        let is_whole = all.iter().filter(|piece| piece.pba < window).count() == old.len();
        let (pieces, before) =
            if in_order && is_whole && !old.is_empty() { (old, window) } else { (all, self.log.head()) };
        let end = pieces.last().map_or(home.written, |last| last.lba.end() - home.extent.start);
        Gathered { zone, pieces, before, end, appends: in_order }
    }

    fn plan_pass(&mut self, mut gathered: Vec<Gathered>) {
        let mut extents: Vec<_> = gathered.iter().flat_map(|zone| &zone.pieces).collect();
        extents.sort_unstable_by_key(|piece| piece.pba);
        let mut steps = VecDeque::new();
        for extent in self.log_reads(&extents) {
            push(&mut steps, code::READ, extent, Part::Log);
        }
        gathered.sort_unstable_by_key(|zone| self.homes.place(zone.zone));
        let (appended, rewritten): (Vec<_>, Vec<_>) = gathered.iter().partition(|zone| zone.appends);
        for &&Gathered { zone, end, .. } in &appended {
            let home = self.homes.zone(zone);
            let missing = LbaExtent::new(home.extent.start + home.written, end - home.written);
            push(&mut steps, code::WRITE, self.homes.native(missing), Part::Append);
        }
        if !appended.is_empty() {
            steps.push_back(Step::Issue(code::FLUSH, LbaExtent::default(), Part::Append));
        }
        for &&Gathered { zone, before, .. } in &appended {
            steps.push_back(Step::Clean { zone, before });
        }
        for &&Gathered { zone, before, end, .. } in &rewritten {
            steps.push_back(Step::Rewrite { zone, valid: end.max(self.homes.valid(zone)) });
            steps.push_back(Step::Clean { zone, before });
        }
        self.cleaning = Cleaning {
            steps,
            done: Cleaned {
                appended_zones: appended.len() as u32,
                rewritten_zones: rewritten.len() as u32,
                gathered: Moved {
                    sectors: gathered.iter().fold(Sectors(0), |sum, zone| sum + zone.sectors()),
                    time: Nanos(0),
                },
                ..Cleaned::default()
            },
        };
        self.account.appended += appended.len() as u64;
        self.account.rewritten += rewritten.len() as u64;
    }

    /// What of the drive to read for pieces in the order of the log.
    fn log_reads(&self, pieces: &[&Mapped]) -> Vec<LbaExtent> {
        let mut reads: Vec<LbaExtent> = Vec::new();
        for piece in pieces {
            let (zone, offset) = self.log.place(piece.pba);
            let start = self.layout.start_of(self.homes.log_zone(zone)) + offset;
            match reads.last_mut() {
                // A command within one zone; data of a later round of the log may lie before.
                Some(last)
                    if start >= last.end()
                        && start - last.end() <= READ_ALONG
                        && self.layout.zone_of(last.start) == self.layout.zone_of(start) =>
                {
                    last.len = start + piece.lba.len - last.start;
                }
                _ => reads.push(LbaExtent::new(start, piece.lba.len)),
            }
        }
        reads
    }

    /// Leaves out the zones that a pass has not begun to rewrite: after host writes they may need it again.
    pub(super) fn cut_short(&mut self) {
        let homes = &mut self.homes;
        let mut left = BTreeSet::new();
        self.cleaning.steps.retain(|step| match *step {
            Step::Rewrite { zone, .. } => {
                homes.cleaned(zone, Sectors(0));
                !left.insert(zone)
            }
            Step::Clean { zone, .. } => !left.contains(&zone),
            _ => true,
        });
        self.cleaning.done.rewritten_zones -= left.len() as u32;
        self.account.rewritten -= left.len() as u64;
    }

    /// Does the next step of a pass.
    pub(super) fn clean_step(&mut self) -> Result<(), BufferedError> {
        match self.cleaning.steps.pop_front() {
            None => return Ok(()),
            Some(Step::Issue(op, extent, part)) => {
                let began = self.drive.now();
                self.issue(op, extent)?;
                let took = self.drive.now() - began;
                self.count(op, extent, part, took);
            }
            Some(Step::Rewrite { zone, valid }) => self.rewrite(zone, valid),
            Some(Step::ChangePlaces { zone, valid }) => {
                let old = self.homes.change_places(zone, valid);
                self.issue(code::RESET_ZONE, self.layout.extent_of(old))?;
            }
            Some(Step::Clean { zone, before }) => self.forget(zone, before)?,
        }
        if self.cleaning.is_over() {
            self.policy.cleaned(&self.cleaning.done);
        }
        Ok(())
    }

    fn count(&mut self, op: u8, extent: LbaExtent, part: Part, took: Nanos) {
        let done = &mut self.cleaning.done;
        let moved = match part {
            Part::Log => &mut done.gathered,
            Part::Append => &mut done.appended,
            Part::Rewrite => &mut done.rewritten,
        };
        moved.time += took;
        // What counts is what is written: a rewrite reads too.
        if op == code::WRITE {
            moved.sectors += extent.len;
        }
    }

    /// Puts the commands of a rewrite into the spare zone before the other steps.
    fn rewrite(&mut self, zone: u32, valid: Sectors) {
        let kept = LbaExtent::new(self.homes.zone(zone).extent.start, self.homes.valid(zone));
        let mut steps = VecDeque::new();
        push(&mut steps, code::READ, self.homes.native(kept), Part::Rewrite);
        push(&mut steps, code::WRITE, LbaExtent::new(self.homes.spare(), valid), Part::Rewrite);
        steps.push_back(Step::Issue(code::FLUSH, LbaExtent::default(), Part::Rewrite));
        steps.push_back(Step::ChangePlaces { zone, valid });
        steps.append(&mut self.cleaning.steps);
        self.cleaning.steps = steps;
    }

    /// Drops data of a zone from the map, and resets the zones of the log that are free by that.
    fn forget(&mut self, zone: u32, before: Pba) -> Result<(), BufferedError> {
        let extent = self.homes.zone(zone).extent;
        let clean: Vec<Mapped> = self.map.overlapping(extent).filter(|piece| piece.pba < before).collect();
        let mut sectors = Sectors(0);
        for piece in clean {
            self.map.remove(piece.lba);
            sectors += piece.lba.len;
        }
        self.homes.cleaned(zone, sectors);
        self.refresh(zone);
        for freed in self.log.release(&self.map) {
            let zone = self.homes.log_zone(freed);
            self.issue(code::RESET_ZONE, self.layout.extent_of(zone))?;
        }
        Ok(())
    }
}

/// Appends commands for an extent of the drive.
fn push(steps: &mut VecDeque<Step>, op: u8, extent: LbaExtent, part: Part) {
    let mut rest = extent;
    while !rest.is_empty() {
        let len = rest.len.min(COMMAND);
        steps.push_back(Step::Issue(op, LbaExtent::new(rest.start, len), part));
        rest = LbaExtent::new(rest.start + len, rest.len - len);
    }
}
