//! `docs/formats.md` is what the bytes are: its tables are read here, an image is written from them by hand, and it opens.

mod media;

use std::collections::BTreeMap;

use media::ram::RamStore;
use skylight_disk::layout::{Layout, RecordingZone, Skews, segments};
use skylight_disk::{Geometry, Lba, LbaExtent, Pba, Sectors, Shingling};
use skylight_image::store::checksummed::SumOptions;
use skylight_image::store::concatenated::{Part, PartsStore};
use skylight_image::{Image, Options, Store};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};
use skylight_layer::{
    Conventional, FullyAssociative, FullyAssociativeSpec, Layer, Medium, SetAssociative, SetAssociativeSpec,
    Swd, SwdSpec,
};

/// Where the fields are: by table and field, offsets and lengths.
struct Tables(BTreeMap<(String, String), Vec<(usize, usize)>>);

impl Tables {
    /// Reads the tables of the page whose head says `at` and `bytes`.
    fn of(page: &str) -> Self {
        let mut tables = BTreeMap::new();
        let mut table = None;
        for line in page.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            match cells[..] {
                ["at", "bytes", title] => table = Some(title.to_owned()),
                [at, bytes, field] => {
                    if let (Some(table), Ok(at)) = (&table, at.replace(',', "").parse::<usize>()) {
                        let field = field.split([':', ';', ',']).next().unwrap_or_default();
                        let mut from = at;
                        let place = |len: &str| {
                            let place =
                                (from, len.trim().trim_end_matches(" each").parse().expect("a length"));
                            from += place.1;
                            place
                        };
                        tables
                            .insert((table.clone(), field.to_owned()), bytes.split(',').map(place).collect());
                    }
                }
                _ => table = None,
            }
        }
        Self(tables)
    }

    fn at(&self, table: &str, field: &str) -> &[(usize, usize)] {
        let found = self.0.iter().find(|((t, f), _)| t.starts_with(table) && f.starts_with(field));
        found
            .map(|(_, places)| places.as_slice())
            .unwrap_or_else(|| panic!("{table}: {field} is not on the page"))
    }

    fn put(&self, block: &mut [u8], table: &str, field: &str, values: &[u64]) {
        for (&(at, len), value) in self.at(table, field).iter().zip(values) {
            block[at..at + len].copy_from_slice(&u128::from(*value).to_le_bytes()[..len]);
        }
    }
}

const SALT: u32 = 0x1234_5678;
const TEXT: &str = "no profile, the test has the layer";
const MARKS: u64 = 2 << 20;
const LOG: u64 = MARKS + 8192;
const IDENTITY: u64 = 0x8765_4321_0123;
const A: u64 = LOG + 8192;
const B: u64 = A + 65536;
const PLATTER: u64 = B + 65536;

struct Hand {
    tables: Tables,
    store: RamStore,
    version: u64,
}

impl Hand {
    fn new(layer: &dyn Layer) -> Self {
        Self::of(2, 0, layer)
    }

    /// An image of a version; its first file has so many bytes, if it goes on in others.
    fn of(version: u64, first_file: u64, layer: &dyn Layer) -> Self {
        let tables = Tables::of(include_str!("../../../docs/formats.md"));
        let platter = layer.media_use().platter.bytes();
        let store = RamStore::new(PLATTER + platter.next_multiple_of(4096));
        let mut hand = Self { tables, store, version };
        let mut block = [0; 512];
        block[..8].copy_from_slice(b"SKYLIGHT");
        let mut put = |field: &str, values: &[u64]| hand.tables.put(&mut block, "field", field, values);
        put("version", &[version]);
        if version > 1 {
            put("marks", &[MARKS, LOG - MARKS]);
            put("identity", &[IDENTITY]);
            put("first file", &[first_file]);
        }
        put("salt", &[SALT.into()]);
        put("length of the profile's text", &[TEXT.len() as u64]);
        put("CRC of the text", &[crc32c::crc32c(TEXT.as_bytes()).into()]);
        put("bytes that the host sees", &[layer.capacity().bytes()]);
        put("tag log", &[LOG, A - LOG]);
        put("checkpoint area A", &[A, B - A]);
        put("checkpoint area B", &[B, PLATTER - B]);
        put("platters", &[PLATTER, platter.next_multiple_of(4096)]);
        put("flash", &[PLATTER + platter.next_multiple_of(4096), 0]);
        let crc = crc32c::crc32c(&block[..508]);
        hand.tables.put(&mut block, "field", "CRC of bytes 0 to 507", &[crc.into()]);
        // Only the copy: the first is for another day.
        hand.write(1 << 20, &block);
        hand.write((1 << 20) + 4096, TEXT.as_bytes());
        if version > 1 {
            hand.mark(1, 4, 21, 100);
        }
        hand
    }

