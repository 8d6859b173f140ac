//! Stores: those that tests use (memory, and a medium that fails), and one made of parts with a gap.

mod media;

use media::fault::{Effect, FaultStore, Medium, Random};
use media::ram::RamStore;
use skylight_image::Store;
use skylight_image::format::superblock::Part;
use skylight_image::store::concatenated::PartsStore;

#[test]
fn reads_what_was_written_and_zeros_elsewhere() {
    let mut store = RamStore::new(1 << 40);
    let data: Vec<u8> = (0..40_000).map(|k| (k % 251) as u8).collect();
    store.write_at(16_000, &data).unwrap();
    let copy = store.clone();
    store.discard(17_000, 30_000).unwrap();
    let mut buffer = vec![1; 50_000];
    store.read_at(15_000, &mut buffer).unwrap();
    assert!(buffer[..1000].iter().all(|&byte| byte == 0));
    assert_eq!(buffer[1000..2000], data[..1000]);
    assert!(buffer[2000..32_000].iter().all(|&byte| byte == 0));
    assert_eq!(buffer[32_000..41_000], data[31_000..]);
    copy.read_at(16_000, &mut buffer[..40_000]).unwrap();
    assert_eq!(buffer[..40_000], data, "a copy keeps what it had");
    assert_eq!(store.is_data(0, 1 << 30).unwrap(), (true, 16 << 10));
    assert_eq!(store.is_data(1 << 20, 1 << 30).unwrap(), (false, 1 << 30));
    assert!(store.write_at((1 << 40) - 1, &[0, 0]).is_err());
}

#[test]
fn a_cut_keeps_what_was_synced_and_any_of_the_rest_whole_by_sector() {
    let mut medium = Medium::new(RamStore::new(4096));
    medium.take(&Effect::Write(0, vec![1; 2048].into()));
    medium.take(&Effect::Sync);
    medium.take(&Effect::Write(512, vec![2; 2048].into()));
    medium.take(&Effect::Write(1024, vec![3; 512].into()));
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..2000 {
        let left = medium.cut(&mut Random(seed));
        let mut bytes = [0; 4096];
        left.read_at(0, &mut bytes).unwrap();
        assert!(bytes[..512].iter().all(|&byte| byte == 1));
        let sectors: Vec<u8> = bytes
            .chunks(512)
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "torn within a sector");
                sector[0]
            })
            .collect();
        seen.insert(sectors[1..5].to_vec());
    }
    let all = 2 * 3 * 2 * 2;
    assert_eq!(seen.len(), all, "every outcome comes up: {seen:?}");
}

#[test]
fn what_is_written_durably_lasts_and_nothing_else() {
    let mut medium = Medium::new(RamStore::new(4096));
    medium.take(&Effect::Write(0, vec![1; 1536].into()));
    medium.take(&Effect::WriteDurably(512, vec![2; 512].into()));
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..500 {
        let mut bytes = [0; 1536];
        medium.cut(&mut Random(seed)).read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[512..1024], [2; 512]);
        seen.insert((bytes[0], bytes[1024]));
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn faults_come_and_go() {
    let mut store = FaultStore::new(RamStore::new(4096));
    store.write_at(0, &[7; 1024]).unwrap();
    let mut bytes = [0; 512];
    store.fail_reads(600..601);
    store.corrupt_reads(0..2);
    assert!(store.read_at(512, &mut bytes).is_err());
    store.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes[..3], [7 ^ 0x5a, 7 ^ 0x5a, 7]);
    store.fail_after(1);
    assert!(Store::sync(&mut store).is_ok() && Store::sync(&mut store).is_err());
    store.mend();
    assert!(store.read_at(512, &mut bytes).is_ok() && Store::sync(&mut store).is_ok());
}

#[test]
fn what_follows_the_gap_lies_right_behind_what_is_before() {
    let gap = Part { start: 4096, len: 1 << 40 };
    let inner = FaultStore::new(RamStore::new(12_288));
    let mut store = PartsStore::with_gap(Box::new(inner.clone()), gap);
    assert_eq!(store.len_bytes(), (1 << 40) + 12_288);
    store.write_at(3584, &[1; 512]).unwrap();
    store.write_at(gap.end(), &[2; 512]).unwrap();
    assert!(store.write_at(3584, &[3; 1024]).is_err() && store.write_at(gap.end() - 1, &[3]).is_err());
    store.write_at(3584, &[1; 512]).unwrap();
    let mut bytes = [9; 512];
    for (at, byte) in [(3584, 1), (4096, 0), (gap.end() - 512, 0), (gap.end(), 2)] {
        store.read_at(at, &mut bytes).unwrap();
        assert_eq!(bytes, [byte; 512], "at {at}");
    }
    inner.read_at(4096, &mut bytes).unwrap();
    assert_eq!(bytes, [2; 512]);
    store.discard(0, gap.end() + 512).unwrap();
    store.read_at(gap.end(), &mut bytes).unwrap();
    assert_eq!(bytes, [0; 512]);
    assert!(store.read_at(gap.end() + 8192 - 511, &mut bytes).is_err());
}
