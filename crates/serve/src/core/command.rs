//! Commands of a host, as every front door hands them to what is served.
//!
//! Invariant: a [`Request`] that reaches a [`super::Backend`] went through [`super::validate()`]: it lies on the drive, is
//! whole blocks and is allowed.

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Gives bytes.
    Read,
    /// Takes bytes.
    Write,
    /// Makes durable all that was answered before.
    Flush,
    /// Forgets an extent.
    Trim,
    /// Writes zeroes.
    WriteZeroes,
    /// Fetches what will be read soon.
    Cache,
}

impl Op {
    /// Every operation.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Flush, Self::Trim, Self::WriteZeroes, Self::Cache];

    /// The name in logs and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
            Self::Cache => "cache",
        }
    }
}

/// A command that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub op: Op,
    /// Bytes from the start.
    pub offset: u64,
    /// Bytes; nothing for a flush.
    pub len: u64,
    /// Answered only when durable.
    pub fua: bool,
    /// Zeroes: room must stay reserved, so no hole may be made.
    pub no_hole: bool,
    /// Zeroes: fail at once with [`super::Errno::NotSupported`] rather than be slow.
    pub fast: bool,
}

impl Request {
    /// A command without flags.
    pub const fn new(op: Op, offset: u64, len: u64) -> Self {
        Self { op, offset, len, fua: false, no_hole: false, fast: false }
    }

    /// Whether it changes the bytes of its extent.
    pub const fn changes_bytes(&self) -> bool {
        matches!(self.op, Op::Write | Op::Trim | Op::WriteZeroes)
    }

    /// Whether the order of the two matters: they share bytes, and one of them changes these.
    pub const fn conflicts_with(&self, other: &Self) -> bool {
        self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
            && (self.changes_bytes() || other.changes_bytes())
    }

    /// Bytes that it carries one way or the other.
    pub const fn data_len(&self) -> u64 {
        match self.op {
            Op::Read | Op::Write => self.len,
            _ => 0,
        }
    }
}
