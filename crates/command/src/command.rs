//! What a host asks of a drive.

use std::fmt;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads an extent.
    Read,
    /// Writes an extent.
    Write,
    /// Makes all that completed before it durable; its extent is empty.
    Flush,
    /// Discards an extent: what is read there afterwards may be anything.
    Trim,
    /// Makes an extent read as zeros.
    WriteZeroes,
    /// Fetches what will be read soon.
    Cache,
    /// Writes at the write pointer of a zone; the completion says where. The extent is the start of the zone and
    /// the length of the data, as in the Zone Append command of NVMe.
    Append,
    /// Acts on a zone. The extent is that zone, or the whole drive for all zones (the ALL bit of ZBC-2).
    Zone(ZoneAction),
}

/// What is done to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneAction {
    /// Opens it explicitly.
    Open,
    /// Closes it.
    Close,
    /// Makes it full: its write pointer moves to its end.
    Finish,
    /// Empties it: its write pointer moves to its start (RESET WRITE POINTER).
    Reset,
}

impl ZoneAction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Close, Self::Finish, Self::Reset];

    /// Its name in commands and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Finish => "finish",
            Self::Reset => "reset",
        }
    }
}

impl fmt::Display for ZoneAction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Op {
    /// Number of operations, for tables by operation.
    pub const COUNT: usize = Self::Zone(ZoneAction::Reset).index() + 1;

    /// Its place in a table by operation.
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 2,
            Self::Trim => 3,
            Self::WriteZeroes => 4,
            Self::Cache => 5,
            Self::Append => 6,
            Self::Zone(action) => 7 + action as usize,
        }
    }

    /// Whether it changes what later reads return.
    #[inline]
    pub const fn changes_data(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::Trim
                | Self::WriteZeroes
                | Self::Append
                | Self::Zone(ZoneAction::Finish | ZoneAction::Reset)
        )
    }

    /// Whether it acts on whole zones and carries no data.
    #[inline]
    pub const fn is_zone_action(self) -> bool {
        matches!(self, Self::Zone(_))
    }

    /// Whether its order among all other commands in its extent matters: it changes data, or the condition of a zone.
    #[inline]
    pub const fn is_ordered(self) -> bool {
        self.changes_data() || self.is_zone_action()
    }
}

/// The name in logs, options and tables.
impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Zone(action) => return write!(out, "{action}_zone"),
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
            Self::Cache => "cache",
            Self::Append => "append",
        })
    }
}

/// How a command is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Completes only when durable (FUA).
    pub fua: bool,
    /// Zeroes: space stays allocated, so no hole may be made.
    pub no_hole: bool,
    /// Zeroes: fail at once with [`crate::Failure::Unsupported`] rather than be slow.
    pub fast_zero: bool,
}

impl Flags {
    /// No flag is set.
    pub const NONE: Self = Self { fua: false, no_hole: false, fast_zero: false };
}

/// The number of a command while it is outstanding, given by the queue that it waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u32);

/// A command of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its number, for its completion; 0 until a queue gives it one.
    pub id: CommandId,
    /// What is asked.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Of which extent: on the drive, and not empty but for a flush.
    pub extent: LbaExtent,
}

// Queues of commands are compared and moved in the drive's hot loop.
const _: () = assert!(size_of::<Command>() == 24);

impl Command {
    /// A flush without a number.
    pub const FLUSH: Self = Self::of_bytes(Op::Flush, 0, 0);

    /// A command without flags.
    #[inline]
    pub const fn new(id: CommandId, op: Op, extent: LbaExtent) -> Self {
        Self { id, op, flags: Flags::NONE, extent }
    }

    /// A command without number and flags, from an offset and a length in bytes that are whole sectors.
    pub const fn of_bytes(op: Op, offset: u64, len: u64) -> Self {
        let extent = LbaExtent::new(Lba(offset / SECTOR_BYTES), Sectors(len / SECTOR_BYTES));
        Self::new(CommandId(0), op, extent)
    }

    /// The same command, which completes only when durable if `fua`.
    pub const fn with_fua(self, fua: bool) -> Self {
        Self { flags: Flags { fua, ..self.flags }, ..self }
    }

    /// Where its extent begins, bytes.
    #[inline]
    pub const fn offset_bytes(&self) -> u64 {
        self.extent.start.0 * SECTOR_BYTES
    }

    /// The length of its extent, bytes.
    #[inline]
    pub const fn len_bytes(&self) -> u64 {
        self.extent.len.bytes()
    }

