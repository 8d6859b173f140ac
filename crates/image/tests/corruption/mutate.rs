//! What a medium may do to an image by itself: bits and bytes change, runs become zeros or what they were before, blocks
//! and files change places, a file is shorter.
//!
//! A life goes on session by session. After each the image is changed in one place, many times over, and opened: it is
//! refused in words, or every sector is what the oracle allows, but for those whose own bytes were changed.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::media::fault::{FaultStore, Medium as Buffered, Random};
use crate::media::ram::RamStore;
use skylight_image::format::BLOCK;
use skylight_image::format::checkpoint::ENTRIES;
use skylight_image::format::part_head::START;
use skylight_image::format::superblock::{COPY, Superblock, TEXT};
use skylight_image::{Image, ImageError, Store};
use skylight_layer::Medium;

use crate::common::{Lives, multi_part_image};

/// Whether images carry checksums of what the host wrote: then a sector whose bytes were changed is an error, or right.
const DATA_IS_CHECKED: bool = false;
/// Mutations after a session.
const EACH: u64 = 10;
const PROFILE: &str = "a text that stands for the profile of a drive; the test has the layer";

/// A life whose images are judged.
pub trait Subject: Lives {
    /// Whether what an image says and gives is allowed; sectors at these places were changed, `healthy` is what the
    /// image without the change gave.
    fn judge(&self, found: &Self::Found, changed: &[bool], healthy: &Self::Found) -> Result<(), String>;
    /// Host sectors.
    fn sectors(&self) -> u64;
}

/// A stretch of a medium that is one thing.
struct Region {
    name: &'static str,
    range: Range<u64>,
    /// Whether it holds the host's data.
    is_data: bool,
}