    fn mark(&mut self, slot: u64, generation: u64, log_end: u64, durable: u64) {
        let mut block = [0; 512];
        block[..4].copy_from_slice(b"SKYM");
        for (field, value) in [("generation", generation), ("log's end", log_end), ("durable", durable)] {
            self.tables.put(&mut block, "field of a mark", field, &[value]);
        }
        self.salted(&mut block, "field of a mark");
        self.write(MARKS + slot * 4096, &block);
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.store.write_at(at, bytes).expect("room");
    }

    fn salted(&self, block: &mut [u8], table: &str) {
        let crc = crc32c::crc32c_append(SALT, &block[8..]);
        self.tables.put(block, table, "CRC of bytes 8 to 511", &[crc.into()]);
    }

    /// Generation 4, so area A.
    fn checkpoint(&mut self, cached: &[[u64; 6]], moved: &[[u64; 3]]) {
        let mut entries = Vec::new();
        for values in cached {
            let fields = [
                "first LBA",
                "first PBA",
                "first PBA of the access",
                "taken",
                "sectors",
                "sectors of the access",
            ];
            entries.extend(self.entry(40, "entry for an extent", &fields, values));
        }
        for values in moved {
            entries.extend(self.entry(
                24,
                "entry for a moved",
                &["first LBA", "sectors", "first PBA"],
                values,
            ));
        }
        let counts = [cached.len() as u64, moved.len() as u64];
        self.head(&entries, &[("entries for extents", counts[0]), ("entries for moved", counts[1])]);
    }

    /// The same for a raw shingled disk: fragments, and who wrote their sources.
    fn shingled_checkpoint(&mut self, torn: &[[u64; 4]], writers: &[[u64; 4]], writes: u64) {
        let mut entries = Vec::new();
        let fields = ["first PBA", "first source", "sectors", "sources"];
        torn.iter()
            .for_each(|values| entries.extend(self.entry(24, "entry for an overwritten", &fields, values)));
        let fields = ["first PBA", "sectors", "number of the write", "time of that write"];
        writers
            .iter()
            .for_each(|values| entries.extend(self.entry(32, "entry for a writer", &fields, values)));
        let counts = [
            ("entries for overwritten", torn.len() as u64),
            ("entries for writers", writers.len() as u64),
            ("writes so far", writes),
        ];
        self.head(&entries, &counts);
    }

    fn head(&mut self, entries: &[u8], counts: &[(&str, u64)]) {
        self.write(A + 4096, entries);
        let mut head = [0; 512];
        head[..4].copy_from_slice(b"SKYC");
        let crc = crc32c::crc32c_append(SALT, entries);
        let common = [
            ("generation", 4),
            ("position of the first block", 21),
            ("highest sequence number", 100),
            ("CRC of all entries", crc.into()),
        ];
        let covered = [("covered", 100)];
        let later: &[(&str, u64)] = if self.version > 1 { &covered } else { &[] };
        for &(field, value) in common.iter().chain(later).chain(counts) {
            self.tables.put(&mut head, "field of the head", field, &[value]);
        }
        self.salted(&mut head, "field of the head");
        // The second head serves as well as the first.
        self.write(A + 512, &head);
    }

    /// The last field that a name begins is taken where several do, so the longer names go first here.
    fn entry(&self, len: usize, table: &str, fields: &[&str], values: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (field, value) in fields.iter().zip(values) {
            let exact = self.tables.0.iter().find(|((t, f), _)| {
                t.starts_with(table) && (f == field || field.len() > 10 && f.starts_with(field))
            });
            let (_, places) = exact.unwrap_or_else(|| panic!("{table}: {field} is not on the page"));
            let (at, len) = places[0];
            bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        }
        bytes
    }

