//! Images that were used, whose power failed, and whose superblock, checkpoints and tag log were then changed at will,
//! with checksums that are right or not. They open, or they are refused; what opens serves on, and has one place for
//! each sector.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use skylight_fuzz::drives::{DRIVES, SECTORS};
use skylight_fuzz::{Victim, used};
use skylight_fuzz::media::ram::RamStore;

thread_local! {
    static USED: RefCell<Vec<RamStore>> = const { RefCell::new(Vec::new()) };
}

fn victim(drive: usize) -> Victim {
    USED.with_borrow_mut(|images| {
        if images.is_empty() {
            images.extend((0..DRIVES.len()).map(used));
        }
        Victim::new(images[drive].clone())
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, mut rest)) = data.split_first() else {
        return;
    };
    let drive = usize::from(first) % DRIVES.len();
    let mut victim = victim(drive);
    // Area, number, offset (2), whether it stays broken and how many bytes, bytes.
    while let [area, number, low, high, len, bytes @ ..] = rest {
        let count = usize::from(len & 127).min(bytes.len());
        let (these, behind) = bytes.split_at(count);
        victim.damage(*area, *number, usize::from(u16::from_le_bytes([*low, *high])), these, len & 128 != 0);
        rest = behind;
    }
    let Ok(mut image) = victim.open(drive) else {
        return;
    };
    let mut buffer = [0; 4096];
    for step in 0..24u64 {
        let offset = (u64::from(first) + step * 7919) % (SECTORS / 8) * 4096;
        let done = match step % 4 {
            0 | 1 => image.write(offset, &[1; 4096], false),
            2 => image.idle().map(drop),
            _ => image.trim(offset, 4096),
        };
        done.and_then(|()| image.read(offset, &mut buffer))
            .unwrap_or_else(|error| panic!("{}: what opened stops: {error}", DRIVES[drive].name));
    }
    image.audit().unwrap_or_else(|wrong| panic!("{}: {wrong}", DRIVES[drive].name));
});
