//! Several stores one behind the other: an image whose flash is on another device than its platters.
//!
//! Each store but the first may begin with a head, which is no part of what the whole holds.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{PartInfo, Reads, Store, Syncs, check_range, check_within, no_head};
use crate::format::part::HEAD_BYTES;

/// Bytes of a store that are in use.
pub struct Part {
    /// The first of them.
    pub from: u64,
    /// How many.
    pub len: u64,
    /// Whether the bytes before these are a head.
    pub headed: bool,
    /// The store.
    pub store: Box<dyn Store>,
}

/// See the module page.
pub struct PartsStore {
    parts: Vec<Part>,
}

impl PartsStore {
    /// The parts, in order.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// Which store has a part by its number among all, and its number there; none for its own first file.
    fn find(&self, mut part: usize) -> Option<(usize, Option<usize>)> {
        for (index, store) in self.parts.iter().enumerate() {
            let count = store.store.parts().len();
            if part < count {
                return Some((index, (part > 0).then_some(part)));
            }
            part -= count;
        }
        None
    }

    fn of(&self, offset: u64, len: u64) -> Vec<(usize, u64, Range<usize>)> {
        touched(self.parts.iter().map(|part| (part.from, part.len)), offset, len)
    }
}

/// The parts that a range touches: which, the offset in its store, and the range of the buffer. Of each part it is
/// told where it begins in its store, and how long it is.
fn touched(
    parts: impl Iterator<Item = (u64, u64)>,
    offset: u64,
    len: u64,
) -> Vec<(usize, u64, Range<usize>)> {
    let mut found = Vec::new();
    let (mut start, end) = (0, offset + len);
    for (index, (first, len)) in parts.enumerate() {
        let (from, to) = (offset.max(start), end.min(start + len));
        if from < to {
            let at = first + (from - start);
            found.push((index, at, (from - offset) as usize..(to - offset) as usize));
        }
        start += len;
    }
    found
}

/// The reading half: the first byte and the length of each part, and what reads it.
struct PartsReads(Vec<(u64, u64, Arc<dyn Reads>)>);

impl PartsReads {
    fn of(&self, offset: u64, len: u64) -> Vec<(usize, u64, Range<usize>)> {
        touched(self.0.iter().map(|(from, len, _)| (*from, *len)), offset, len)
    }
}

impl Reads for PartsReads {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_within(self.0.iter().map(|(_, len, _)| len).sum(), offset, buffer.len() as u64)?;
        let parts = self.of(offset, buffer.len() as u64);
        parts.into_iter().try_for_each(|(part, at, range)| self.0[part].2.read_at(at, &mut buffer[range]))
    }

    fn file_of(&self, offset: u64, len: u64) -> Option<(BorrowedFd<'_>, u64)> {
        match self.of(offset, len).as_slice() {
            [(part, at, range)] if range.len() as u64 == len => self.0[*part].2.file_of(*at, len),
            _ => None,
        }
    }
}

/// What makes each part durable.
struct PartsSyncs(Vec<Arc<dyn Syncs>>);

impl Syncs for PartsSyncs {
    fn sync(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|part| part.sync())
    }
}

impl Store for PartsStore {
    fn name(&self) -> String {
        let names: Vec<String> = self.parts.iter().map(|part| part.store.name()).collect();
        names.join(" and ")
    }

    fn len_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len).sum()
    }

    fn parts(&self) -> Vec<PartInfo> {
        let mut all = Vec::new();
        for part in &self.parts {
            let mut within = part.store.parts();
            let rest: u64 = within.iter().skip(1).map(|part| part.len).sum();
            within.iter_mut().take(1).for_each(|first| {
                (first.len, first.headed) = (part.len.saturating_sub(rest), part.headed);
            });
            all.append(&mut within);
        }
        all
    }

    fn read_head(&self, part: usize, head: &mut [u8; HEAD_BYTES]) -> io::Result<()> {
        match self.find(part) {
            Some((store, Some(within))) => self.parts[store].store.read_head(within, head),
            Some((store, None)) if self.parts[store].headed => self.parts[store].store.read_at(0, head),
            _ => Err(no_head()),
        }
    }

    fn write_head(&mut self, part: usize, head: &[u8; HEAD_BYTES]) -> io::Result<()> {
        match self.find(part) {
            Some((store, Some(within))) => self.parts[store].store.write_head(within, head),
            Some((store, None)) if self.parts[store].headed => self.parts[store].store.write_at(0, head),
            _ => Err(no_head()),
        }
    }

    fn is_write_dear(&self) -> bool {
        self.parts.first().is_some_and(|part| part.store.is_write_dear())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_range(self, offset, buffer.len() as u64)?;
        let parts = self.of(offset, buffer.len() as u64);
        parts
            .into_iter()
            .try_for_each(|(part, at, range)| self.parts[part].store.read_at(at, &mut buffer[range]))
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        let parts = self.parts.iter().map(|part| Some((part.from, part.len, part.store.reader()?)));
        Some(Arc::new(PartsReads(parts.collect::<Option<_>>()?)))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        let parts = self.of(offset, data.len() as u64);
        parts.into_iter().try_for_each(|(part, at, range)| self.parts[part].store.write_at(at, &data[range]))
    }

    fn write_durably(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        let parts = self.of(offset, data.len() as u64);
        parts
            .into_iter()
            .try_for_each(|(part, at, range)| self.parts[part].store.write_durably(at, &data[range]))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.store.sync())
    }

    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        let parts = self.parts.iter().map(|part| part.store.syncer());
        Some(Arc::new(PartsSyncs(parts.collect::<Option<_>>()?)))
    }

    fn begin_sync(&mut self, offset: u64, len: u64) {
        for (part, at, range) in self.of(offset, len) {
            self.parts[part].store.begin_sync(at, (range.end - range.start) as u64);
        }
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        let parts = self.of(offset, len);
        parts.into_iter().try_for_each(|(part, at, range)| {
            self.parts[part].store.discard(at, (range.end - range.start) as u64)
        })
    }

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        let parts = self.of(offset, len);
        parts.into_iter().try_for_each(|(part, at, range)| {
            self.parts[part].store.reserve(at, (range.end - range.start) as u64)
        })
    }

    fn can_discard(&self) -> bool {
        self.parts.iter().all(|part| part.store.can_discard())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.parts.iter().map(|part| part.store.stored_bytes()).sum()
    }

    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        check_range(self, offset, len)?;
        match self.of(offset, len).first() {
            Some((part, at, range)) => self.parts[*part].store.is_data(*at, (range.end - range.start) as u64),
            None => Ok((false, len)),
        }
    }
}