    /// Kind, data CRC, sequence, LBA, sectors, PBA, taken, access and its sectors: each in its place.
    fn tag_block(&mut self, position: u64, durable: u64, tags: &[[u64; 9]]) {
        let mut block = [0; 512];
        block[..4].copy_from_slice(b"SKYT");
        let counts = [
            ("position", position),
            ("durable", durable),
            ("generation", 4),
            ("number of tags", tags.len() as u64),
        ];
        for (field, value) in counts {
            self.tables.put(&mut block, "field of the block", field, &[value]);
        }
        let (first, size) = self.tables.at("field of the block", "tags")[0];
        for (index, values) in tags.iter().enumerate() {
            let fields = [
                "kind",
                "CRC of the data",
                "sequence number",
                "first LBA",
                "sectors",
                "first PBA",
                "taken",
                "first PBA of the access",
                "sectors of that access",
            ];
            let bytes = self.entry(size, "field of a tag", &fields, values);
            block[first + size * index..][..size].copy_from_slice(&bytes);
        }
        self.salted(&mut block, "field of the block");
        self.write(LOG + position % 16 * 512, &block);
    }

    /// The tag of a write of a raw shingled disk, alone in its block.
    fn write_tag(&mut self, position: u64, sequence: u64, lba: u64, sectors: u64, number: u64, at_ns: u64) {
        let mut block = [0; 512];
        block[..4].copy_from_slice(b"SKYT");
        for (field, value) in
            [("position", position), ("durable", sequence), ("generation", 4), ("number of tags", 1)]
        {
            self.tables.put(&mut block, "field of the block", field, &[value]);
        }
        let (first, size) = self.tables.at("field of the block", "tags")[0];
        let fields =
            ["kind", "sequence number", "first LBA", "sectors", "time of the write", "number of the write"];
        let bytes = self.entry(size, "field of a tag", &fields, &[4, sequence, lba, sectors, at_ns, number]);
        block[first..][..size].copy_from_slice(&bytes);
        self.salted(&mut block, "field of the block");
        self.write(LOG + position % 16 * 512, &block);
    }

    fn data(&mut self, pba: u64, sectors: usize, byte: u8) -> u64 {
        let data = vec![byte; 512 * sectors];
        self.write(PLATTER + pba * 512, &data);
        crc32c::crc32c(&data).into()
    }

    fn open(self, layer: Box<dyn Layer>) -> Vec<u8> {
        let mut image = Image::open_on(Box::new(self.store), layer, &Options::default()).expect("an image");
        assert_eq!(image.profile_text(), TEXT);
        image.audit().expect("one place for each sector");
        let mut bytes = vec![0; image.capacity_bytes() as usize];
        image.read(0, &mut bytes).expect("a read");
        bytes.chunks(512).map(|sector| sector[0]).collect()
    }
}

fn set_associative() -> Box<dyn Layer> {
    Box::new(SetAssociative::new(SetAssociativeSpec {
        capacity: Sectors(256),
        band: Sectors(64),
        cache_bands: 2,
        cache_medium: Medium::Platter,
        cache_start: Pba(0),
        usable: Sectors(64),
        bands_for_one_write: u64::MAX,
        idle_after: None,
    }))
}

#[test]
fn an_image_written_from_the_page_opens() {
    for version in [1, 2] {
        let (hand, expected) = with_log(Hand::of(version, 0, set_associative().as_ref()));
        assert_eq!(hand.open(set_associative()), expected, "version {version}");
    }
}

#[test]
fn a_mark_written_from_the_page_tells_what_is_missing() {
    for (generation, durable, line) in [
        (4, 102, None),
        (4, 106, Some("2 tags of its log that were durable are not there: of numbers 103 to 106")),
        (5, 102, Some("checkpoint 5 was durable, and the newest that is there is 4")),
    ] {
        let (mut hand, _) = with_log(Hand::new(set_associative().as_ref()));
        hand.mark(0, generation, 24, durable);
        let opened = Image::open_on(Box::new(hand.store), set_associative(), &Options::default());
        let error = opened.map(drop).err().map(|error| error.to_string());
        let told = match (&error, line) {
            (Some(error), Some(line)) => error.contains(line),
            (found, line) => found.is_none() && line.is_none(),
        };
        assert!(told, "{error:?} and not {line:?}");
    }
}

