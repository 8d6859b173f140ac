//! Memory as a store: pages that are taken when they are first written and shared between copies.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use skylight_image::store::{Store, check_range};

const PAGE: usize = 16 << 10;

/// See the module page. A clone is a store of its own that shares the pages until one of the two writes.
#[derive(Clone)]
pub struct RamStore {
    len: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl RamStore {
    /// Zeros.
    pub fn new(len_bytes: u64) -> Self {
        Self { len: len_bytes, pages: BTreeMap::new() }
    }

    /// Whether all of a range has its memory.
    ///
    /// # Errors
    /// When it lies beyond the end.
    pub fn is_whole(&self, offset: u64, len: u64) -> io::Result<bool> {
        check_range(self, offset, len)?;
        Ok(pages_of(offset, len).all(|(page, ..)| self.pages.contains_key(&page)))
    }

    /// Memory taken by pages.
    pub fn bytes(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }
}

/// The pages that a range touches: number, offset in the page, bytes there, offset in the range.
fn pages_of(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let (page, end) = (PAGE as u64, offset + len);
    let mut at = offset;
    std::iter::from_fn(move || {
        let here = (end - at).min(page - at % page);
        let found = (at / page, (at % page) as usize, here as usize, (at - offset) as usize);
        at += here;
        (here > 0).then_some(found)
    })
}

impl Store for RamStore {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_range(self, offset, buffer.len() as u64)?;
        for (page, from, len, at) in pages_of(offset, buffer.len() as u64) {
            let into = &mut buffer[at..at + len];
            match self.pages.get(&page) {
                Some(page) => into.copy_from_slice(&page[from..from + len]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        for (page, from, len, at) in pages_of(offset, data.len() as u64) {
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[from..from + len].copy_from_slice(&data[at..at + len]);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        let (first, end) = (offset / PAGE as u64, (offset + len).div_ceil(PAGE as u64));
        let touched: Vec<u64> = self.pages.range(first..end).map(|(&page, _)| page).collect();
        for number in touched {
            let start = number * PAGE as u64;
            let (from, to) = (offset.max(start) - start, (offset + len).min(start + PAGE as u64) - start);
            if from == 0 && to == PAGE as u64 {
                self.pages.remove(&number);
            } else if let Some(page) = self.pages.get_mut(&number) {
                Arc::make_mut(page)[from as usize..to as usize].fill(0);
            }
        }
        Ok(())
    }

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        for (page, ..) in pages_of(offset, len) {
            self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
        }
        Ok(())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes())
    }

    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        check_range(self, offset, len)?;
        let page = offset / PAGE as u64;
        let start = |page: u64| (page * PAGE as u64).saturating_sub(offset).min(len);
        if !self.pages.contains_key(&page) {
            let next = self.pages.range(page..).next().map_or(len, |(&next, _)| start(next));
            return Ok((false, next));
        }
        Ok((true, start(page + 1)))
    }
}
