//! Plans: what a translation layer wants done, as a list of steps that others give a meaning.
//!
//! The clock gives steps a duration, an image moves their bytes, a crash tester stops between them
//! (idea 1 of `docs/architecture.md`). Steps happen in order. A [`Step::Commit`] changes what later reads see, a
//! [`Step::Complete`] answers the host; neither takes time by itself.
//!
//! Invariant: a layer has taken exactly those commands whose completion is in its plan.

use skylight_command::{Command, CommandId, Failure, Outcome};
use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent};

use crate::capabilities::overwriting::Overwriting;
use crate::restore::{MediaUse, Misplaced, Recovered};

/// Which medium an access is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// The disk's surfaces.
    Platter,
    /// Flash beside them.
    Flash,
}

/// What an access is for: the columns of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Data of a host command at its native location.
    Host,
    /// Data of a host command in the persistent cache.
    Cache,
    /// What a journal writes beside the data of an entry.
    OutOfBand,
    /// Merging the map of the persistent cache to its home.
    MapMerge,
    /// Cleaning: reading cached data and the rest of a band.
    CleanRead,
    /// Cleaning: a merged band kept in the cache until it is rewritten.
    CleanStage,
    /// Cleaning: writing a band back.
    CleanWrite,
    /// Cleaning: the map's change at its home.
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

    /// The name in tables and columns.
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
        pub struct $name([u8; 6]);

        impl From<$address> for $name {
            #[inline]
            fn from(address: $address) -> Self {
                let [a, b, c, d, e, f, beyond @ ..] = address.get().to_le_bytes();
                debug_assert_eq!(beyond, [0; 2], "{address:?} has more than 48 bits");
                Self([a, b, c, d, e, f])
            }
        }

        impl From<$name> for $address {
            #[inline]
            fn from($name([a, b, c, d, e, f]): $name) -> Self {
                Self(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
            }
        }
    };
}

in_48_bits!(Lba48, Lba, "A host sector in 48 bits.");
in_48_bits!(Pba48, Pba, "A sector of a medium in 48 bits.");

/// Where the bytes of an access come from. The clock ignores it; an image moves the bytes that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The medium: a read.
    Medium,
    /// The host writes that the plan completes, from this host sector on: data at its native location.
    Host(Lba48),
    /// The host writes that the plan completes, into the persistent cache: the commits that follow name each extent
    /// and the place of it within this access.
    HostToCache,
    /// What reads return from this host sector on: cleaning writes it to a native location.
    Merged(Lba48),
    /// The drive itself: out-of-band data, maps, a band that is staged.
    Internal,
}

/// A change of where data is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// The extent is now in the persistent cache, from this address on.
    Cached {
        /// What the host calls it.
        lba: LbaExtent,
        /// Where it lies.
        pba: Pba48,
    },
    /// The extent is at its native location.
    Native {
        /// What the host calls it.
        lba: LbaExtent,
    },
    /// The native location of the extent is another one from now on, and the extent is there.
    Remapped {
        /// What the host calls it: a whole band.
        lba: LbaExtent,
        /// Where it lies.
        pba: Pba48,
    },
}

impl MapChange {
    /// What the host calls the extent that changes.
    #[inline]
    pub fn extent(&self) -> LbaExtent {
        match *self {
            Self::Cached { lba, .. } | Self::Native { lba } | Self::Remapped { lba, .. } => lba,
        }
    }
}

/// One step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read or write an extent of a medium.
    Access {
        /// The medium.
        medium: Medium,
        /// To or from it.
        direction: Direction,
        /// Where.
        extent: PbaExtent,
        /// What for.
        purpose: Purpose,
        /// Where its bytes come from.
        source: Source,
    },
    /// The next so many accesses may be done in any order: the clock takes the one that the heads reach
    /// first, others take them as they stand.
    AnyOrder {
        /// How many.
        accesses: u32,
    },
    /// Change the map.
    Commit(MapChange),
    /// What a read has for these sectors of its extent is the pattern, whatever lies there.
    Fill {
        /// The read.
        command: CommandId,
        /// A part of what it asked for.
        extent: LbaExtent,
        /// Every byte of it.
        pattern: u8,
    },
    /// A read cannot give these sectors. The [`Step::Complete`] that follows is a failure; the other sectors of the read
    /// are good.
    Fail {
        /// The read.
        command: CommandId,
        /// A part of what it asked for.
        extent: LbaExtent,
        /// Why; the layer knows the details.
        reason: Failure,
    },
    /// Complete a host command.
    Complete {
        /// Which.
        command: CommandId,
        /// How it ended.
        outcome: Outcome,
    },
}

impl Step {
    /// Completes a command that is done.
    #[inline]
    pub const fn done(command: CommandId) -> Self {
        Self::Complete { command, outcome: Outcome::Done }
    }
}

// Plans of a cleaning have thousands of them, and the clock reads each.
const _: () = assert!(size_of::<Step>() <= 32);