#[test]
fn the_head_of_a_part_written_from_the_page_is_known() {
    // Of which checkpoint the part is, whether it has confirmed that, and whether it goes with checkpoint 4.
    for (generation, confirmed, fits) in
        [(4, 1, true), (4, 0, true), (5, 0, true), (5, 1, false), (3, 1, false), (3, 0, false), (6, 0, false)]
    {
        let (hand, _) = with_log(Hand::of(2, PLATTER, set_associative().as_ref()));
        let len = hand.store.len_bytes() - PLATTER;
        let mut data = vec![0; len as usize];
        hand.store.read_at(PLATTER, &mut data).expect("the platters");
        let mut block = [0; 512];
        block[..7].copy_from_slice(b"SKYPART");
        let fields = [
            ("version", 2),
            ("number of the part", 1),
            ("identity", IDENTITY),
            ("length of the data", len),
            ("generation", generation),
            ("confirmed", confirmed),
        ];
        let table = "field of the head of a part";
        fields.iter().for_each(|&(field, value)| hand.tables.put(&mut block, table, field, &[value]));
        let crc = crc32c::crc32c(&block[..508]);
        hand.tables.put(&mut block, table, "CRC of bytes 0 to 507", &[crc.into()]);
        let mut second = RamStore::new(len + 4096);
        // Only the copy.
        second.write_at(512, &block).and_then(|()| second.write_at(4096, &data)).expect("room");
        let part = |from, len, store, headed| Part { from, len, store: Box::new(store), headed };
        let parts = PartsStore::new(vec![part(0, PLATTER, hand.store, false), part(4096, len, second, true)]);
        let opened = Image::open_on(Box::new(parts), set_associative(), &Options::default());
        assert_eq!(opened.is_ok(), fits, "{generation} {confirmed} {:?}", opened.err());
    }
}

/// Data, a checkpoint and a log; and what is read then.
fn with_log(mut hand: Hand) -> (Hand, Vec<u8>) {
    // At home behind the two cache bands.
    hand.data(128, 256, 1);
    hand.data(0, 8, 2);
    hand.checkpoint(&[[10, 0, 0, 0, 8, 8]], &[]);
    let newer = hand.data(8, 16, 3);
    let lost = hand.data(24, 8, 9) ^ 1;
    hand.data(72, 8, 4);
    hand.tag_block(21, 102, &[[1, newer, 102, 12, 16, 8, 8, 8, 16], [2, 0, 101, 10, 1, 0, 0, 0, 0]]);
    // Later than the last that is known to be durable: one whose data was lost, and one whose data is there.
    let there = hand.data(80, 8, 5);
    hand.tag_block(23, 102, &[[1, lost, 104, 40, 8, 24, 24, 24, 8], [1, there, 105, 70, 8, 80, 32, 80, 8]]);
    // An old block, which its position says it is, and one of another image.
    hand.tag_block(20, 99, &[[2, 0, 99, 0, 256, 0, 0, 0, 0]]);
    let mut expected = vec![1; 256];
    expected[11..12].fill(2);
    expected[12..28].fill(3);
    expected[70..78].fill(5);
    (hand, expected)
}

#[test]
fn moved_bands_written_from_the_page_are_found() {
    let layer = || -> Box<dyn Layer> {
        Box::new(FullyAssociative::new(FullyAssociativeSpec {
            capacity: Sectors(256),
            band: Sectors(64),
            zone: Sectors(256),
            free_bands: 2,
            clean_threshold: 1,
            idle_after: None,
            start: Pba(0),
        }))
    };
    let mut homes = Vec::new();
    let all = skylight_disk::LbaExtent::new(skylight_disk::Lba(0), Sectors(256));
    layer().initial_locations(all, &mut |piece| homes.push(piece.start.get()));
    let free: Vec<u64> = (0..6).map(|slot| slot * 64).filter(|start| !homes.contains(start)).collect();
    let mut hand = Hand::new(layer().as_ref());
    for &home in &homes {
        hand.data(home, 64, 1);
    }
    hand.data(free[0], 64, 2);
    hand.checkpoint(&[], &[[0, 64, free[0]]]);
    hand.data(homes[0], 64, 3);
    hand.tag_block(21, 101, &[[3, 0, 101, 64, 64, homes[0], 0, 0, 0]]);
    let sectors = hand.open(layer());
    let expected = [[2; 64], [3; 64], [1; 64], [1; 64]].concat();
    assert_eq!(sectors, expected);
}

