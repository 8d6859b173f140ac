//! NBD on the wire: magic numbers, constants and headers, all big-endian.
//!
//! Source: the NBD protocol, "Newstyle negotiation", "Transmission phase" and "Values".

/// NBDMAGIC, the first word of the server.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// IHAVEOPT, which precedes every option and is the second word of the server.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Precedes every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Precedes every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Precedes a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Precedes a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the same for server and client.
pub mod handshake_flag {
    /// Fixed newstyle: every option has a reply.
    pub const FIXED_NEWSTYLE: u32 = 1;
    /// The reply to `NBD_OPT_EXPORT_NAME` omits its 124 zeroes.
    pub const NO_ZEROES: u32 = 2;
}

/// Option types.
pub mod option {
    /// Chooses an export and ends the negotiation without an option reply.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the session.
    pub const ABORT: u32 = 2;
    /// Lists exports.
    pub const LIST: u32 = 3;
    /// Starts TLS.
    pub const STARTTLS: u32 = 5;
    /// Asks for information about an export.
    pub const INFO: u32 = 6;
    /// The same, and enters the transmission phase.
    pub const GO: u32 = 7;
    /// Enables structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Lists metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Selects metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Option reply types.
pub mod reply {
    /// Success, or the end of a list.
    pub const ACK: u32 = 1;
    /// An entry of the export list.
    pub const SERVER: u32 = 2;
    /// Information about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The server does not support the option.
    pub const ERR_UNSUP: u32 = (1 << 31) | 1;
    /// Server policy forbids it.
    pub const ERR_POLICY: u32 = (1 << 31) | 2;
    /// The option is malformed.
    pub const ERR_INVALID: u32 = (1 << 31) | 3;
    /// TLS is required first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) | 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) | 6;
    /// The option data is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) | 9;
}

/// Information types of `NBD_REP_INFO`.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The canonical name.
    pub const NAME: u16 = 1;
    /// A description.
    pub const DESCRIPTION: u16 = 2;
    /// Block size constraints.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub mod flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// The export is read-only.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Flush.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA.
    pub const SEND_FUA: u16 = 1 << 3;
    /// A rotational medium.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// Trim.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Write zeroes.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_CMD_FLAG_DF` is supported.
    pub const SEND_DF: u16 = 1 << 7;
    /// Writes and flushes are consistent across connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Cache.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `NBD_CMD_FLAG_FAST_ZERO` is supported.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Request types.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// Disconnect.
    pub const DISC: u16 = 2;
    /// Flush.
    pub const FLUSH: u16 = 3;
    /// Trim.
    pub const TRIM: u16 = 4;
    /// Cache.
    pub const CACHE: u16 = 5;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Block status.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub mod command_flag {
    /// Force unit access.
    pub const FUA: u16 = 1;
    /// Write zeroes without punching a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Reply with a single chunk: do not fragment.
    pub const DF: u16 = 1 << 2;
    /// Report one extent per context.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail unless zeroing is fast.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunk types and flags of structured replies.
pub mod chunk {
    /// No payload.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents and their status.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = (1 << 15) | 1;
    /// An error at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) | 2;
    /// Flag: the last chunk of the reply.
    pub const DONE: u16 = 1;
}

/// Length of a request header, bytes.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply header, bytes.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a chunk header, bytes.
pub const CHUNK_BYTES: usize = 20;

/// A request as received, before any validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRequest {
    /// Command flags.
    pub flags: u16,
    /// The command.
    pub kind: u16,
    /// The cookie that identifies the reply.
    pub cookie: u64,
    /// Offset, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub len: u32,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Reads 16 bits at an offset.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    word(bytes, at).map(u16::from_be_bytes)
}

/// Reads 32 bits at an offset.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_be_bytes)
}

/// Reads 64 bits at an offset.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(u64::from_be_bytes)
}

impl RawRequest {
    /// Parses a request header; `None` if it is too short or has no request magic.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if u32_at(bytes, 0)? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: u16_at(bytes, 4)?,
            kind: u16_at(bytes, 6)?,
            cookie: u64_at(bytes, 8)?,
            offset: u64_at(bytes, 16)?,
            len: u32_at(bytes, 24)?,
        })
    }

    /// Length of the payload behind the header, bytes.
    pub fn payload(&self) -> usize {
        if self.kind == command::WRITE { self.len as usize } else { 0 }
    }
}

/// The header of a simple reply.
pub fn simple_reply(error: u32, cookie: u64) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of a chunk with `len` bytes of payload.
pub fn chunk_header(flags: u16, kind: u16, cookie: u64, len: u32) -> [u8; CHUNK_BYTES] {
    let mut bytes = [0; CHUNK_BYTES];
    bytes[0..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..20].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// Encodes an option reply.
pub fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}
