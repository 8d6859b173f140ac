//! What a host may expect of an ordinary block device: of each sector its last write; after a cut, that or an earlier one back to
//! the last that was durable; after a trim, anything that it ever held, or zeros.

use skylight_disk::LbaExtent;

/// Bits of a stamp that are the sector; the others are the number of the write.
const SECTOR_BITS: u32 = 24;

/// What the write with a number leaves in a sector.
pub fn stamp(number: u64, lba: u64) -> u64 {
    number << SECTOR_BITS | lba
}

/// A sector.
#[derive(Clone, Copy, Default)]
struct Expected {
    /// The number of its last write; 0 for none.
    last: u64,
    /// The lowest number that it may have after a cut; 0 for zeros too.
    durable: u64,
    /// The highest that it ever had, also if a cut took that write away.
    highest: u64,
    /// It was trimmed since it was written.
    trimmed: bool,
    /// It was trimmed since it was durable.
    was_trimmed: bool,
    /// Its last write failed, and may have been done.
    in_doubt: bool,
}

/// See the module page.
pub struct Shadow {
    sectors: Vec<Expected>,
    /// Those that changed since the last flush.
    changed: Vec<u64>,
    writes: u64,
}

impl Shadow {
    pub fn new(capacity: u64) -> Self {
        Self { sectors: vec![Expected::default(); capacity as usize], changed: Vec::new(), writes: 0 }
    }

    /// The number of the next write.
    pub fn number(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    fn each(extent: LbaExtent) -> std::ops::Range<u64> {
        extent.start.get()..extent.end().get()
    }

    pub fn write(&mut self, extent: LbaExtent, number: u64, fua: bool) {
        for lba in Self::each(extent) {
            let sector = &mut self.sectors[lba as usize];
            (sector.last, sector.highest, sector.trimmed) = (number, number, false);
            sector.in_doubt = false;
            if fua {
                (sector.durable, sector.was_trimmed) = (number, false);
            }
            self.changed.push(lba);
        }
    }

    /// A write was begun, and nobody knows how far it came.
    pub fn begin(&mut self, extent: LbaExtent, number: u64) {
        for lba in Self::each(extent) {
            let sector = &mut self.sectors[lba as usize];
            (sector.last, sector.highest, sector.in_doubt) = (number, number, true);
        }
    }

    pub fn trim(&mut self, extent: LbaExtent) {
        for lba in Self::each(extent) {
            let sector = &mut self.sectors[lba as usize];
            (sector.durable, sector.trimmed, sector.was_trimmed) = (0, true, true);
        }
    }

    pub fn flush(&mut self) {
        for lba in self.changed.drain(..) {
            let sector = &mut self.sectors[lba as usize];
            if !sector.trimmed && !sector.in_doubt {
                (sector.durable, sector.was_trimmed) = (sector.last, false);
            }
        }
    }

    /// Compares what a read returned.
    pub fn check(&self, lba: u64, read: u64) -> Result<(), String> {
        let Expected { last, highest, trimmed, in_doubt, durable, .. } = self.sectors[lba as usize];
        let expected = if last == 0 { 0 } else { stamp(last, lba) };
        let (number, at) = (read >> SECTOR_BITS, read & ((1 << SECTOR_BITS) - 1));
        let ever = read == 0 || (at == lba && number <= highest);
        let either = in_doubt && ever && (read != 0 || durable == 0) && number >= durable;
        match read == expected || (trimmed && ever) || either {
            true => Ok(()),
            false => Err(format!("sector {lba} is {read:x}, and has to be {expected:x}")),
        }
    }

    /// Compares what a sector is after a cut, and takes it for the truth from now on.
    pub fn check_cut(&mut self, lba: u64, read: u64) -> Result<(), String> {
        let sector = &mut self.sectors[lba as usize];
        let (number, at) = (read >> SECTOR_BITS, read & ((1 << SECTOR_BITS) - 1));
        // A trim may bring back what a cut took away.
        let most = if sector.was_trimmed { sector.highest } else { sector.last };
        let right = match read {
            0 => sector.durable == 0,
            _ => at == lba && (sector.durable..=most).contains(&number),
        };
        if !right {
            let Expected { last, durable, .. } = *sector;
            return Err(format!(
                "after a cut sector {lba} is {read:x}, and has to be of write {durable} to {last}"
            ));
        }
        let highest = sector.highest;
        *sector = Expected { last: number, durable: number, highest, ..Expected::default() };
        Ok(())
    }
}
