//! A store made of parts of others: several one behind the other, as where an image's flash is on another device than its
//! platters, or one without a gap that nothing ever lies in, so that an image whose drive has one fits on a smaller device.
//!
//! Each store but the first may begin with a head, which is no part of what the whole holds.
//!
//! Invariant: a gap reads as zeros, and a write to it fails.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{PartInfo, Reads, Store, Syncs, check_range, check_within, no_head};
use crate::format::part_head::HEAD_BYTES;
use crate::format::superblock::Part as Extent;

/// A store of which a part is in use.
pub struct Part {
    /// The first byte that is.
    pub from: u64,
    /// Bytes.
    pub len: u64,
    /// Whether the bytes before these are a head.
    pub headed: bool,
    /// The store.
    pub store: Box<dyn Store>,
}

/// A stretch of the whole; the stretches follow each other.
#[derive(Clone, Copy)]
struct Stretch {
    len: u64,
    /// Which store it lies in, and from which byte of that on; nowhere if it is the gap.
    lies: Option<(usize, u64)>,
}

/// See the module page.
pub struct PartsStore {
    stores: Vec<Box<dyn Store>>,
    /// By store: whether it has a head.
    headed: Vec<bool>,
    stretches: Vec<Stretch>,
}

/// The stretches that a range touches: where each begins in which store, and its part of the buffer.
fn touched(
    stretches: &[Stretch],
    offset: u64,
    len: u64,
) -> impl Iterator<Item = (Option<(usize, u64)>, Range<usize>)> {
    let (mut next, end) = (0, offset + len);
    stretches.iter().filter_map(move |stretch| {
        let start = next;
        next += stretch.len;
        let (from, to) = (offset.max(start), end.min(next));
        let lies = stretch.lies.map(|(store, first)| (store, first + from.saturating_sub(start)));
        (from < to).then(|| (lies, (from - offset) as usize..(to - offset) as usize))
    })
}

/// Reads, with `read` for what lies in a store.
fn read_stretches(
    stretches: &[Stretch],
    offset: u64,
    buffer: &mut [u8],
    read: impl Fn(usize, u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    check_within(len_of(stretches), offset, buffer.len() as u64)?;
    touched(stretches, offset, buffer.len() as u64).try_for_each(|(lies, range)| match lies {
        Some((store, at)) => read(store, at, &mut buffer[range]),
        None => {
            buffer[range].fill(0);
            Ok(())
        }
    })
}

fn len_of(stretches: &[Stretch]) -> u64 {
    stretches.iter().map(|stretch| stretch.len).sum()
}

impl PartsStore {
    /// The parts, in order.
    pub fn new(parts: Vec<Part>) -> Self {
        let stretch =
            |(index, part): (usize, &Part)| Stretch { len: part.len, lies: Some((index, part.from)) };
        let stretches = parts.iter().enumerate().map(stretch).collect();
        let (headed, stores) = parts.into_iter().map(|part| (part.headed, part.store)).unzip();
        Self { stores, headed, stretches }
    }

    /// A store with a gap, of which nothing lies in it: what follows the gap comes right behind what is before.
    pub fn with_gap(store: Box<dyn Store>, gap: Extent) -> Self {
        let len = store.len_bytes();
        let before = len.min(gap.start);
        let mut stretches = vec![Stretch { len: before, lies: Some((0, 0)) }];
        if before == gap.start {
            stretches.push(Stretch { len: gap.len, lies: None });
            stretches.push(Stretch { len: len - before, lies: Some((0, before)) });
        }
        Self { stores: vec![store], headed: vec![false], stretches }
    }

    /// Which store a part by its number among all is in, and its number there; none for the first file of that store.
    fn find(&self, mut part: usize) -> Option<(usize, Option<usize>)> {
        for (index, store) in self.stores.iter().enumerate() {
            let count = store.parts().len();
            if part < count {
                return Some((index, (part > 0).then_some(part)));
            }
            part -= count;
        }
        None
    }

    /// Does something with each stretch of a range that lies in a store.
    fn each(
        &mut self,
        offset: u64,
        len: u64,
        mut act: impl FnMut(&mut dyn Store, u64, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        check_range(self, offset, len)?;
        let Self { stores, stretches, .. } = self;
        touched(stretches, offset, len).try_for_each(|(lies, range)| match lies {
            Some((store, at)) => act(stores[store].as_mut(), at, range),
            None => Ok(()),
        })
    }

    fn check_no_gap(&self, offset: u64, len: u64) -> io::Result<()> {
        match touched(&self.stretches, offset, len).all(|(lies, _)| lies.is_some()) {
            true => Ok(()),
            false => Err(io::Error::other("nothing of the drive lies there")),
        }
    }
}

/// The reading half.
struct PartsReads {
    stores: Vec<Arc<dyn Reads>>,
    stretches: Vec<Stretch>,
}

impl Reads for PartsReads {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_stretches(&self.stretches, offset, buffer, |store, at, part| {
            self.stores[store].read_at(at, part)
        })
    }

    fn file_of(&self, offset: u64, len: u64) -> Option<(BorrowedFd<'_>, u64)> {
        match touched(&self.stretches, offset, len).next()? {
            (Some((store, at)), range) if range.len() as u64 == len => self.stores[store].file_of(at, len),
            _ => None,
        }
    }
}

/// What makes each store durable.
struct PartsSyncs(Vec<Arc<dyn Syncs>>);

impl Syncs for PartsSyncs {
    fn sync(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|store| store.sync())
    }
}

