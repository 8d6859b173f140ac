//! What each sector may hold, when writes may fail: a sector of a failed write holds the old bytes or the new ones, and
//! stays at what a read has found.

const SECTOR: usize = 512;

/// A sector's possible contents, by the numbers of writes; 0 is zeros.
#[derive(Clone, Debug)]
struct Sector {
    /// What a read may find.
    now: Vec<u64>,
    /// What a power cut may leave.
    cut: Vec<u64>,
    /// All that it ever held.
    ever: Vec<u64>,
}

/// See the module page.
pub struct Model {
    sectors: Vec<Sector>,
}

impl Model {
    pub fn new(sectors: u64) -> Self {
        let sector = Sector { now: vec![0], cut: vec![0], ever: vec![0] };
        Self { sectors: vec![sector; sectors as usize] }
    }

    /// Sectors were written, or a write of them failed.
    pub fn wrote(&mut self, from: u64, to: u64, number: u64, done: bool) {
        for sector in &mut self.sectors[from as usize..to as usize] {
            if done {
                sector.now.clear();
            }
            sector.now.push(number);
            sector.cut.push(number);
            sector.ever.push(number);
        }
    }

    /// Sectors were trimmed, or that failed: they hold anything that they ever held.
    pub fn trimmed(&mut self, from: u64, to: u64) {
        for sector in &mut self.sectors[from as usize..to as usize] {
            sector.now.clone_from(&sector.ever);
            sector.now.push(0);
            sector.cut.clone_from(&sector.now);
        }
    }

    /// All that was answered is durable.
    pub fn flushed(&mut self) {
        self.sectors.iter_mut().for_each(|sector| sector.cut.clone_from(&sector.now));
    }

    /// A read has found these bytes.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.compare(bytes, |sector| &sector.now)?;
        for (sector, bytes) in self.sectors.iter_mut().zip(bytes.chunks_exact(SECTOR)) {
            sector.now = vec![word(bytes, 0)];
        }
        Ok(())
    }

    /// A start has found these bytes: they stay.
    pub fn found(&mut self, bytes: &[u8]) {
        for (sector, bytes) in self.sectors.iter_mut().zip(bytes.chunks_exact(SECTOR)) {
            let number = word(bytes, 0);
            (sector.now, sector.cut) = (vec![number], vec![number]);
        }
    }

    /// A start after a power cut has found these bytes.
    pub fn left(&self, bytes: &[u8]) -> Result<(), String> {
        self.compare(bytes, |sector| &sector.cut)
    }

    fn compare(&self, bytes: &[u8], allowed: impl Fn(&Sector) -> &Vec<u64>) -> Result<(), String> {
        for (at, (sector, bytes)) in self.sectors.iter().zip(bytes.chunks_exact(SECTOR)).enumerate() {
            let (number, address) = (word(bytes, 0), word(bytes, 8));
            let whole = bytes.chunks_exact(16).all(|pair| pair == &bytes[..16]);
            if !whole || number != 0 && address != at as u64 || !allowed(sector).contains(&number) {
                return Err(format!(
                    "sector {at} holds write {number} of sector {address}, whole: {whole}; {:?} would be right",
                    allowed(sector)
                ));
            }
        }
        Ok(())
    }
}

/// The bytes of a write.
pub fn bytes_of(from: u64, to: u64, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((to - from) as usize * SECTOR);
    for at in from..to {
        for _ in 0..SECTOR / 16 {
            bytes.extend(number.to_le_bytes());
            bytes.extend(at.to_le_bytes());
        }
    }
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
