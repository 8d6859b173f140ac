//! Replies as bytes, gathered to go out together.
//!
//! Invariants: the payload of the read that is the first to go out begins a page of memory, so that it is copied as
//! pages; room that was taken once is kept, so that it is cleared once.
//! Source: the NBD protocol, "Simple reply", "Structured reply".

use std::io;

use crate::core::Errno;
use crate::nbd::channel::{Channel, PAGE};
use crate::nbd::wire::{self, CHUNK_BYTES, RawRequest, SIMPLE_REPLY_BYTES, chunk};

/// Room for replies to begin with.
const OUTPUT_BYTES: usize = 64 << 10;

/// Replies that go out together. Its room is kept, so that it is cleared once.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes before the payload of a read that is the first to go out: that is to begin a page.
    header: Option<usize>,
}

impl Output {
    /// Replies of a connection, to be sent again and again.
    pub(crate) fn of(structured: bool) -> Self {
        let header = if structured { CHUNK_BYTES + size_of::<u64>() } else { SIMPLE_REPLY_BYTES };
        let mut out = Self { bytes: vec![0; OUTPUT_BYTES], header: Some(header), ..Self::default() };
        out.rewind();
        out
    }

    fn rewind(&mut self) {
        let start = match self.header {
            Some(header) => (self.bytes.as_ptr().align_offset(PAGE) % PAGE + PAGE - header) % PAGE,
            None => 0,
        };
        (self.start, self.end) = (start, start);
    }

    /// Bytes that are to go out.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Room for so many bytes more, to be filled.
    pub(crate) fn room(&mut self, count: usize) -> &mut [u8] {
        let (start, end) = (self.end, self.end + count);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.end = end;
        &mut self.bytes[start..end]
    }

    /// Some bytes more.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    /// Forgets all but the first bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.end = self.start + len;
    }

    /// Sends it.
    pub(crate) fn send(&mut self, channel: &dyn Channel) -> io::Result<()> {
        let sent = if self.len() == 0 { Ok(()) } else { channel.send(&self.bytes[self.start..self.end]) };
        self.rewind();
        sent
    }

    /// Gives up the memory that it took beyond what it began with; nothing may be in it.
    pub(crate) fn shrink(&mut self) {
        if self.len() == 0 && self.bytes.len() > OUTPUT_BYTES {
            self.bytes = vec![0; OUTPUT_BYTES];
            self.rewind();
        }
    }

    /// The same when nothing more is gathered.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes.drain(..self.start);
        self.bytes
    }

    /// What is to go out, for somebody else to send.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let bytes = self.bytes[self.start..self.end].to_vec();
        self.rewind();
        bytes
    }
}

/// The reply to a command that failed, at this byte if that is known.
pub(crate) fn push_error(out: &mut Output, structured: bool, cookie: u64, errno: Errno, at: Option<u64>) {
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

/// What goes before the bytes of a read, and how long that is.
pub(crate) fn push_read_header(
    out: &mut Output,
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

/// The reply to anything but a block status or a read in pieces; of a read that failed, at which byte if known.
pub(crate) fn push_reply(
    out: &mut Output,
    structured: bool,
    raw: &RawRequest,
    result: Result<(), Errno>,
    data: &[u8],
    at: Option<u64>,
) {
    let read = raw.kind == wire::command::READ;
    match result {
        Err(errno) => push_error(out, structured && read, raw.cookie, errno, at),
        Ok(()) if read => {
            push_read_header(out, structured, raw, (raw.offset, data.len()), true);
            out.push(data);
        }
        Ok(()) => out.push(&wire::simple_reply(0, raw.cookie)),
    }
}
