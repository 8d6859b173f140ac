//! The superblock: what the image is, for which drive, and where its parts lie.
//!
//! Invariants: it is written once, when the image is made, at 0 and at [`COPY`]; parts do not overlap and lie
//! within the image; the profile's text follows each copy.

use skylight_disk::{PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::MediaUse;

use super::creation_mark::Begun;
use super::log_end::{SLOT_BYTES, SLOTS};
use super::{BLOCK, VERSION, checksum, put_u32, put_u64, u32_at, u64_at};

/// Where the copy lies.
pub const COPY: u64 = 1 << 20;
/// Where the profile's text lies behind a superblock.
pub const TEXT: u64 = 4096;
/// The longest text of a profile.
pub const TEXT_MAX: u64 = COPY - TEXT;
/// The end of the superblocks.
const END: u64 = 2 * COPY;
/// Parts begin at a multiple of it.
const ALIGNMENT: u64 = 4096;

const MAGIC: [u8; 8] = *b"SKYLIGHT";
const FLASH_APART: usize = 120;
const GAP: usize = 128;
const MARKS: usize = 144;
const SUMS: usize = 160;
const IDENTITY: usize = 176;
const FIRST_FILE: usize = 192;
const CRC_AT: usize = BLOCK - 4;
/// The salt of superblocks themselves: they say what the salt of everything else is.
const UNSALTED: u32 = 0;

/// A run of bytes of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

impl Part {
    /// The first byte behind it.
    pub fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// See the module page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The version of the formats of this image.
    pub version: u32,
    /// The number of this image, drawn when it was made.
    pub salt: u32,
    /// Bytes that the host sees.
    pub capacity: u64,
    /// The tag log, a ring of blocks.
    pub log: Part,
    /// Where checkpoints go, by turns.
    pub checkpoints: [Part; 2],
    /// The drive's platters, by PBA.
    pub platter: Part,
    /// The drive's flash, by PBA: the last part.
    pub flash: Part,
    /// Whether the flash lies on another file or device, behind a head of its own.
    pub flash_apart: bool,
    /// Bytes of the platters that nothing ever lies in, and that are not there: what follows comes before.
    pub gap: Part,
    /// Marks of the log's end; 0 long in images of version 1, which have none.
    pub marks: Part,
    /// The number of this image in the heads of its parts, drawn when it was made; 0 in images of version 1.
    pub identity: u128,
    /// Bytes of the first file where the image goes on in others; 0 where it does not, and in images of version 1.
    pub first_file_bytes: u64,
    /// Checksums of what lies on platters and flash; nothing long if there are none.
    pub sums: Part,
    /// The profile, as TOML.
    pub text: String,
}

/// Why bytes are no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOne {
    /// They are something else.
    Foreign,
    /// They are one of a later version.
    Newer(u32),
    /// They were one.
    Damaged,
    /// One was to come here, and what made it was interrupted.
    HalfMade,
}

/// The fewest and the most bytes of a tag log; in between a share of the cache.
const LOG_BYTES: [u64; 2] = [64 << 10, 64 << 20];
const LOG_SHARE: u64 = 256;

impl Superblock {
    /// The layout of an image for a drive that needs this room.
    pub fn new(salt: u32, capacity: u64, room: &MediaUse, text: &str) -> Self {
        let [least, most] = LOG_BYTES;
        // A drive whose sectors can be overwritten, and one with zones, has a tag for each write, wherever it goes.
        let zoned = Sectors(if room.zones > 0 { capacity / SECTOR_BYTES } else { 0 });
        let tagged = room.cached + room.overwritable + zoned;
        let log = (tagged.bytes() / LOG_SHARE).clamp(least, most);
        Self::with_log(salt, capacity, room, text, log)
    }

    /// The same with a log of so many bytes.
    pub fn with_log(salt: u32, capacity: u64, room: &MediaUse, text: &str, log_bytes: u64) -> Self {
        let mut at = END;
        let mut part = |len: u64| {
            let part = Part { start: at, len: len.next_multiple_of(ALIGNMENT) };
            at = part.end();
            part
        };
        let checkpoint = super::checkpoint::most_bytes(room);
        Self {
            version: VERSION,
            salt,
            capacity,
            marks: part(SLOTS * SLOT_BYTES),
            log: part(log_bytes),
            checkpoints: [part(checkpoint), part(checkpoint)],
            platter: part(room.platter.bytes()),
            flash: part(room.flash.bytes()),
            flash_apart: false,
            gap: Part::default(),
            identity: 0,
            first_file_bytes: 0,
            sums: Part::default(),
            text: text.to_owned(),
        }
    }

    /// Makes room for checksums, before the platters: with a flash apart they lie in the main file too.
    pub fn add_sums(&mut self) {
        let len = super::sums::part_bytes(self.media().len).next_multiple_of(ALIGNMENT);
        self.sums = Part { start: self.platter.start, len };
        self.platter.start += len;
        self.flash.start += len;
    }

    /// Platters and flash, which follow each other.
    pub fn media(&self) -> Part {
        Part { start: self.platter.start, len: self.flash.end().saturating_sub(self.platter.start) }
    }

    /// Bytes of the whole image.
    pub fn len_bytes(&self) -> u64 {
        self.flash.end()
    }

    /// Where the slots of the marks lie; nowhere if there are none.
    pub fn mark_slots(&self) -> Option<[u64; 2]> {
        (self.marks.len > 0).then(|| [self.marks.start, self.marks.start + self.marks.len / SLOTS])
    }