    /// Bytes that it carries to or from the host.
    #[inline]
    pub const fn data_bytes(&self) -> u64 {
        match self.op {
            Op::Read | Op::Write | Op::Append => self.len_bytes(),
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Cache | Op::Zone(_) => 0,
        }
    }

    /// The first sector behind all that it may touch. An append goes anywhere in its zone, whose end a command does not
    /// say, so it reaches to the end of the drive.
    #[inline]
    pub fn reach(&self) -> Lba {
        match self.op {
            Op::Append => Lba(u64::MAX),
            _ => self.extent.end(),
        }
    }

    /// Whether the order of the two matters: they may touch the same sectors, and one of them changes these or the
    /// condition of their zone. Two appends have no order: each gets sectors of its own.
    ///
    /// ```
    /// use skylight_command::{Command, CommandId, Op};
    /// use skylight_disk::{Lba, LbaExtent, Sectors};
    ///
    /// let command = |op, start| Command::new(CommandId(0), op, LbaExtent::new(Lba(start), Sectors(8)));
    /// assert!(command(Op::Write, 0).conflicts_with(&command(Op::Read, 7)));
    /// assert!(!command(Op::Read, 0).conflicts_with(&command(Op::Read, 0)));
    /// assert!(!command(Op::Write, 0).conflicts_with(&command(Op::Trim, 8)));
    /// assert!(command(Op::Append, 0).conflicts_with(&command(Op::Read, 1000)));
    /// assert!(!command(Op::Append, 0).conflicts_with(&command(Op::Append, 0)));
    /// ```
    #[inline]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        // Joined without branches: a queue is compared with each command that comes.
        (self.extent.start < other.reach())
            & (other.extent.start < self.reach())
            & (self.op.is_ordered() | other.op.is_ordered())
            & !((self.op == Op::Append) & (other.op == Op::Append))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(op: Op, start: u64, len: u64) -> Command {
        Command::new(CommandId(0), op, LbaExtent::new(Lba(start), Sectors(len)))
    }

    /// All but the append.
    const OPS: [Op; Op::COUNT - 1] = [
        Op::Read,
        Op::Write,
        Op::Flush,
        Op::Trim,
        Op::WriteZeroes,
        Op::Cache,
        Op::Zone(ZoneAction::Open),
        Op::Zone(ZoneAction::Close),
        Op::Zone(ZoneAction::Finish),
        Op::Zone(ZoneAction::Reset),
    ];

    #[test]
    fn every_operation_has_a_place_of_its_own_in_a_table() {
        let mut places = vec![Op::Append.index()];
        places.extend(OPS.map(Op::index));
        places.sort_unstable();
        assert!(places.into_iter().eq(0..Op::COUNT));
    }

    #[test]
    fn what_opens_or_closes_a_zone_is_ordered_and_changes_no_data() {
        for (action, changes_data) in [
            (ZoneAction::Open, false),
            (ZoneAction::Close, false),
            (ZoneAction::Finish, true),
            (ZoneAction::Reset, true),
        ] {
            let op = Op::Zone(action);
            assert_eq!((op.changes_data(), op.is_ordered()), (changes_data, true), "{op}");
            assert!(command(op, 0, 64).conflicts_with(&command(Op::Read, 63, 1)), "{op}");
            assert!(command(Op::Append, 0, 8).conflicts_with(&command(op, 0, 64)), "{op}");
        }
        assert!(!Op::Read.is_ordered());
    }

    #[test]
    fn commands_conflict_where_one_changes_what_both_touch() {
        for first in OPS {
            for second in OPS {
                let (one, same, next) = (command(first, 8, 8), command(second, 8, 8), command(second, 16, 8));
                let ordered = first.is_ordered() || second.is_ordered();
                assert_eq!(one.conflicts_with(&same), ordered, "{first} and {second}");
                assert_eq!(same.conflicts_with(&one), ordered, "{second} and {first}");
                assert!(!one.conflicts_with(&next), "{first} before {second}");
            }
        }
        assert!(OPS.into_iter().all(|op| !Command::FLUSH.conflicts_with(&command(op, 0, 8))));
    }

    #[test]
    fn an_append_conflicts_with_all_but_appends_from_the_start_of_its_zone_on() {
        let append = command(Op::Append, 64, 8);
        for op in OPS {
            assert!(append.conflicts_with(&command(op, 1 << 30, 8)), "{op} far behind the data's length");
            assert!(command(op, 71, 8).conflicts_with(&append), "{op}");
            assert!(!append.conflicts_with(&command(op, 56, 8)), "{op} of the zone before");
        }
        assert!(
            !append.conflicts_with(&command(Op::Append, 64, 8)),
            "the drive gives each a place of its own"
        );
    }
}
