//! What each sector may read as.
//!
//! A sector holds the number of the write that wrote it, over and over, with its own address: one that is torn
//! shows two. Number 0 is zeros.

const SECTOR: usize = 512;

/// What the host asks.
#[derive(Clone, Debug)]
pub enum Op {
    /// Start, or start again: what is found is what there is.
    Open,
    /// Writes that wait together, each of sectors from..to with its number; and whether they are FUA.
    Write(Vec<(u64, u64, u64)>, bool),
    Flush,
    /// A flush beside other commands: it begins, the medium is synced, and it ends.
    BeginFlush,
    Sync,
    EndFlush,
    Trim(u64, u64),
    Zero(u64, u64, bool),
    Idle,
    Close,
}

#[derive(Clone, Debug)]
struct Sector {
    /// What may be found after a cut now.
    allowed: Vec<u64>,
    /// What is read now; none if it was trimmed and anything is right.
    newest: Option<u64>,
    /// All that was ever allowed.
    ever: Vec<u64>,
    /// How many of those allowed are not any more when the flush that is under way ends.
    superseded: usize,
}

/// See the module page.
#[derive(Clone, Debug)]
pub struct Oracle {
    sectors: Vec<Sector>,
    write_cache: bool,
}

impl Oracle {
    pub fn new(sectors: u64, write_cache: bool) -> Self {
        let sector = Sector { allowed: vec![0], newest: Some(0), ever: vec![0], superseded: 0 };
        Self { sectors: vec![sector; sectors as usize], write_cache }
    }

    fn put(&mut self, from: u64, to: u64, number: u64) {
        for sector in &mut self.sectors[from as usize..to as usize] {
            sector.allowed.push(number);
            sector.ever.push(number);
            sector.newest = Some(number);
        }
    }

    fn durable(&mut self, from: u64, to: u64) {
        for sector in &mut self.sectors[from as usize..to as usize] {
            if let Some(newest) = sector.newest {
                sector.allowed.clear();
                sector.allowed.push(newest);
                sector.superseded = 0;
            }
        }
    }

    /// A flush begins: at its end nothing older is allowed than what is newest now.
    fn begin_flush(&mut self) {
        for sector in &mut self.sectors {
            sector.superseded = sector.newest.map_or(0, |_| sector.allowed.len() - 1);
        }
    }

    fn end_flush(&mut self) {
        for sector in &mut self.sectors {
            sector.allowed.drain(..std::mem::take(&mut sector.superseded));
        }
    }

    /// The drive was asked.
    pub fn begin(&mut self, op: &Op) {
        match op {
            Op::Write(writes, _) => writes.iter().for_each(|&(from, to, number)| self.put(from, to, number)),
            Op::Zero(from, to, _) => self.put(*from, *to, 0),
            Op::Trim(from, to) => {
                for sector in &mut self.sectors[*from as usize..*to as usize] {
                    sector.allowed.clone_from(&sector.ever);
                    sector.newest = None;
                    sector.superseded = 0;
                }
            }
            Op::BeginFlush => self.begin_flush(),
            Op::Open | Op::Flush | Op::Sync | Op::EndFlush | Op::Idle | Op::Close => {}
        }
    }

    /// The drive has answered.
    pub fn end(&mut self, op: &Op) {
        let all = self.sectors.len() as u64;
        match op {
            Op::Write(writes, fua) if *fua || !self.write_cache => {
                writes.iter().for_each(|&(from, to, _)| self.durable(from, to));
            }
            Op::Zero(from, to, fua) if *fua || !self.write_cache => self.durable(*from, *to),
            Op::Flush | Op::Close => self.durable(0, all),
            Op::EndFlush => self.end_flush(),
            _ => {}
        }
    }

    /// A start has found this: it stays.
    pub fn found(&mut self, bytes: &[u8]) {
        for (sector, bytes) in self.sectors.iter_mut().zip(bytes.chunks_exact(SECTOR)) {
            let number = number_of(bytes).unwrap_or_default();
            sector.allowed = vec![number];
            sector.newest = Some(number);
            sector.superseded = 0;
        }
    }

    /// Whether a drive that was started again may have these bytes.
    pub fn check_cut(&self, bytes: &[u8]) -> Result<(), String> {
        self.check(bytes, |sector, number| sector.allowed.contains(&number))
    }

    /// Whether a drive that goes on may have these bytes.
    pub fn check_now(&self, bytes: &[u8]) -> Result<(), String> {
        self.check(bytes, |sector, number| sector.newest.is_none_or(|newest| newest == number))
    }

    fn check(&self, bytes: &[u8], right: impl Fn(&Sector, u64) -> bool) -> Result<(), String> {
        for (at, (sector, bytes)) in self.sectors.iter().zip(bytes.chunks_exact(SECTOR)).enumerate() {
            let number =
                number_of(bytes).ok_or_else(|| format!("sector {at} is torn: {:?}", &bytes[..16]))?;
            if number != 0 && address_of(bytes) != at as u64 {
                return Err(format!("sector {at} holds write {number} of sector {}", address_of(bytes)));
            }
            if !right(sector, number) {
                let Sector { allowed, newest, .. } = sector;
                return Err(format!(
                    "sector {at} holds write {number}; newest {newest:?}, allowed after a cut {allowed:?}"
                ));
            }
        }
        Ok(())
    }
}

/// The bytes of a write.
pub fn bytes_of(from: u64, to: u64, number: u64) -> Vec<u8> {
    (from..to).flat_map(|at| if number == 0 { [0; SECTOR] } else { sector(at, number) }).collect()
}

fn sector(at: u64, number: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for pair in bytes.chunks_exact_mut(16) {
        pair[..8].copy_from_slice(&number.to_le_bytes());
        pair[8..].copy_from_slice(&at.to_le_bytes());
    }
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn address_of(bytes: &[u8]) -> u64 {
    word(bytes, 8)
}

/// The number of the write in a sector; none if it is torn.
fn number_of(bytes: &[u8]) -> Option<u64> {
    bytes.chunks_exact(16).all(|pair| pair == &bytes[..16]).then(|| word(bytes, 0))
}
