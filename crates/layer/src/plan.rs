//! Plans: the work of a translation layer as a list of steps, for interpreters to execute.
//!
//! The clock gives steps a duration, an image moves their data, a power-cut test stops between them
//! (idea 1 of `docs/architecture.md`). Steps execute in order. A [`Step::Commit`] changes what later reads return, a
//! [`Step::Complete`] completes a command of the host; neither takes time by itself.
//!
//! Invariant: a layer has taken exactly those commands whose completion is in its plan.

use skylight_command::{Command, CommandId, Failure, Op, Outcome};
use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent};

use crate::capabilities::overwriting::Overwriting;
use crate::capabilities::zoned::Zoned;
use crate::restore::{MediaUse, Misplaced, Recovered};

/// The medium of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// The platters.
    Platter,
    /// Flash.
    Flash,
}

/// The purpose of an access, by which the counters counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Data of a host command at its native location.
    Host,
    /// Data of a host command in the persistent cache.
    Cache,
    /// Out-of-band data of a journal entry.
    OutOfBand,
    /// Merging the map of the persistent cache at its home location.
    MapMerge,
    /// Cleaning: reads cached data and the rest of a band.
    CleanRead,
    /// Cleaning: stages a merged band in the cache, or moves cached data within it.
    CleanStage,
    /// Cleaning: writes a merged band to its native location.
    CleanWrite,
    /// Cleaning: updates the map at its home location.
    MapUpdate,
}

impl Purpose {
    /// Every purpose, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Host,
        Self::Cache,
        Self::OutOfBand,
        Self::MapMerge,
        Self::CleanRead,
        Self::CleanStage,
        Self::CleanWrite,
        Self::MapUpdate,
    ];

    /// The name in tables and column headings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Cache => "cache",
            Self::OutOfBand => "out_of_band",
            Self::MapMerge => "map_merge",
            Self::CleanRead => "clean_read",
            Self::CleanStage => "clean_stage",
            Self::CleanWrite => "clean_write",
            Self::MapUpdate => "map_update",
        }
    }
}

/// Addresses in 48 bits, as ATA has them: with these a [`Step`] fits half a cache line.
macro_rules! in_48_bits {
    ($name:ident, $address:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(Rust, packed)]
        pub struct $name {
            low: u32,
            high: u16,
        }

        impl From<$address> for $name {
            #[inline]
            fn from(address: $address) -> Self {
                let address = address.get();
                debug_assert!(address >> 48 == 0, "{address} has more than 48 bits");
                Self { low: address as u32, high: (address >> 32) as u16 }
            }
        }

        impl From<$name> for $address {
            #[inline]
            fn from($name { low, high }: $name) -> Self {
                Self(u64::from(high) << 32 | u64::from(low))
            }
        }
    };
}

in_48_bits!(Lba48, Lba, "A host sector in 48 bits.");
in_48_bits!(Pba48, Pba, "A sector of a medium in 48 bits.");

/// The source of the data of an access. The clock ignores it; an image moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The medium: a read.
    Medium,
    /// The host writes that the plan completes, from this host sector on: data at its native location.
    Host(Lba48),
    /// Into the persistent cache: the commits that follow map each extent to its location within this access, and say whether
    /// its data is that of the host writes that the plan completes or moves within the cache.
    ToCache,
    /// What reads return from this host sector on: cleaning writes that to a native location.
    Merged(Lba48),
    /// The drive itself: out-of-band data, maps, staged bands.
    Internal,
}

/// A change of the map from host extents to locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// The extent is in the persistent cache, with the data of a host write.
    Cached {
        /// The host extent.
        lba: LbaExtent,
        /// The location of its first sector.
        pba: Pba48,
    },
    /// The extent moves within the persistent cache, with what reads return of it.
    Relocated {
        /// The host extent.
        lba: LbaExtent,
        /// The new location of its first sector.
        pba: Pba48,
    },
    /// The extent is at its native location.
    Native {
        /// The host extent.
        lba: LbaExtent,
    },
    /// The native location of the extent changes, and the extent is there.
    Remapped {
        /// The host extent: a whole band.
        lba: LbaExtent,
        /// Its new native location.
        pba: Pba48,
    },
}

