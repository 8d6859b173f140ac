//! Signatures of file systems, swap space, encryption and volume managers on the medium itself: somebody's
//! data that is not in use at the moment.
//!
//! Invariants: a sector that holds Skylight's own pattern is never taken for a signature, so a target can be
//! probed twice; what is looked for lies within the first [`HEAD_BYTES`] and the last [`TAIL_BYTES`]. A
//! signature that is not in the tables is not found: the plan that is printed is the last word.
//!
//! Sources: util-linux `libblkid/src/superblocks` (which places count), Linux `include/uapi/linux/magic.h`,
//! `raid/md_p.h`; `cryptsetup` on-disk format (LUKS), ZFS on-disk specification sections 1.2 and 1.3.

use crate::partition_table;

/// Bytes from the start of a target that [`find`] wants to see: the ZFS label is the farthest.
pub const HEAD_BYTES: u32 = 256 << 10;

/// Bytes before the end of a target that [`find`] wants to see: MD's superblock of version 0.90.
pub const TAIL_BYTES: u32 = 128 << 10;

const SECTOR_BYTES: usize = 512;
const OWN_PATTERN: &[u8] = b"SKYLIGHT";
const MD_MAGIC: &[u8] = &0xa92b_4efc_u32.to_le_bytes();
const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;

/// What is where: the byte offset, the bytes there, and its name.
type Signature = (usize, &'static [u8], &'static str);

const EXT: &str = "an ext2, ext3 or ext4 file system";
const XFS: &str = "an XFS file system";
const LVM: &str = "an LVM physical volume";
const MD: &str = "a member of a Linux RAID (md)";
const LUKS: &str = "a LUKS encrypted volume";
const FAT: &str = "a FAT file system";
const OCFS2: &str = "an OCFS2 file system";
const HFS: &str = "an HFS+ file system";
const BCACHE: &[u8] =
    &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];
const BCACHEFS: &[u8] =
    &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef];

