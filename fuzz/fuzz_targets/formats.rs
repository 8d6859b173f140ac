//! Any bytes as a block of each on-media format, with a checksum that is right: superblock, head of a flash, head of a
//! checkpoint, its entries, block of tags, mark, head of a part. What is read is written and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skylight_fuzz::seal;
use skylight_image::format::checkpoint::{
    CACHED, Head, MOVED, FRAGMENT, WRITER, decode_cached, decode_moved, decode_fragment, decode_writer,
};
use skylight_image::format::part_v1::is_head;
use skylight_image::format::log_end::Mark;
use skylight_image::format::part::{HEAD_BYTES, PartHead};
use skylight_image::format::superblock::{NotOne, Superblock};
use skylight_image::format::tag_log::TagBlock;
use skylight_image::format::{BLOCK, VERSION};

const SALT: u32 = 7;

fn superblock(block: &[u8; BLOCK], text: &[u8]) {
    let read = Superblock::decode(block, |_, bytes| {
        let source = text.get(..bytes.len()).ok_or(NotOne::Damaged)?;
        bytes.copy_from_slice(source);
        Ok(())
    });
    if let Ok(read) = read {
        let again = Superblock::decode(&read.encode(), |_, bytes| {
            bytes.copy_from_slice(read.text.as_bytes());
            Ok(())
        });
        assert_eq!(again.as_ref(), Ok(&read));
    }
}

/// Keeps the compiler from leaving out what made it.
fn seen<T>(value: &T) {
    std::hint::black_box(value);
}

fn entries(bytes: &[u8]) {
    bytes.chunks_exact(CACHED).for_each(|entry| seen(&decode_cached(entry)));
    bytes.chunks_exact(MOVED).for_each(|entry| seen(&decode_moved(entry)));
    bytes.chunks_exact(FRAGMENT).for_each(|entry| seen(&decode_fragment(entry)));
    bytes.chunks_exact(WRITER).for_each(|entry| seen(&decode_writer(entry)));
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, bytes)) = data.split_first() else {
        return;
    };
    let mut block = [0; BLOCK];
    let len = bytes.len().min(BLOCK);
    block[..len].copy_from_slice(&bytes[..len]);
    let text = &bytes[len..];
    match which % 7 {
        0 => {
            block[..12].copy_from_slice(&[&b"SKYLIGHT"[..], &VERSION.to_le_bytes()].concat());
            // The checksum of the text, too.
            let said = u64::from_le_bytes([16, 17, 18, 19, 20, 21, 22, 23].map(|at: usize| block[at]));
            if let Some(text) = usize::try_from(said).ok().and_then(|len| text.get(..len)) {
                block[24..28].copy_from_slice(&crc32c::crc32c(text).to_le_bytes());
            }
            seal(&mut block, None);
            superblock(&block, text);
        }
        1 => {
            seal(&mut block, None);
            seen(&is_head(&block, SALT, 4096));
        }
        2 => {
            block[..4].copy_from_slice(b"SKYC");
            seal(&mut block, Some(SALT));
            let head = Head::decode(&block, SALT).expect("its magic and its checksum are right");
            assert_eq!(Head::decode(&head.encode(SALT), SALT), Some(head));
            head.entries_bytes();
        }
        3 => {
            block[..4].copy_from_slice(b"SKYT");
            seal(&mut block, Some(SALT));
            if let Some(tags) = TagBlock::decode(&block, SALT) {
                assert_eq!(TagBlock::decode(&tags.encode(SALT), SALT), Some(tags));
            }
        }
        4 => {
            block[..4].copy_from_slice(b"SKYM");
            seal(&mut block, Some(SALT));
            let mark = Mark::decode(&block, SALT).expect("its magic and its checksum are right");
            assert_eq!(Mark::decode(&mark.encode(SALT), SALT), Some(mark));
        }
        5 => {
            // The version of heads, which is older than that of the formats.
            block[..12].copy_from_slice(&[&b"SKYPART\0"[..], &2u32.to_le_bytes()].concat());
            seal(&mut block, None);
            let mut both = [0; HEAD_BYTES];
            both[BLOCK..].copy_from_slice(&block);
            let head = PartHead::decode(&both).expect("its magic and its checksum are right");
            assert_eq!(PartHead::decode(&head.encode()), Some(head));
        }
        _ => entries(bytes),
    }
});