impl MapChange {
    /// The host extent whose location changes.
    #[inline]
    pub fn extent(&self) -> LbaExtent {
        match *self {
            Self::Cached { lba, .. }
            | Self::Relocated { lba, .. }
            | Self::Native { lba }
            | Self::Remapped { lba, .. } => lba,
        }
    }
}

/// One step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads or writes an extent of a medium.
    Access {
        /// The medium.
        medium: Medium,
        /// Read or write.
        direction: Direction,
        /// The extent.
        extent: PbaExtent,
        /// Its purpose.
        purpose: Purpose,
        /// The source of its data.
        source: Source,
    },
    /// The following accesses may execute in any order: the clock always takes the one that the heads reach first,
    /// other interpreters keep the order of the plan.
    AnyOrder {
        /// Their number.
        accesses: u32,
    },
    /// Changes the map.
    Commit(MapChange),
    /// A read returns the pattern for these sectors of its extent.
    Fill {
        /// The read.
        command: CommandId,
        /// A part of its extent.
        extent: LbaExtent,
        /// The value of every byte.
        pattern: u8,
    },
    /// A read fails for these sectors of its extent, and its [`Step::Complete`] is a failure; it reads the others.
    Fail {
        /// The read.
        command: CommandId,
        /// A part of its extent.
        extent: LbaExtent,
        /// The reason; the layer knows the details.
        reason: Failure,
    },
    /// Completes a host command.
    Complete {
        /// The command.
        command: CommandId,
        /// Its outcome.
        outcome: Outcome,
    },
}

impl Step {
    /// Completes a command successfully.
    #[inline]
    pub const fn done(command: CommandId) -> Self {
        Self::Complete { command, outcome: Outcome::Done }
    }
}

// A plan of a cleaning has thousands of steps, all of which the clock reads.
const _: () = assert!(size_of::<Step>() <= 32);

/// A list of steps: a buffer that is reused for the next plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    /// Removes all steps and keeps the allocation.
    pub fn clear(&mut self) {
        self.steps.clear();
    }

    /// Appends a step.
    #[inline]
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Appends a read.
    #[inline]
    pub fn read(&mut self, medium: Medium, extent: PbaExtent, purpose: Purpose) {
        self.push(Step::Access {
            medium,
            direction: Direction::Read,
            extent,
            purpose,
            source: Source::Medium,
        });
    }

    /// Appends a write of data from a source.
    #[inline]
    pub fn write(&mut self, medium: Medium, extent: PbaExtent, purpose: Purpose, source: Source) {
        self.push(Step::Access { medium, direction: Direction::Write, extent, purpose, source });
    }

    /// Appends a read of a piece of a host extent.
    #[inline]
    pub fn read_piece(&mut self, piece: Piece) {
        let purpose = if piece.cached { Purpose::Cache } else { Purpose::Host };
        self.read(piece.medium, piece.extent, purpose);
    }

    /// Appends reads that may execute in any order.
    pub fn read_in_any_order(
        &mut self,
        (medium, purpose): (Medium, Purpose),
        extents: impl Iterator<Item = PbaExtent>,
    ) {
        let at = self.steps.len();
        self.push(Step::AnyOrder { accesses: 0 });
        for extent in extents {
            self.read(medium, extent, purpose);
        }
        match self.steps.len() - at - 1 {
            0 => self.steps.truncate(at),
            accesses => self.steps[at] = Step::AnyOrder { accesses: accesses as u32 },
        }
    }

    /// Completes a command successfully.
    #[inline]
    pub fn complete(&mut self, command: CommandId) {
        self.push(Step::done(command));
    }

    /// Completes a command with a failure.
    pub fn fail(&mut self, command: CommandId, failure: Failure) {
        self.push(Step::Complete { command, outcome: Outcome::Failed(failure) });
    }

    /// The commands that the plan completes, in order, with their outcomes.
    pub fn completions(&self) -> impl Iterator<Item = (CommandId, Outcome)> {
        self.steps.iter().filter_map(|step| match *step {
            Step::Complete { command, outcome } => Some((command, outcome)),
            _ => None,
        })
    }

    /// The steps, in order.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// The waiting host commands.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    /// Oldest first; at least one. Writes may conflict with older writes; no other command conflicts with an older one.
    pub waiting: &'a [Command],
    /// The index of the command that the drive's scheduler would serve next. No older one conflicts with it.
    pub next: usize,
}