/// A list of steps; a buffer that is used again for the next plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    /// Forgets the steps and keeps the room.
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

    /// Appends a write of bytes from a source.
    #[inline]
    pub fn write(&mut self, medium: Medium, extent: PbaExtent, purpose: Purpose, source: Source) {
        self.push(Step::Access { medium, direction: Direction::Write, extent, purpose, source });
    }

    /// Appends the read of a piece of what the host asks for.
    #[inline]
    pub fn read_piece(&mut self, piece: Piece) {
        let purpose = if piece.cached { Purpose::Cache } else { Purpose::Host };
        self.read(piece.medium, piece.extent, purpose);
    }

    /// Appends reads that may be done in any order; how many is known when they are there.
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

    /// Completes a command that is done.
    #[inline]
    pub fn complete(&mut self, command: CommandId) {
        self.push(Step::done(command));
    }

    /// Completes a command that failed.
    pub fn fail(&mut self, command: CommandId, failure: Failure) {
        self.push(Step::Complete { command, outcome: Outcome::Failed(failure) });
    }

    /// The commands that the plan completes, in order, and how they ended.
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

/// The host commands that wait now.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    /// Oldest first; at least one. Writes may conflict with older writes; nothing else conflicts with an older one.
    pub waiting: &'a [Command],
    /// The one that the drive's scheduling would serve next. No older one conflicts with it.
    pub next: usize,
}

impl Queue<'_> {
    /// The command to serve next.
    #[inline]
    pub fn next_command(&self) -> Command {
        self.waiting[self.next]
    }

    /// Whether a run of waiting commands, taken together, overtakes none that conflicts with one of them.
    pub fn keeps_order(&self, run: &std::ops::Range<usize>) -> bool {
        let (older, taken) = (&self.waiting[..run.start], &self.waiting[run.clone()]);
        !older.iter().any(|older| taken.iter().any(|command| command.conflicts_with(older)))
    }

    /// Whether a plan that completes these commands keeps the order of all that conflict: the contract of
    /// [`Layer::take`]. Slow: for assertions.
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

/// A piece of a host extent and where it lies now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The medium.
    pub medium: Medium,
    /// Where on it.
    pub extent: PbaExtent,
    /// Native location or cache.
    pub cached: bool,
}

/// What a layer does when left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Nothing, however long it waits.
    Nothing,
    /// One unit of work, which is in the plan.
    Worked,
}

/// A translation layer: a pure state machine from host commands to plans.
///
/// It has no clock, no files, no threads and no randomness of its own, so the same commands give the same
/// plans wherever they are interpreted.
pub trait Layer: Send {
    /// Sectors that the host sees.
    fn capacity(&self) -> skylight_disk::Sectors;

    /// Takes one or more of the waiting commands and appends what they need to `plan`. Commands that conflict
    /// ([`Command::conflicts_with`]) are completed in the order in which they wait, and none is taken while an
    /// older one that conflicts with it is left. A command that the layer has no way to do is completed with
    /// [`Failure::Unsupported`].
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan);

    /// How long the drive must be left alone before [`Layer::idle`] is asked; `None` for a layer that never
    /// works on its own.
    fn idle_after(&self) -> Option<skylight_disk::Nanos> {
        None
    }

    /// One unit of what it would do with the drive left alone.
    fn idle(&mut self, plan: &mut Plan) -> Idle;

    /// Where each piece of a host extent lies now, in the order of the extent.
    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>);

    /// Where the first sector of a host extent lies: what a scheduler needs to know.
    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba);

    /// The part of the drive that a host sector is in, as far as a scheduler minds: a change of the map that is
    /// no trim lies in one part and moves what [`Layer::locate_first`] answers in that part alone.
    fn location_group(&self, _address: skylight_disk::Lba) -> u32 {
        0
    }

    /// A hint that this address will be asked for soon, so that what is known of it can be fetched into the
    /// processor's cache. It changes nothing.
    fn hint(&mut self, _address: skylight_disk::Lba) {}

    /// What the clock of whoever interprets the plans says; for layers that note when something happened.
    fn clock(&mut self, _now: skylight_disk::Time) {}

    /// The capability of a drive whose writes destroy sectors of other tracks.
    fn overwriting(&mut self) -> Option<&mut dyn Overwriting> {
        None
    }

    /// Forgets all that was written: an empty cache and the mapping of a new drive.
    fn erase(&mut self);

    /// The room on the media that it uses.
    fn media_use(&self) -> MediaUse;

    /// Where each piece of a host extent lies on a new drive, in the order of the extent: on the platters, but
    /// for a drive that is all flash.
    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent));

    /// Whether what is written at a sector gives a part of the medium another use: a log begins there, or a band
    /// that is found there from the next change of the map on.
    fn starts_slot(&self, _pba: Pba) -> bool {
        false
    }

    /// Takes up what was found on the media; a layer without a cache has nothing to take up.
    ///
    /// # Errors
    /// When this drive never puts something where it was found.
    fn restore(&mut self, _found: &Recovered<'_>) -> Result<(), Misplaced> {
        Ok(())
    }

    /// Sectors of host data in the persistent cache, entries and bytes of the map that finds them.
    fn cache_use(&self) -> CacheUse {
        CacheUse::default()
    }
}

/// How full the persistent cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Sectors that the map finds in the cache.
    pub live_sectors: u64,
    /// Entries of the map.
    pub map_entries: u64,
    /// Memory that the map takes.
    pub map_bytes: u64,
}
