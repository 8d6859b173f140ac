//! The size, block sizes and capabilities of a served drive.

/// The longest read that is answered in one chunk, and the longest piece of any other command, bytes.
pub const PIECE_BYTES: usize = 1 << 20;

/// What clients learn about a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The name of the drive.
    pub name: String,
    /// A sentence about it.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Logical block: every offset and length is a multiple of it; a power of two, bytes.
    pub block: u32,
    /// Physical block, without read-modify-write: a power of two, bytes.
    pub preferred: u32,
    /// Whether commands that change data are refused.
    pub read_only: bool,
    /// Whether seeks take time.
    pub rotational: bool,
    /// Whether a flush on one connection makes writes of all connections durable.
    pub multi_conn: bool,
    /// Whether it reports which blocks are in the persistent cache ([`super::StatusQuery::Cached`]).
    pub places: bool,
    /// Whether its sectors can be overwritten ([`super::StatusQuery::Overwritten`]).
    pub shingled: bool,
    /// The piece in which a long write is executed, bytes: whole preferred blocks, at most [`PIECE_BYTES`]. Small where
    /// pieces cost no more than one write, so that data is written while it is still in the processor's cache.
    pub write_piece: usize,
}

impl Shape {
    /// A drive of `size` bytes with sectors of 512 bytes and blocks of 4 KiB.
    pub fn drive(name: impl Into<String>, size: u64) -> Self {
        let (name, description) = (name.into(), String::new());
        let (block, preferred) = (512, 4096);
        Self {
            name,
            description,
            size,
            block,
            preferred,
            read_only: false,
            rotational: false,
            multi_conn: true,
            places: false,
            shingled: false,
            write_piece: PIECE_BYTES,
        }
    }
}
