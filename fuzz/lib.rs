//! What the fuzz targets share: a client that is a row of bytes, and images to damage.
//!
//! What must hold in every target is that nothing panics, nothing hangs and no memory is taken without bound.

// The small drives that the power-cut tests use.
#[path = "../crates/image/tests/power_cuts/drives.rs"]
pub mod drives;
// Media: memory, and one that fails.
#[path = "../crates/image/tests/media/mod.rs"]
pub mod media;
// A client that is a row of bytes, what it sends, and the drive that it is served.
#[path = "../crates/serve/tests/common/encode.rs"]
pub mod encode;
#[path = "../crates/serve/tests/common/memory.rs"]
mod memory;
#[path = "../crates/serve/tests/common/scripted_client.rs"]
mod scripted_client;

use drives::{DRIVES, SECTORS};
use media::fault::FaultStore;
use media::ram::RamStore;
use memory::Memory;
use scripted_client::replay;
use skylight_image::format::BLOCK;
use skylight_image::format::checkpoint::{ENTRIES, Head};
use skylight_image::format::superblock::{COPY, Superblock};
use skylight_image::{Image, ImageError, Options, Store};
use skylight_serve::core::Shape;

/// Small enough to be made anew for every client.
const DISK_BYTES: u64 = 256 << 10;
/// Bytes of the tag log of an image: it goes round within a few hundred writes.
const LOG_BYTES: u64 = 8192;

/// Says these bytes to a server of a small disk, `part` at a time.
pub fn say(said: &[u8], part: usize) {
    let disk = Memory::shaped(Shape { places: true, ..Shape::drive("disk", DISK_BYTES) });
    replay(said, part, &disk);
}

/// A field of 4 bytes, little-endian.
fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// A block whose checksum is right: of a superblock or the head of a flash, at its end, or, with the salt of an
/// image, of everything else, behind the magic.
pub fn seal(block: &mut [u8; BLOCK], salt: Option<u32>) {
    match salt {
        None => {
            let crc = crc32c::crc32c(&block[..BLOCK - 4]);
            put_u32(block, BLOCK - 4, crc);
        }
        Some(salt) => {
            let crc = crc32c::crc32c_append(salt, &block[8..]);
            put_u32(block, 4, crc);
        }
    }
}

/// An image that was used and then lost its power, of each of the small drives: log, cache and bands are full.
pub fn used(drive: usize) -> RamStore {
    let layer = (DRIVES[drive].layer)();
    let options = Options { log_bytes: Some(LOG_BYTES), ..Options::default() };
    let len = Image::bytes_needed(layer.as_ref(), &options);
    let store = FaultStore::new(RamStore::new(len));
    let made = Image::create_on(Box::new(store.clone()), layer, "", &options);
    let mut image = made.expect("memory fails no more than it has room");
    for step in 0..160u64 {
        let offset = step * 7919 % (SECTORS / 8) * 4096;
        let done = match step % 8 {
            7 => image.trim(offset, 4096),
            3 => image.idle().map(drop),
            _ => image.write(offset, &[step as u8; 4096], step % 16 == 0),
        };
        done.expect("memory does not fail");
    }
    let mut copy = RamStore::new(len);
    let mut bytes = vec![0; 64 << 10];
    for at in (0..len).step_by(bytes.len()) {
        let here = bytes.len().min((len - at) as usize);
        store.read_at(at, &mut bytes[..here]).expect("within");
        copy.write_at(at, &bytes[..here]).expect("within");
    }
    copy
}

/// An image to damage, with its layout.
pub struct Victim {
    store: RamStore,
    layout: Superblock,
}

impl Victim {
    /// A copy of a used image.
    pub fn new(store: RamStore) -> Self {
        let mut block = [0; BLOCK];
        store.read_at(0, &mut block).expect("within");
        let layout = Superblock::decode(&block, |_, _| Ok(())).expect("it was made just now, without a text");
        Self { store, layout }
    }

    fn block(&self, at: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        self.store.read_at(at, &mut block).expect("within");
        block
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.store.write_at(at, bytes).expect("within");
    }

    /// Writes bytes into one of the structures and makes its checksums right again, unless `broken`.
    pub fn damage(&mut self, area: u8, number: u8, offset: usize, bytes: &[u8], broken: bool) {
        let blocks = self.layout.log_blocks();
        let checkpoint = self.layout.checkpoints[usize::from(number) % 2];
        let marks = self.layout.mark_slots().unwrap_or_default();
        let (base, salt) = match area % 5 {
            0 => (0, None),
            4 => (marks[usize::from(number) % 2], Some(self.layout.salt)),
            1 => (checkpoint.start, Some(self.layout.salt)),
            2 => (self.layout.log.start + u64::from(number) % blocks * BLOCK as u64, Some(self.layout.salt)),
            _ => return self.damage_entries(checkpoint.start, checkpoint.len, offset, bytes),
        };
        let mut block = self.block(base);
        let offset = offset % BLOCK;
        let len = bytes.len().min(BLOCK - offset);
        block[offset..offset + len].copy_from_slice(&bytes[..len]);
        if !broken {
            seal(&mut block, salt);
        }
        self.put(base, &block);
        match area % 5 {
            0 if !broken => self.put(COPY, &block),
            1 => {
                // The copy of a head is whole only if the head is.
                self.put(base + BLOCK as u64, &block);
                self.count_entries(checkpoint.start, checkpoint.len);
            }
            _ => {}
        }
    }

    fn damage_entries(&mut self, start: u64, len: u64, offset: usize, bytes: &[u8]) {
        let room = len.saturating_sub(ENTRIES).min(4096);
        let offset = offset as u64 % room.max(1);
        let here = bytes.len().min((room - offset) as usize);
        self.put(start + ENTRIES + offset, &bytes[..here]);
        self.count_entries(start, len);
    }

    /// Makes the checksum of a checkpoint's entries right, as many as its head says.
    fn count_entries(&mut self, start: u64, len: u64) {
        let mut block = self.block(start);
        let Some(head) = Head::decode(&block, self.layout.salt) else {
            return;
        };
        let Some(bytes) = head.entries_bytes().filter(|&bytes| bytes <= len.saturating_sub(ENTRIES)) else {
            return;
        };
        let mut entries = vec![0; bytes as usize];
        self.store.read_at(start + ENTRIES, &mut entries).expect("within");
        put_u32(&mut block, 48, crc32c::crc32c_append(self.layout.salt, &entries));
        seal(&mut block, Some(self.layout.salt));
        self.put(start, &block);
        self.put(start + BLOCK as u64, &block);
    }

    /// Opens it as one of the small drives.
    ///
    /// # Errors
    /// As [`Image::open_on`].
    pub fn open(self, drive: usize) -> Result<Image, ImageError> {
        Image::open_on(Box::new(self.store), (DRIVES[drive].layer)(), &Options::default())
    }
}
