//! Block status: extents for each negotiated metadata context.

use std::io;

use super::Transmission;
use crate::core::{Errno, Extent, Failure, StatusQuery, reported_bytes};
use crate::nbd::reply_buffer::push_error;
use crate::nbd::wire::{self, RawRequest, chunk};
use crate::nbd::{context_id, status_flags};

/// Maximum number of extents per context in one reply.
const MAX_EXTENTS: usize = 1024;
/// Smallest step of a look-up, bytes: it takes about a millisecond where every block is mapped elsewhere.
const STATUS_STEP_BYTES: u64 = 1 << 20;

impl Transmission<'_> {
    pub(super) fn block_status(&mut self, raw: &RawRequest, extent: (u64, u64), one: bool) -> io::Result<()> {
        let limit = if one { 1 } else { MAX_EXTENTS };
        let before = self.out.len();
        let contexts = self.session.contexts.clone();
        for (number, &query) in contexts.iter().enumerate() {
            let mut extents: Vec<Extent> = Vec::new();
            let result = self.look_up_status(extent, query, limit, &mut extents);
            if !self.is_connected() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            extents.truncate(limit);
            if result.is_err() || extents.is_empty() {
                self.out.truncate(before);
                let errno = result.err().map_or(Errno::Io, Errno::from);
                push_error(&mut self.out, true, raw.cookie, errno, None);
                return Ok(());
            }
            let last = number + 1 == contexts.len();
            let flags = if last { chunk::DONE } else { 0 };
            let bytes = 4 + 8 * extents.len() as u32;
            self.out.push(&wire::chunk_header(flags, chunk::BLOCK_STATUS, raw.cookie, bytes));
            self.out.push(&context_id(query).to_be_bytes());
            for extent in extents {
                self.out.push(&(extent.len as u32).to_be_bytes());
                self.out.push(&status_flags(extent.state).to_be_bytes());
            }
        }
        Ok(())
    }

    /// Looks up extents in steps short enough for other commands to proceed in between; steps grow where
    /// extents are long. A backend may report less than it is asked for, so the next step begins where its report ends.
    fn look_up_status(
        &self,
        (offset, len): (u64, u64),
        query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        let (mut at, end, mut step) = (offset, offset + len, STATUS_STEP_BYTES);
        while at < end && extents.len() <= limit {
            let before = extents.len();
            self.backend.block_status(at, step.min(end - at), query, limit, extents)?;
            let next = offset + reported_bytes(extents);
            if next <= at {
                // Nothing more is known: the reply ends where the reports do.
                break;
            }
            at = next;
            step = if extents.len() <= before + 1 { step * 2 } else { STATUS_STEP_BYTES };
        }
        Ok(())
    }
}