const FROM_THE_START: &[Signature] = &[
    (1080, &[0x53, 0xef], EXT),
    (0, b"XFSB", XFS),
    (65_600, b"_BHRfS_M", "a btrfs file system"),
    (1024, &0xf2f5_2010_u32.to_le_bytes(), "an F2FS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (82, b"FAT32   ", FAT),
    (82, b"MSWIN", FAT),
    (54, b"FAT12   ", FAT),
    (54, b"FAT16   ", FAT),
    (54, b"FAT     ", FAT),
    (54, b"MSDOS", FAT),
    (0, b"LUKS\xba\xbe", LUKS),
    (0, b"-FVE-FS-", "a BitLocker encrypted volume"),
    (3, b"-FVE-FS-", "a BitLocker encrypted volume"),
    (0, b"LABELONE", LVM),
    (512, b"LABELONE", LVM),
    (1024, b"LABELONE", LVM),
    (1536, b"LABELONE", LVM),
    (0, MD_MAGIC, MD),
    (4096, MD_MAGIC, MD),
    (32_769, b"CD001", "an ISO 9660 file system"),
    (4120, BCACHE, "a bcache device"),
    (4120, BCACHEFS, "a bcachefs file system"),
    (65_588, b"ReIsEr", "a ReiserFS file system"),
    (8244, b"ReIsEr", "a ReiserFS file system"),
    (32_768, b"JFS1", "a JFS file system"),
    (65_536, &0x0116_1970_u32.to_be_bytes(), "a GFS2 file system"),
    (1024, b"OCFSV2", OCFS2),
    (2048, b"OCFSV2", OCFS2),
    (4096, b"OCFSV2", OCFS2),
    (8192, b"OCFSV2", OCFS2),
    (1024, &0xe0f5_e1e2_u32.to_le_bytes(), "an EROFS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (1024, b"H+\x00\x04", HFS),
    (1024, b"HX\x00\x05", HFS),
    (32, b"NXSB", "an APFS container"),
    (1030, &[0x34, 0x34], "a NILFS2 file system"),
    (0, b"bluestore block device", "a Ceph OSD"),
    (0, b"dmvdo001", "a VDO volume"),
];

/// Where a page ends that says what kind of swap space it begins, for every page size Linux has.
const PAGES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
const SWAPS: [&[u8]; 4] = [b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"LINHIB0001"];

/// The name of what the first bytes (`head`) and the last bytes (`tail`) of a target hold.
pub fn find(head: &[u8], tail: &[u8], size_bytes: u64) -> Option<&'static str> {
    let (head, tail) = (without_own(head), without_own(tail));
    let at_start = |signature: &&Signature| has(&head, signature.0, signature.1);
    FROM_THE_START
        .iter()
        .find(at_start)
        .map(|&(_, _, name)| name)
        .or_else(|| is_swap(&head).then_some("swap space"))
        .or_else(|| is_zfs(&head).then_some("a ZFS pool member"))
        .or_else(|| ends_as_md(&tail, size_bytes).then_some(MD))
        .or_else(|| partition_table::find(&head))
}

fn has(part: &[u8], at: usize, bytes: &[u8]) -> bool {
    part.get(at..at + bytes.len()) == Some(bytes)
}

/// The bytes with the sectors that an earlier probe wrote blanked.
fn without_own(part: &[u8]) -> Vec<u8> {
    let mut part = part.to_vec();
    for sector in part.chunks_mut(SECTOR_BYTES).filter(|sector| sector.starts_with(OWN_PATTERN)) {
        sector.fill(0);
    }
    part
}

fn is_swap(head: &[u8]) -> bool {
    PAGES.iter().any(|page| SWAPS.iter().any(|magic| has(head, page - 10, magic)))
}

/// An uberblock, of either byte order, in the ring of the first label.
fn is_zfs(head: &[u8]) -> bool {
    let ring = head.get(128 << 10..).unwrap_or_default();
    ring.chunks(1024).any(|block| {
        has(block, 0, &UBERBLOCK_MAGIC.to_le_bytes()) || has(block, 0, &UBERBLOCK_MAGIC.to_be_bytes())
    })
}

/// MD's superblock of version 1.0 (8 KiB before the end, on 4 KiB) or 0.90 (the last whole 64 KiB but one).
fn ends_as_md(tail: &[u8], size_bytes: u64) -> bool {
    let version_1_0 = size_bytes.saturating_sub(8192) & !4095;
    let version_0_90 = (size_bytes & !65_535).saturating_sub(65_536);
    let start = size_bytes.saturating_sub(tail.len() as u64);
    [version_1_0, version_0_90].iter().any(|place| {
        let at = place.checked_sub(start).and_then(|at| usize::try_from(at).ok());
        at.is_some_and(|at| has(tail, at, MD_MAGIC))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = (64 << 20) + 5 * 4096;

    fn found(head: &[u8]) -> Option<&'static str> {
        find(head, &[0; TAIL_BYTES as usize], SIZE)
    }

    fn head_with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES as usize];
        head[at..at + bytes.len()].copy_from_slice(bytes);
        head
    }

    #[test]
    fn every_signature_of_the_table_is_found_and_lies_in_the_head() {
        for &(at, bytes, name) in FROM_THE_START {
            assert_eq!(found(&head_with(at, bytes)), Some(name), "{name} at {at}");
        }
        for page in PAGES {
            assert_eq!(found(&head_with(page - 10, b"SWAPSPACE2")), Some("swap space"));
        }
        for magic in [UBERBLOCK_MAGIC.to_le_bytes(), UBERBLOCK_MAGIC.to_be_bytes()] {
            assert_eq!(found(&head_with((128 << 10) + 4096, &magic)), Some("a ZFS pool member"));
        }
        assert_eq!(found(&head_with(512, b"EFI PART")), Some("a GPT partition table"));
    }

    #[test]
    fn a_raid_superblock_at_the_end_is_found() {
        let start = SIZE - u64::from(TAIL_BYTES);
        for place in [(SIZE - 8192) / 4096 * 4096, SIZE / 65_536 * 65_536 - 65_536] {
            let mut tail = vec![0; TAIL_BYTES as usize];
            let at = usize::try_from(place - start).unwrap_or_default();
            tail[at..at + 4].copy_from_slice(MD_MAGIC);
            assert_eq!(find(&[], &tail, SIZE), Some(MD), "at {place}");
        }
    }

    #[test]
    fn blank_short_and_own_sectors_hold_nothing() {
        assert_eq!(found(&[0; HEAD_BYTES as usize]), None);
        assert_eq!(find(&[], &[], 0), None);
        let mut head = head_with(1080, &[0x53, 0xef]);
        head[1024..1032].copy_from_slice(OWN_PATTERN);
        assert_eq!(found(&head), None, "what an earlier probe wrote is no file system");
    }
}