impl Store for PartsStore {
    fn name(&self) -> String {
        let names: Vec<String> = self.stores.iter().map(|store| store.name()).collect();
        names.join(" and ")
    }

    fn len_bytes(&self) -> u64 {
        len_of(&self.stretches)
    }

    fn parts(&self) -> Vec<PartInfo> {
        let mut all = Vec::new();
        for (index, store) in self.stores.iter().enumerate() {
            let mut within = store.parts();
            // What lies behind its gap lies in it too.
            let of_store = |stretch: &&Stretch| stretch.lies.is_none_or(|(store, _)| store == index);
            let held: u64 = self.stretches.iter().filter(of_store).map(|stretch| stretch.len).sum();
            let rest: u64 = within.iter().skip(1).map(|part| part.len).sum();
            if let Some(first) = within.first_mut() {
                (first.len, first.headed) = (held.saturating_sub(rest), self.headed[index]);
            }
            all.append(&mut within);
        }
        all
    }

    fn read_head(&self, part: usize, head: &mut [u8; HEAD_BYTES]) -> io::Result<()> {
        match self.find(part) {
            Some((store, Some(within))) => self.stores[store].read_head(within, head),
            Some((store, None)) if self.headed[store] => self.stores[store].read_at(0, head),
            _ => Err(no_head()),
        }
    }

    fn write_head(&mut self, part: usize, head: &[u8; HEAD_BYTES]) -> io::Result<()> {
        match self.find(part) {
            Some((store, Some(within))) => self.stores[store].write_head(within, head),
            Some((store, None)) if self.headed[store] => self.stores[store].write_at(0, head),
            _ => Err(no_head()),
        }
    }

    fn is_write_dear(&self) -> bool {
        self.stores.first().is_some_and(|store| store.is_write_dear())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_stretches(&self.stretches, offset, buffer, |store, at, part| {
            self.stores[store].read_at(at, part)
        })
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        let stores: Option<_> = self.stores.iter().map(|store| store.reader()).collect();
        Some(Arc::new(PartsReads { stores: stores?, stretches: self.stretches.clone() }))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_no_gap(offset, data.len() as u64)?;
        self.each(offset, data.len() as u64, |store, at, range| store.write_at(at, &data[range]))
    }

    fn write_durably(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_no_gap(offset, data.len() as u64)?;
        self.each(offset, data.len() as u64, |store, at, range| store.write_durably(at, &data[range]))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.stores.iter_mut().try_for_each(|store| store.sync())
    }

    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        let stores: Option<_> = self.stores.iter().map(|store| store.syncer()).collect();
        Some(Arc::new(PartsSyncs(stores?)))
    }

    fn begin_sync(&mut self, offset: u64, len: u64) {
        // Advice: beyond the end there is nothing to begin.
        let _ = self.each(offset, len, |store, at, range| {
            store.begin_sync(at, range.len() as u64);
            Ok(())
        });
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.each(offset, len, |store, at, range| store.discard(at, range.len() as u64))
    }

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.each(offset, len, |store, at, range| store.reserve(at, range.len() as u64))
    }

    fn can_discard(&self) -> bool {
        self.stores.iter().all(|store| store.can_discard())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.stores.iter().map(|store| store.stored_bytes()).sum()
    }

    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        check_range(self, offset, len)?;
        match touched(&self.stretches, offset, len).next() {
            Some((Some((store, at)), range)) => self.stores[store].is_data(at, range.len() as u64),
            Some((None, range)) => Ok((false, range.len() as u64)),
            None => Ok((false, len)),
        }
    }
}
