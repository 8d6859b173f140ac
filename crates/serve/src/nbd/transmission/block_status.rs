//! Block status: runs of blocks for each metadata context that was chosen.

use std::io;

use super::Conversation;
use crate::core::{Errno, Extent, StatusQuery};
use crate::nbd::output::push_error;
use crate::nbd::wire::{self, RawRequest, chunk};
use crate::nbd::{context_id, status_flags};

/// Runs of blocks in one reply.
const MOST_EXTENTS: usize = 1024;
/// Block status is looked up in steps of this length and more, bytes: a millisecond where every block lies elsewhere.
const STATUS_STEP: u64 = 1 << 20;

impl Conversation<'_> {
    pub(super) fn block_status(&mut self, raw: &RawRequest, extent: (u64, u64), one: bool) -> io::Result<()> {
        let most = if one { 1 } else { MOST_EXTENTS };
        let before = self.out.len();
        let contexts = self.session.contexts.clone();
        for (number, &query) in contexts.iter().enumerate() {
            let mut extents: Vec<Extent> = Vec::new();
            let told = self.find_status(extent, query, most, &mut extents);
            if !self.is_there() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            extents.truncate(most);
            if told.is_err() || extents.is_empty() {
                self.out.truncate(before);
                let errno = told.err().unwrap_or(Errno::Io);
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

    /// Looks up runs of blocks, in steps that others do not have to wait for: longer ones where runs are long.
    fn find_status(
        &self,
        (offset, len): (u64, u64),
        query: StatusQuery,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        let (mut at, end, mut step) = (offset, offset + len, STATUS_STEP);
        while at < end && extents.len() <= most {
            let (here, before) = (step.min(end - at), extents.len());
            self.backend.block_status(at, here, query, most, extents)?;
            at += here;
            step = if extents.len() <= before + 1 { step * 2 } else { STATUS_STEP };
        }
        Ok(())
    }
}
