//! Encodes replies into a buffer that is sent in one go.
//!
//! Invariants: the payload of a read whose reply comes first in the buffer starts on a page boundary, so that
//! the kernel copies whole pages; the buffer keeps its memory between sends, so that it is zeroed only once.
//! Source: the NBD protocol, "Simple reply", "Structured reply".

use std::io;

use crate::core::Errno;
use crate::nbd::transport::{Channel, PAGE_BYTES};
use crate::nbd::wire::{self, CHUNK_BYTES, RawRequest, SIMPLE_REPLY_BYTES, chunk};

/// Initial size.
const INITIAL_BYTES: usize = 64 << 10;

/// Replies to be sent together.
#[derive(Default)]
pub(crate) struct ReplyBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Length of the header of a read reply, bytes: the buffer starts so that a payload behind it is
    /// page-aligned.
    header: Option<usize>,
}

impl ReplyBuffer {
    /// A reusable buffer for one connection.
    pub(crate) fn new(structured: bool) -> Self {
        let header = if structured { CHUNK_BYTES + size_of::<u64>() } else { SIMPLE_REPLY_BYTES };
        let mut out = Self { bytes: vec![0; INITIAL_BYTES], header: Some(header), ..Self::default() };
        out.align();
        out
    }

    fn align(&mut self) {
        let start = match self.header {
            Some(header) => (self.bytes.as_ptr().align_offset(PAGE_BYTES) + PAGE_BYTES - header) % PAGE_BYTES,
            None => 0,
        };
        (self.start, self.end) = (start, start);
    }

    /// Bytes to be sent.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Appends `count` bytes for the caller to fill.
    pub(crate) fn extend(&mut self, count: usize) -> &mut [u8] {
        let (start, end) = (self.end, self.end + count);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.end = end;
        &mut self.bytes[start..end]
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.extend(bytes.len()).copy_from_slice(bytes);
    }

    /// Keeps only the first bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.end = self.start + len;
    }

    /// Sends the replies and empties the buffer.
    pub(crate) fn send(&mut self, channel: &dyn Channel) -> io::Result<()> {
        let sent = if self.len() == 0 { Ok(()) } else { channel.send(&self.bytes[self.start..self.end]) };
        self.align();
        sent
    }

    /// Releases memory beyond the initial size, if the buffer is empty.
    pub(crate) fn shrink(&mut self) {
        if self.len() == 0 && self.bytes.len() > INITIAL_BYTES {
            self.bytes = vec![0; INITIAL_BYTES];
            self.align();
        }
    }

    /// The encoded replies.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes.drain(..self.start);
        self.bytes
    }

    /// Takes the encoded replies out of the buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let bytes = self.bytes[self.start..self.end].to_vec();
        self.align();
        bytes
    }
}

/// Appends an error reply, with the offset of the error if known.
pub(crate) fn push_error(
    out: &mut ReplyBuffer,
    structured: bool,
    cookie: u64,
    errno: Errno,
    at: Option<u64>,
) {
    if !structured {
        return out.push(&wire::simple_reply(errno.number(), cookie));
    }
    let (kind, len) = if at.is_some() { (chunk::ERROR_OFFSET, 14) } else { (chunk::ERROR, 6) };
    out.push(&wire::chunk_header(chunk::DONE, kind, cookie, len));
    out.push(&errno.number().to_be_bytes());
    out.push(&[0, 0]);
    if let Some(at) = at {
        out.push(&at.to_be_bytes());
    }
}

/// Appends the header of a read payload, given its offset and length.
pub(crate) fn push_read_header(
    out: &mut ReplyBuffer,
    structured: bool,
    raw: &RawRequest,
    (at, len): (u64, usize),
    last: bool,
) {
    if structured {
        let flags = if last { chunk::DONE } else { 0 };
        out.push(&wire::chunk_header(flags, chunk::OFFSET_DATA, raw.cookie, len as u32 + 8));
        out.push(&at.to_be_bytes());
    } else if at == raw.offset {
        out.push(&wire::simple_reply(0, raw.cookie));
    }
}

/// Appends the reply to a simple command or a whole read; for a failed read, with the offset of the error if
/// known.
pub(crate) fn push_reply(
    out: &mut ReplyBuffer,
    structured: bool,
    raw: &RawRequest,
    result: Result<(), impl Into<Errno>>,
    data: &[u8],
    at: Option<u64>,
) {
    let read = raw.kind == wire::command::READ;
    match result {
        Err(error) => push_error(out, structured && read, raw.cookie, error.into(), at),
        Ok(()) if read => {
            push_read_header(out, structured, raw, (raw.offset, data.len()), true);
            out.push(data);
        }
        Ok(()) => out.push(&wire::simple_reply(0, raw.cookie)),
    }
}
