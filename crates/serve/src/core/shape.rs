//! What a served drive is like: size, block sizes, what it can do.

/// Most bytes of a read that must come in one chunk, and of a piece of any other command.
pub const PIECE_BYTES: usize = 1 << 20;

/// What a backend is like, for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The name of the drive.
    pub name: String,
    /// A sentence about it.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Every offset and length is a multiple of this: a power of two, bytes.
    pub block: u32,
    /// What is done without loss: a power of two, bytes.
    pub preferred: u32,
    /// Refuses to change.
    pub read_only: bool,
    /// Seeks cost something.
    pub rotational: bool,
    /// A flush on one connection is one for all.
    pub multi_conn: bool,
    /// Knows which blocks are cached ([`super::StatusQuery::Cached`]).
    pub places: bool,
    /// Is a raw shingled disk ([`super::StatusQuery::Overwritten`]).
    pub shingled: bool,
    /// Bytes of a long write that are done at once: whole preferred blocks, at most [`PIECE_BYTES`]. Small where a
    /// write costs the same in one or in parts: then it is done while the processor still has what came.
    pub write_piece: usize,
}

impl Shape {
    /// A drive of so many bytes with sectors of 512 bytes and blocks of 4 KiB.
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
