//! Partition tables on the medium itself.
//!
//! The kernel shows partitions only if it was built for the table's format and has scanned the
//! device; a loop device without partition scan shows none. So the first blocks are looked at too.
//!
//! Source: UEFI specification 2.10, sections 5.2 (legacy MBR) and 5.3 (GPT).

const MBR_ENTRIES_AT: usize = 446;
const MBR_ENTRY_BYTES: usize = 16;
const MBR_ENTRIES: usize = 4;
const MBR_SIGNATURE_AT: usize = 510;
const GPT_SIGNATURE: &[u8] = b"EFI PART";

/// The name of the partition table that `head`, the first bytes of a target, holds: an MBR, or a GPT header
/// at block 1 of a drive with 512-byte or 4096-byte blocks.
pub fn find(head: &[u8]) -> Option<&'static str> {
    let gpt_at = |at: usize| head.get(at..at + GPT_SIGNATURE.len()) == Some(GPT_SIGNATURE);
    if gpt_at(512) || gpt_at(4096) {
        return Some("a GPT partition table");
    }
    is_mbr(head).then_some("an MBR partition table")
}

/// A boot signature alone is not a table (FAT has one as well): every entry must have a valid boot
/// flag, and one of them must name a type, a start and a length.
fn is_mbr(head: &[u8]) -> bool {
    let signature = head.get(MBR_SIGNATURE_AT..MBR_SIGNATURE_AT + 2);
    let entries = head.get(MBR_ENTRIES_AT..MBR_ENTRIES_AT + MBR_ENTRIES * MBR_ENTRY_BYTES);
    let (Some(&[0x55, 0xaa]), Some(entries)) = (signature, entries) else {
        return false;
    };
    let valid = |entry: &[u8]| entry[0] & 0x7f == 0;
    let used = |entry: &[u8]| {
        let nonzero = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0);
        entry[4] != 0 && nonzero(&entry[8..12]) && nonzero(&entry[12..16])
    };
    let mut each = entries.chunks_exact(MBR_ENTRY_BYTES);
    each.clone().all(valid) && each.any(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_BYTES: usize = 8192;

    fn mbr(flag: u8, kind: u8) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES];
        head[446] = flag;
        head[450] = kind;
        head[454..458].copy_from_slice(&2048_u32.to_le_bytes());
        head[458..462].copy_from_slice(&4096_u32.to_le_bytes());
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        head
    }

    #[test]
    fn tables_are_found() {
        assert_eq!(find(&mbr(0x80, 0x83)), Some("an MBR partition table"));
        for block in [512, 4096] {
            let mut head = mbr(0, 0xee);
            head[block..block + 8].copy_from_slice(GPT_SIGNATURE);
            assert_eq!(find(&head), Some("a GPT partition table"));
        }
    }

    #[test]
    fn what_is_no_table_is_not_taken_for_one() {
        assert_eq!(find(&[0; 8192]), None);
        assert_eq!(find(&mbr(0, 0)), None, "no entry in use");
        assert_eq!(find(&mbr(0x41, 0x83)), None, "boot code of a FAT");
        assert_eq!(find(&[]), None);
        let mut unsigned = mbr(0, 0x83);
        unsigned[510] = 0;
        assert_eq!(find(&unsigned), None);
    }
}
