//! NBD on the wire: magics, numbers and headers, all big-endian.
//!
//! Source: the NBD protocol, "Newstyle negotiation", "Transmission phase" and "Values".

/// First words of the server.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before every option, and second word of the server.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, of server and client: fixed newstyle, and no zeroes after `NBD_OPT_EXPORT_NAME`.
pub mod handshake_flag {
    /// The options have replies.
    pub const FIXED_NEWSTYLE: u32 = 1;
    /// The 124 zeroes are left out.
    pub const NO_ZEROES: u32 = 2;
}

/// Options.
pub mod option {
    /// Ends the negotiation without a reply.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the session.
    pub const ABORT: u32 = 2;
    /// Names of exports.
    pub const LIST: u32 = 3;
    /// TLS from here on.
    pub const STARTTLS: u32 = 5;
    /// What an export is like.
    pub const INFO: u32 = 6;
    /// The same, and ends the negotiation.
    pub const GO: u32 = 7;
    /// Structured replies from here on.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Names of contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Chooses contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// The name of an export.
    pub const SERVER: u32 = 2;
    /// Something about an export.
    pub const INFO: u32 = 3;
    /// A context.
    pub const META_CONTEXT: u32 = 4;
    /// Not an option of this server.
    pub const ERR_UNSUP: u32 = (1 << 31) | 1;
    /// Not allowed here.
    pub const ERR_POLICY: u32 = (1 << 31) | 2;
    /// Makes no sense.
    pub const ERR_INVALID: u32 = (1 << 31) | 3;
    /// TLS first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) | 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) | 6;
    /// The server is going down.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) | 7;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) | 9;
}

/// What `NBD_REP_INFO` is about.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The name.
    pub const NAME: u16 = 1;
    /// A sentence.
    pub const DESCRIPTION: u16 = 2;
    /// Constraints on offsets and lengths.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub mod flag {
    /// Always.
    pub const HAS_FLAGS: u16 = 1;
    /// No writes.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Flush.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Seeks cost something.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// Trim.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Write zeroes.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Reads in one chunk.
    pub const SEND_DF: u16 = 1 << 7;
    /// Connections see each other's writes and flushes.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Cache.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// Write zeroes, if it is fast.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// The client goes.
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

/// Flags of requests.
pub mod command_flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1;
    /// Zeroes without a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zeroes only if fast.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub mod chunk {
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Bytes at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Runs of blocks.
    pub const BLOCK_STATUS: u16 = 5;
    /// It failed.
    pub const ERROR: u16 = (1 << 15) | 1;
    /// It failed at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) | 2;
    /// Flag: the last one.
    pub const DONE: u16 = 1;
}

/// Bytes of a request before its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply before its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk before its payload.
pub const CHUNK_BYTES: usize = 20;

/// A request as it came, of which nothing is known to make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRequest {
    /// Command flags.
    pub flags: u16,
    /// The command.
    pub kind: u16,
    /// What its reply is known by.
    pub cookie: u64,
    /// Bytes.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// 16 bits at a place.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    word(bytes, at).map(u16::from_be_bytes)
}

/// 32 bits at a place.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_be_bytes)
}

/// 64 bits at a place.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(u64::from_be_bytes)
}

impl RawRequest {
    /// Reads one; none if the bytes do not begin with the magic, or are too few.
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

    /// Its bytes, for clients.
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Bytes that follow the header.
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

/// An option as a client sends it.
pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A reply to an option.
pub fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}