/// A change.
struct Mutation {
    what: String,
    /// Where the host's data was changed.
    data: Vec<Range<u64>>,
    /// Whether nothing but a refusal is right.
    must_refuse: bool,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Tally {
    pub mutations: u64,
    pub refused: u64,
    /// By region: mutations that were refused, and that were not.
    pub by_region: BTreeMap<String, (u64, u64)>,
}

/// The images of a life: how the medium was at some moments, by session.
struct History {
    older: Vec<(u64, RamStore)>,
    session: u64,
    now: RamStore,
}

/// Lives, and changes the image after each session, until there were so many mutations.
pub fn corrupt<L: Subject>(life: &mut L, mutations: u64, tally: &mut Tally) -> Result<(), String> {
    let made = FaultStore::new(RamStore::new(life.len_bytes()));
    let image = Image::create_on(life.store(&made), life.layer(), PROFILE, life.options());
    drop(image.map_err(|error| error.to_string())?);
    let mut medium = Buffered::new(RamStore::new(life.len_bytes()));
    made.take_effects().iter().for_each(|effect| medium.take(effect));
    let mut history = History { older: Vec::new(), session: 0, now: settled(medium, life) };
    let until = tally.mutations + mutations;
    while tally.mutations < until {
        live_on(life, &mut history)?;
        let healthy = {
            let mut image = life.open(&FaultStore::new(history.now.clone()))?;
            life.look_at(&mut image)?
        };
        life.judge(&healthy, &vec![false; life.sectors() as usize], &healthy)?;
        for _ in 0..EACH.min(until - tally.mutations) {
            let number = tally.mutations;
            try_one(life, &history, &healthy, tally).map_err(|why| format!("mutation {number}: {why}"))?;
        }
    }
    Ok(())
}

/// All that was written, as a process leaves it that is killed.
fn settled<L: Subject>(mut medium: Buffered, life: &mut L) -> RamStore {
    medium.take(&crate::media::fault::Effect::Sync);
    medium.cut(life.random())
}

/// A session; some of its moments are kept.
fn live_on<L: Subject>(life: &mut L, history: &mut History) -> Result<(), String> {
    history.session += 1;
    history.older.push((history.session - 1, history.now.clone()));
    let session = life.session(history.now.clone())?;
    let effects = session.effects.len() as u64;
    let kept = [life.random().below(effects + 1), life.random().below(effects + 1)];
    let mut medium = session.start;
    for (number, effect) in session.effects.iter().enumerate() {
        if kept.contains(&(number as u64)) {
            history.older.push((history.session, settled(medium.clone(), life)));
        }
        medium.take(effect);
    }
    session.events.into_iter().for_each(|(_, event)| life.happen(event));
    history.now = settled(medium, life);
    // What is long past is changed in every block by now.
    let forgotten = history.older.len().saturating_sub(12);
    history.older.drain(..forgotten);
    Ok(())
}

fn try_one<L: Subject>(
    life: &mut L,
    history: &History,
    healthy: &L::Found,
    tally: &mut Tally,
) -> Result<(), String> {
    let boundaries = life.boundaries();
    let (superblock, regions) = regions(&history.now, &boundaries);
    let parts = multi_part_image::ranges(history.now.len_bytes(), &boundaries);
    let mut changed = history.now.clone();
    let (name, mutation) = mutate(life.random(), &mut changed, history, &regions, &parts);
    tally.mutations += 1;
    let counts = tally.by_region.entry(name.to_owned()).or_default();
    let what = &mutation.what;
    let opened = Image::open_on(life.store(&FaultStore::new(changed)), life.layer(), life.options());
    let mut image = match opened {
        Ok(image) => image,
        Err(ImageError::Io { source, .. }) => return Err(format!("{what}: refused with {source}")),
        Err(_) => {
            (tally.refused, counts.0) = (tally.refused + 1, counts.0 + 1);
            return Ok(());
        }
    };
    counts.1 += 1;
    if mutation.must_refuse {
        return Err(format!("{what}: is used"));
    }
    image.audit().map_err(|why| format!("{what}: {why}"))?;
    let mut touched = touched_sectors(life, &image, &superblock, &boundaries, &mutation.data);
    if DATA_IS_CHECKED {
        touched.fill(false);
    }
    let found = life.look_at(&mut image).map_err(|why| format!("{what}: {why}"))?;
    life.judge(&found, &touched, healthy).map_err(|why| format!("{what}: {why}"))
}

/// The host sectors whose bytes lie in one of the ranges.
fn touched_sectors<L: Subject>(
    life: &L,
    image: &Image,
    superblock: &Superblock,
    boundaries: &[u64],
    ranges: &[Range<u64>],
) -> Vec<bool> {
    let mut touched = Vec::with_capacity(life.sectors() as usize);
    for (medium, piece) in image.lying() {
        let part = if medium == Medium::Flash { superblock.flash } else { superblock.platter };
        for sector in piece.start.get()..piece.end().get() {
            let at = on_medium(part.start + sector * BLOCK as u64, boundaries);
            touched.push(ranges.iter().any(|range| range.start < at + BLOCK as u64 && at < range.end));
        }
    }
    touched
}

/// Where a byte of the image lies on the medium.
fn on_medium(offset: u64, boundaries: &[u64]) -> u64 {
    offset + START * boundaries.iter().filter(|&&boundary| boundary <= offset).count() as u64
}

/// What lies where.
fn regions(store: &RamStore, boundaries: &[u64]) -> (Superblock, Vec<Region>) {
    let mut block = [0; BLOCK];
    store.read_at(0, &mut block).expect("a superblock");
    let text = |at, bytes: &mut [u8]| {
        store.read_at(at, bytes).expect("a text");
        Ok(())
    };
    let superblock = Superblock::decode(&block, text).expect("a superblock");
    let (block, text) = (BLOCK as u64, PROFILE.len() as u64);
    let mut regions = Vec::new();
    let mut add = |name, from: u64, len: u64, is_data| {
        if len > 0 {
            regions.push(Region { name, range: from..from + len, is_data });
        }
    };
    add("superblock", 0, block, false);
    add("superblock's copy", COPY, block, false);
    add("text", TEXT, text, false);
    add("text's copy", COPY + TEXT, text, false);
    add("marks", superblock.marks.start, superblock.marks.len, false);
    add("log", superblock.log.start, superblock.log.len, false);
    // Where something is wrong with the log matters more than with all else.
    add("log", superblock.log.start, superblock.log.len, false);
    for area in superblock.checkpoints {
        add("heads of a checkpoint", area.start, 2 * block, false);
        add("entries", area.start + ENTRIES, (area.len - ENTRIES).min(2048), false);
        add("checkpoint", area.start, area.len, false);
    }
    // Parts end somewhere in these; a run that crosses the end of one is cut there.
    let ranges = multi_part_image::ranges(store.len_bytes(), boundaries);
    for (number, part) in ranges.iter().enumerate() {
        let head = if number > 0 { START } else { superblock.platter.start };
        if number > 0 {
            add("head of a part", part.start, 2 * block, false);
        }
        add("data", part.start + head, (part.end - part.start).saturating_sub(head), true);
    }
    (superblock, regions)
}

fn bytes_of(store: &RamStore, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    store.read_at(range.start, &mut bytes).expect("within");
    bytes
}

fn put(store: &mut RamStore, at: u64, bytes: &[u8]) {
    store.write_at(at, bytes).expect("within");
}

/// A run of blocks in a region, or less than a block.
fn draw_run(random: &mut Random, region: &Range<u64>) -> Range<u64> {
    let len = region.end - region.start;
    let blocks = len.div_ceil(BLOCK as u64);
    let first = random.below(blocks);
    let count = match random.below(3) {
        0 => 1,
        1 => 1 + random.below(8.min(blocks - first)),
        _ => 1 + random.below(blocks - first),
    };
    let start = region.start + first * BLOCK as u64;
    start..(start + count * BLOCK as u64).min(region.end)
}

/// Changes a medium; in which region.
fn mutate(
    random: &mut Random,
    store: &mut RamStore,
    history: &History,
    regions: &[Region],
    parts: &[Range<u64>],
) -> (&'static str, Mutation) {
    if random.below(12) == 0 {
        return mutate_whole(random, store, history, parts);
    }
    let region = &regions[random.below(regions.len() as u64) as usize];
    let (what, changed) = mutate_region(random, store, history, &region.range);
    let what = format!("{what} in the {}", region.name);
    let data = if region.is_data { changed } else { Vec::new() };
    (region.name, Mutation { what, data, must_refuse: false })
}

fn mutate_region(
    random: &mut Random,
    store: &mut RamStore,
    history: &History,
    region: &Range<u64>,
) -> (String, Vec<Range<u64>>) {
    let run = draw_run(random, region);
    let one = region.start + random.below(region.end - region.start);
    match random.below(6) {
        kind @ (0 | 1) => {
            let by = if kind == 0 { 1 << random.below(8) } else { 1 + random.below(255) as u8 };
            let byte = bytes_of(store, &(one..one + 1))[0] ^ by;
            put(store, one, &[byte]);
            let changed = one..one + 1;
            (format!("byte {one} changed by {by:#x}"), vec![changed])
        }
        2 => {
            put(store, run.start, &vec![0; (run.end - run.start) as usize]);
            (format!("zeros at {run:?}"), vec![run])
        }
        3 => {
            let other = draw_run(random, region);
            let len = (run.end - run.start).min(other.end - other.start);
            let (one, other) = (run.start..run.start + len, other.start..other.start + len);
            let (first, second) = (bytes_of(store, &one), bytes_of(store, &other));
            put(store, one.start, &second);
            put(store, other.start, &first);
            (format!("{one:?} and {other:?} exchanged"), vec![one, other])
        }
        kind => {
            let run = if kind == 4 { run } else { region.clone() };
            let (session, old) = &history.older[random.below(history.older.len() as u64) as usize];
            put(store, run.start, &bytes_of(old, &run));
            (format!("{run:?} as in session {session} of {}", history.session), vec![run])
        }
    }
}

/// Changes a whole file: the image's only one, or one of several.
fn mutate_whole(
    random: &mut Random,
    store: &mut RamStore,
    history: &History,
    parts: &[Range<u64>],
) -> (&'static str, Mutation) {
    if parts.len() == 1 {
        let len = random.below(store.len_bytes() / BLOCK as u64) * BLOCK as u64;
        let bytes = bytes_of(store, &(0..len));
        *store = RamStore::new(len);
        put(store, 0, &bytes);
        return (
            "whole file",
            Mutation { what: format!("cut off at {len}"), data: Vec::new(), must_refuse: true },
        );
    }
    let which = random.below(parts.len() as u64) as usize;
    let part = parts[which].clone();
    // The first part says where all data lies, so with an older one none of it need be right.
    let data = if which == 0 { parts.to_vec() } else { vec![part.clone()] };
    let (what, must_refuse) = match random.below(4) {
        0 => {
            put(store, part.start, &vec![0; (part.end - part.start) as usize]);
            (format!("part {which} replaced by zeros"), true)
        }
        1 => {
            let other = (which + 1 + random.below(parts.len() as u64 - 1) as usize) % parts.len();
            let len = (part.end - part.start).min(parts[other].end - parts[other].start);
            let (one, two) = (part.start..part.start + len, parts[other].start..parts[other].start + len);
            let (first, second) = (bytes_of(store, &one), bytes_of(store, &two));
            put(store, one.start, &second);
            put(store, two.start, &first);
            (format!("parts {which} and {other} exchanged"), true)
        }
        _ => {
            let (session, old) = &history.older[random.below(history.older.len() as u64) as usize];
            put(store, part.start, &bytes_of(old, &part));
            // Within a session a part shows no age; its data is for checksums to tell.
            (
                format!("part {which} as in session {session} of {}", history.session),
                *session < history.session,
            )
        }
    };
    ("whole file", Mutation { what, data, must_refuse })
}