    /// Leaves out what nothing ever lies in.
    pub fn leave_out(&mut self, gap: PbaExtent) {
        let start = (self.platter.start + gap.start.get() * SECTOR_BYTES).next_multiple_of(ALIGNMENT);
        let end = (self.platter.start + gap.end().get() * SECTOR_BYTES) / ALIGNMENT * ALIGNMENT;
        self.gap = if start < end { Part { start, len: end - start } } else { Part::default() };
    }

    /// Blocks of the log.
    pub fn log_blocks(&self) -> u64 {
        self.log.len / BLOCK as u64
    }

    /// The block.
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&MAGIC);
        put_u32(&mut block, 8, self.version);
        put_u32(&mut block, 12, self.salt);
        put_u64(&mut block, 16, self.text.len() as u64);
        put_u32(&mut block, 24, checksum(UNSALTED, self.text.as_bytes()));
        put_u64(&mut block, 32, self.capacity);
        let [first, second] = self.checkpoints;
        for (index, part) in [self.log, first, second, self.platter, self.flash].into_iter().enumerate() {
            put_u64(&mut block, 40 + 16 * index, part.start);
            put_u64(&mut block, 48 + 16 * index, part.len);
        }
        put_u32(&mut block, FLASH_APART, self.flash_apart.into());
        put_u64(&mut block, GAP, self.gap.start);
        put_u64(&mut block, GAP + 8, self.gap.len);
        put_u64(&mut block, MARKS, self.marks.start);
        put_u64(&mut block, MARKS + 8, self.marks.len);
        block[IDENTITY..IDENTITY + 16].copy_from_slice(&self.identity.to_le_bytes());
        put_u64(&mut block, FIRST_FILE, self.first_file_bytes);
        put_u64(&mut block, SUMS, self.sums.start);
        put_u64(&mut block, SUMS + 8, self.sums.len);
        let crc = checksum(UNSALTED, &block[..CRC_AT]);
        put_u32(&mut block, CRC_AT, crc);
        block
    }

    /// Reads a block and, with `text`, what lies behind it.
    ///
    /// # Errors
    /// What the bytes are instead.
    pub fn decode(
        block: &[u8; BLOCK],
        text: impl FnOnce(u64, &mut [u8]) -> Result<(), NotOne>,
    ) -> Result<Self, NotOne> {
        if block[..8] != MAGIC {
            return Err(Begun::decode(block).map_or(NotOne::Foreign, |_| NotOne::HalfMade));
        }
        // A later version may have moved everything but these.
        match u32_at(block, 8) {
            0 => return Err(NotOne::Damaged),
            version if version > VERSION => return Err(NotOne::Newer(version)),
            _ => {}
        }
        let text_len = u64_at(block, 16);
        if checksum(UNSALTED, &block[..CRC_AT]) != u32_at(block, CRC_AT) || text_len > TEXT_MAX {
            return Err(NotOne::Damaged);
        }
        let mut bytes = vec![0; text_len as usize];
        text(TEXT, &mut bytes)?;
        if checksum(UNSALTED, &bytes) != u32_at(block, 24) {
            return Err(NotOne::Damaged);
        }
        let part_at = |at: usize| Part { start: u64_at(block, at), len: u64_at(block, at + 8) };
        let part = |index: usize| part_at(40 + 16 * index);
        let mut identity = [0; 16];
        identity.copy_from_slice(&block[IDENTITY..IDENTITY + 16]);
        let read = Self {
            version: u32_at(block, 8),
            salt: u32_at(block, 12),
            capacity: u64_at(block, 32),
            log: part(0),
            checkpoints: [part(1), part(2)],
            platter: part(3),
            flash: part(4),
            flash_apart: u32_at(block, FLASH_APART) != 0,
            gap: part_at(GAP),
            marks: part_at(MARKS),
            identity: u128::from_le_bytes(identity),
            first_file_bytes: u64_at(block, FIRST_FILE),
            sums: part_at(SUMS),
            text: String::from_utf8(bytes).map_err(|_| NotOne::Damaged)?,
        };
        if read.adds_up() { Ok(read) } else { Err(NotOne::Damaged) }
    }

    /// Whether parts follow each other.
    fn adds_up(&self) -> bool {
        let [first, second] = self.checkpoints;
        // Without checksums their part is nowhere.
        let sums = if self.sums.len == 0 { Part { start: second.end(), len: 0 } } else { self.sums };
        let parts = [self.log, first, second, sums, self.platter, self.flash];
        let mut at = END;
        if self.marks.len > 0 {
            let halves = self.marks.len.is_multiple_of(SLOTS * BLOCK as u64) && self.marks.len < 1 << 60;
            if self.marks.start < at || self.marks.start >= 1 << 60 || !halves {
                return false;
            }
            at = self.marks.end();
        }
        let placed = parts.iter().all(|part| {
            let fits = part.start >= at && part.len % BLOCK as u64 == 0 && part.len < 1 << 60;
            at = part.end();
            fits && part.start < 1 << 60
        });
        let gap = self.gap;
        let left_out = gap.len == 0 || self.platter.start <= gap.start && gap.end() <= self.platter.end();
        let summed = self.sums.len == 0 || self.sums.len >= super::sums::part_bytes(self.media().len);
        placed && left_out && summed && gap.len.is_multiple_of(BLOCK as u64) && self.log_blocks() > 1
    }
}
