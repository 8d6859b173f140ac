//! An image in several parts over one medium: each part is a window of the medium, with a head if it is not the first. So a
//! cut takes writes of all parts in one order.

use std::io;
use std::ops::Range;

use crate::media::fault::FaultStore;
use skylight_image::Store;
use skylight_image::format::part_head::START;
use skylight_image::store::concatenated::{Part, PartsStore};

struct Window {
    all: FaultStore,
    range: Range<u64>,
}

/// Bytes of a medium for an image of so many bytes with boundaries at these.
pub fn len_in_parts(len: u64, boundaries: &[u64]) -> u64 {
    len + START * boundaries.len() as u64
}

/// The bytes of the medium that each part has, its head among them.
pub fn ranges(len_all: u64, boundaries: &[u64]) -> Vec<Range<u64>> {
    let len = len_all - START * boundaries.len() as u64;
    let (mut from, mut at) = (0, 0);
    let part = |(number, end): (usize, &u64)| {
        let start = at;
        at += end - from + if number > 0 { START } else { 0 };
        from = *end;
        start..at
    };
    boundaries.iter().chain([&len]).enumerate().map(part).collect()
}

/// The image's store.
pub fn in_parts(all: &FaultStore, boundaries: &[u64]) -> Box<dyn Store> {
    if boundaries.is_empty() {
        return Box::new(all.clone());
    }
    let part = |(number, range): (usize, Range<u64>)| {
        let from = if number > 0 { START } else { 0 };
        let len = range.end - range.start - from;
        Part { from, len, headed: number > 0, store: Box::new(Window { all: all.clone(), range }) }
    };
    let parts = ranges(all.len_bytes(), boundaries).into_iter().enumerate().map(part);
    Box::new(PartsStore::new(parts.collect()))
}

impl Window {
    fn check(&self, offset: u64, len: u64) -> io::Result<u64> {
        let fits = offset + len <= self.range.end - self.range.start;
        if fits { Ok(self.range.start + offset) } else { Err(io::Error::other("beyond the window")) }
    }
}

impl Store for Window {
    fn name(&self) -> String {
        format!("the part from {}", self.range.start)
    }

    fn len_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.all.read_at(self.check(offset, buffer.len() as u64)?, buffer)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = self.check(offset, data.len() as u64)?;
        self.all.write_at(at, data)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.all.sync_within(self.range.clone())
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let at = self.check(offset, len)?;
        self.all.discard(at, len)
    }

    fn is_write_dear(&self) -> bool {
        self.all.is_write_dear()
    }
}