impl Queue<'_> {
    /// The command to serve next.
    #[inline]
    pub fn next_command(&self) -> Command {
        self.waiting[self.next]
    }

    /// Whether a run of waiting commands, taken together, overtakes no command that conflicts with one of them.
    pub fn keeps_order(&self, run: &std::ops::Range<usize>) -> bool {
        let (older, taken) = (&self.waiting[..run.start], &self.waiting[run.clone()]);
        !older.iter().any(|older| taken.iter().any(|command| command.conflicts_with(older)))
    }

    /// Whether a plan keeps the order of all conflicting commands, which is the contract of [`Layer::take`]. Slow: for
    /// assertions.
    pub fn is_kept_by(&self, plan: &Plan) -> bool {
        let completed =
            |command: &Command| plan.completions().position(|(id, _)| id == command.id).unwrap_or(usize::MAX);
        self.waiting.iter().enumerate().all(|(index, younger)| {
            let at = completed(younger);
            let older = &self.waiting[..index];
            at == usize::MAX
                || older.iter().all(|older| !older.conflicts_with(younger) || completed(older) < at)
        })
    }
}

/// Whether all commands are writes of one length.
#[inline]
pub fn are_writes_of_one_length(commands: &[Command]) -> bool {
    let len = commands.first().map(|first| first.extent.len);
    commands.iter().all(|command| command.op == Op::Write && Some(command.extent.len) == len)
}

/// The location of a piece of a host extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The medium.
    pub medium: Medium,
    /// The extent on it.
    pub extent: PbaExtent,
    /// Whether it is in the persistent cache, not at its native location.
    pub cached: bool,
}

/// The result of [`Layer::idle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// There is no background work.
    Nothing,
    /// The plan contains one unit of background work.
    Worked,
}

/// A translation layer: a pure state machine from host commands to plans.
///
/// It has no clock, files, threads or randomness of its own, so the same commands give the same plans, whatever
/// interprets them.
pub trait Layer: Send {
    /// Host sectors.
    fn capacity(&self) -> skylight_disk::Sectors;