#[test]
fn what_is_overwritten_written_from_the_page_is_known() {
    let specs = segments(
        Layout::Cylinder,
        &[RecordingZone { tracks: 16, sectors_per_track: 16 }],
        1,
        Skews::default(),
    );
    let geometry = Geometry::new(&specs).expect("segments");
    let layer = || -> Box<dyn Layer> {
        Box::new(Swd::new(SwdSpec {
            geometry: geometry.clone(),
            shingling: Shingling::new(2).expect("a head"),
            capacity: geometry.capacity(),
            bands: None,
            mode: ReadMode { data: ReadData::Overwriting, fail: false },
            pattern: 0,
        }))
    };
    let mut hand = Hand::new(layer().as_ref());
    hand.data(0, 256, 1);
    hand.data(4, 2, 2);
    hand.data(36, 2, 3);
    // Write 7 to sectors 4 and 5 destroyed 20 and 21; then write 9 to 36 and 37 destroyed 52 and 53.
    hand.shingled_checkpoint(&[[20, 4, 2, 1]], &[[4, 2, 7, 1_000]], 8);
    hand.write_tag(21, 101, 36, 2, 9, 2_000);
    let mut image = Image::open_on(Box::new(hand.store), layer(), &Options::default()).expect("an image");
    let mut bytes = vec![0; 256 * 512];
    image.read(0, &mut bytes).expect("a read");
    let mut expected = [1; 256];
    expected[4..6].fill(2);
    expected[20..22].fill(2);
    expected[36..38].fill(3);
    expected[52..54].fill(3);
    assert!(bytes.chunks(512).map(|sector| sector[0]).eq(expected));
    let found = image.overwriting().expect("it overwrites").losses(LbaExtent::new(Lba(0), Sectors(256)));
    let told: Vec<_> = found
        .iter()
        .map(|loss| (loss.lba.start.get(), loss.source.get(), loss.by.write, loss.by.at.get()))
        .collect();
    assert_eq!(told, [(20, 4, 7, 1_000), (52, 36, 9, 2_000)]);
}

#[test]
fn checksums_written_from_the_page_are_compared() {
    const SUMS: u64 = PLATTER - 32_768;
    let layer = || -> Box<dyn Layer> { Box::new(Conventional::new(Medium::Platter, Sectors(64))) };
    let mut hand = Hand::new(layer().as_ref());
    let mut superblock = [0; 512];
    hand.store.read_at(1 << 20, &mut superblock).expect("a superblock");
    hand.tables.put(&mut superblock, "field", "version", &[2]);
    hand.tables.put(&mut superblock, "field", "checkpoint area B", &[B, 32_768]);
    hand.tables.put(&mut superblock, "field", "sums", &[SUMS, 32_768]);
    let crc = crc32c::crc32c(&superblock[..508]);
    hand.tables.put(&mut superblock, "field", "CRC of bytes 0 to 507", &[crc.into()]);
    hand.write(1 << 20, &superblock);
    hand.checkpoint(&[], &[]);
    let entry = |byte: u8| (crc32c::crc32c(&[byte; 512]) ^ crc32c::crc32c(&[0; 512])).to_le_bytes();
    hand.data(0, 6, 1);
    // Right, right but for a power cut, known to be wrong, half done, and two with no entry.
    for (sector, bytes) in [(0, entry(1)), (1, entry(2)), (2, [0xff; 4]), (3, entry(2))] {
        hand.write(SUMS + 16_384 + sector * 4, &bytes);
    }
    let (now, before) = ([7; 16], [6; 16]);
    let mut intent = [0; 64 + 4];
    intent[..4].copy_from_slice(b"SKYI");
    for (field, value) in [("first sector", 3), ("sectors", 1), ("kind", 1)] {
        hand.tables.put(&mut intent, "field of the intent", field, &[value]);
    }
    intent[8..24].copy_from_slice(&now);
    intent[64..].copy_from_slice(&entry(1));
    let crc = crc32c::crc32c_append(SALT, &intent[8..]);
    hand.tables.put(&mut intent, "field of the intent", "CRC of all bytes", &[crc.into()]);
    hand.write(SUMS + 4096, &intent);
    let open = |hand: &Hand, boot| {
        let sums = SumOptions { boot_id: Some(boot), ..SumOptions::default() };
        let options = Options { sums, ..Options::default() };
        let mut image = Image::open_on(Box::new(hand.store.clone()), layer(), &options).expect("an image");
        (0..6).map(|at| image.read(at * 512, &mut [0; 512]).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(open(&hand, now), [true, false, false, true, false, false]);
    assert_eq!(open(&hand, before), [true, false, false, false, false, false]);
    let mut marks = [0; 512];
    marks[..4].copy_from_slice(b"SKYR");
    hand.tables.put(&mut marks, "field of a block of marks of regions", "region", &[24]);
    marks[8..24].copy_from_slice(&before);
    let (dirty, _) = hand.tables.at("field of a block of marks of regions", "dirty")[0];
    marks[dirty] = 1;
    hand.salted(&mut marks, "field of a block of marks of regions");
    hand.write(SUMS, &marks);
    assert_eq!(open(&hand, now), [true, true, false, true, true, true], "another start of the system");
    assert_eq!(open(&hand, before), [true, false, false, false, false, false], "the same start");
}