    /// Takes one or more of the waiting commands and appends their steps to `plan`. Conflicting commands
    /// ([`Command::conflicts_with`]) complete in the order in which they wait, and a command is taken only with or after
    /// all older ones that conflict with it. Commands that the layer does not implement complete with
    /// [`Failure::Unsupported`].
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan);

    /// As [`Layer::take`], for writes that left a volatile cache. A layer with zones has admitted them
    /// ([`Zoned::admit`]) and only places their data. On a drive with zones `of_zone` gives those of the waiting writes,
    /// oldest first, that have sectors in the zone in which the next one begins: a layer would have to look through all
    /// others for them.
    fn destage(&mut self, queue: Queue<'_>, _of_zone: &mut dyn Iterator<Item = Command>, plan: &mut Plan) {
        self.take(queue, plan);
    }

    /// The idle time before [`Layer::idle`] is called; `None` for a layer without background work.
    fn idle_after(&self) -> Option<skylight_disk::Nanos> {
        None
    }

    /// Appends one unit of background work to `plan`, if there is any.
    fn idle(&mut self, _plan: &mut Plan) -> Idle {
        Idle::Nothing
    }

    /// Appends the locations of the pieces of a host extent, in order.
    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>);

    /// The location of the first sector of a host extent, for the scheduler.
    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba);

    /// Whether a read or write has to do with a medium, for the scheduler. One that fails, or that reads what was never
    /// written, may have nothing to do with any: then no heads move for it, and it waits for none. This holds until an older
    /// command that conflicts with it is done. Not for writes that were admitted ([`Zoned::admit`]).
    fn needs_medium(&self, _command: &Command) -> bool {
        true
    }

    /// The group of a host sector, for the scheduler: a map change other than a trim affects one group, and changes the
    /// result of [`Layer::locate_first`] only within it.
    fn location_group(&self, _address: skylight_disk::Lba) -> u32 {
        0
    }

    /// How much the group of a host sector ([`Layer::location_group`]) takes before a host would wait for longer than it has
    /// patience, on a layer that cleans for a write that finds no room; `None` on others.
    fn room(&self, _address: skylight_disk::Lba) -> Option<Room> {
        None
    }

    /// Whether a write, which the drive is about to admit, will take any of that ([`Layer::room`]): none in order on a drive with
    /// zones does, nor one to a zone without a write pointer.
    fn takes_room(&self, _extent: LbaExtent) -> bool {
        true
    }

    /// Whether these commands are writes of one length that all go to the end of one log, for the scheduler: the first
    /// sector of each ([`Layer::locate_first`]) is at the same location.
    fn all_go_to_log(&self, _commands: &[Command]) -> bool {
        false
    }

    /// A hint that this address will be looked up soon, so that its map entries can be prefetched. No other effect.
    fn hint(&mut self, _address: skylight_disk::Lba) {}

    /// Sets the time of the interpreter's clock, for layers that record when something happened.
    fn clock(&mut self, _now: skylight_disk::Time) {}

    /// The capability of a drive whose writes overwrite sectors of other tracks.
    fn overwriting(&mut self) -> Option<&mut dyn Overwriting> {
        None
    }

    /// The capability of a drive with zones.
    fn zoned(&mut self) -> Option<&mut dyn Zoned> {
        None
    }

    /// Returns to the state of a new drive: an empty cache and the initial mapping.
    fn erase(&mut self);

    /// The space on the media that it uses.
    fn media_use(&self) -> MediaUse;

    /// Visits the locations of the pieces of a host extent on a new drive, in order: on the platters, except for a drive
    /// that is all flash.
    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent));

    /// Whether a write at a sector gives a part of the medium another use: it starts a log, or a band that the next map
    /// change places there.
    fn starts_slot(&self, _pba: Pba) -> bool {
        false
    }

    /// Restores the state that was found on the media; without effect on a layer without a cache.
    ///
    /// # Errors
    /// When something was found at a location that this drive never uses for it.
    fn restore(&mut self, _found: &Recovered<'_>) -> Result<(), Misplaced> {
        Ok(())
    }

    /// The use of the persistent cache and of its map.
    fn cache_use(&self) -> CacheUse {
        CacheUse::default()
    }
}

/// The use of the persistent cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Sectors mapped to the cache.
    pub live_sectors: u64,
    /// Entries of the map.
    pub map_entries: u64,
    /// Memory of the map, bytes.
    pub map_bytes: u64,
    /// Sectors of the cache that are written and not yet free again, live or not.
    pub filled_sectors: u64,
    /// Sectors that may be filled before writes wait for cleaning. Where the cache has parts, each for some addresses,
    /// this is their sum, and a part can be full before. 0 where the layer has no such limit.
    pub usable_sectors: u64,
    /// Entries that the map may have before writes wait for cleaning; `None` without a limit.
    pub map_limit: Option<u64>,
    /// Whether cleaning has begun and not ended; commands may come between its steps.
    pub cleaning: bool,
}

/// What the persistent cache takes ([`Layer::room`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Sectors of writes.
    pub sectors: skylight_disk::Sectors,
    /// Writes, whatever their size.
    pub writes: u64,
}
