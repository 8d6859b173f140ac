//! The raw shingled disk in every timing mode: a sector reads as what was written last or as destroyed, and it is
//! destroyed for a reason.
//!
//! When a write of the volatile cache reaches the media is the drive's affair, and so is which of two neighbours
//! destroys the other. What is certain: a write is on the media between the moment that it is asked and the moment that it
//! is durable. So a sector whose newest write was durable before a neighbour was asked that is durable now, is
//! destroyed; one that no neighbour was asked for since before its newest write was asked, is not.

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use crate::media::fault::Random;
use crate::media::ram::RamStore;
use skylight_disk::{Angle, Geometry, SegmentSpec, Shingling};
use skylight_drive::profile::Profile;
use skylight_image::{Image, Options};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};
use skylight_layer::{Swd, SwdSpec};
use skylight_serve::core::open::{Plan, Timing as ServedTiming, open};
use skylight_serve::core::read_mode_name::ReadModeName;
use skylight_serve::core::{Backend, Command, Completion, Failure, Job, Op, Setting};

use crate::Timing;
use crate::common::number;
use crate::host::{Mood, Target};
use crate::shadow::{SECTOR, bytes_of};
use crate::surface::under_head;
use crate::targets::{AnyTarget, Interface, alone};

const WIDTH_TRACKS: u32 = 3;
/// What sectors that were destroyed read as; no sector of a write is so.
const PATTERN: u8 = 0xee;
/// Commands of one disk's life.
const LIFE: u64 = 600;

/// Two recording zones on one surface, skewed by no whole sector.
fn segments() -> Vec<SegmentSpec> {
    let zone = |(first_track, tracks, sectors_per_track)| SegmentSpec {
        sectors: None,
        sectors_per_track,
        first_track,
        tracks,
        inward: true,
        first_surface: 0,
        surfaces: 1,
        group_tracks: 1,
        surfaces_descend: false,
        surfaces_alternate: false,
        passes_alternate: false,
        first_sector: 0,
        track_skew: Angle::from_revolutions(0.13),
        head_skew: Angle(0),
        group_skew: Angle(0),
        start_angle: None,
    };
    [(0, 20, 24), (20, 18, 17)].map(zone).to_vec()
}

/// A raw shingled disk in memory whose reads are of this mode.
fn image(mode: ReadMode, options: &Options) -> Image {
    let geometry = Geometry::new(&segments()).expect("segments that add up");
    let shingling = Shingling::new(WIDTH_TRACKS).expect("a head");
    let (bands, capacity) = (None, geometry.capacity());
    let layer = Box::new(Swd::new(SwdSpec { geometry, shingling, capacity, bands, mode, pattern: PATTERN }));
    let store = RamStore::new(Image::bytes_needed(layer.as_ref(), options));
    Image::create_on(Box::new(store), layer, "", options).expect("memory")
}

/// Since when and until when something may have reached the media.
#[derive(Clone, Copy, Debug)]
struct Span {
    asked: u64,
    durable: Option<u64>,
}

/// What is known of a sector.
#[derive(Clone, Debug, Default)]
struct Sector {
    /// The command that wrote it last, and the number that it wrote; none for a new disk, or of a trimmed sector.
    newest: Option<(u64, u32)>,
    /// Commands that destroy it and may have done so since.
    destroyers: Vec<u64>,
}

/// See the module page.
struct Disk {
    under_head: Vec<Vec<u64>>,
    sectors: Vec<Sector>,
    spans: HashMap<u64, Span>,
    /// Answered and not durable.
    loose: Vec<(u64, u64)>,
    now: u64,
    write_cache: bool,
    destroyed: u64,
}

impl Disk {
    fn new(under_head: Vec<Vec<u64>>, write_cache: bool) -> Self {
        let sectors = vec![Sector::default(); under_head.len()];
        let (spans, loose) = (HashMap::new(), Vec::new());
        Self { under_head, sectors, spans, loose, now: 0, write_cache, destroyed: 0 }
    }

    fn write(&mut self, id: u64, (from, to): (u64, u64), number: u32) {
        self.spans.insert(id, Span { asked: self.now, durable: None });
        for sector in from..to {
            let (spans, now) = (&self.spans, self.now);
            let sector = &mut self.sectors[sector as usize];
            sector.newest = Some((id, number));
            sector.destroyers.retain(|id| spans[id].durable.is_none_or(|durable| durable >= now));
        }
        for sector in from..to {
            for &behind in
                self.under_head[sector as usize].iter().filter(|&&behind| behind < from || to <= behind)
            {
                let destroyers = &mut self.sectors[behind as usize].destroyers;
                if destroyers.last() != Some(&id) {
                    destroyers.push(id);
                }
            }
        }
    }

    fn written(&mut self, id: u64, fua: bool) {
        match fua || !self.write_cache {
            true => self.durable(id),
            false => self.loose.push((id, self.now)),
        }
    }

    fn durable(&mut self, id: u64) {
        let now = self.now;
        self.spans.entry(id).and_modify(|span| span.durable = Some(now));
    }

    fn flushed(&mut self, asked: u64) {
        let (done, loose) =
            std::mem::take(&mut self.loose).into_iter().partition(|&(_, answered)| answered <= asked);
        self.loose = loose;
        let done: Vec<(u64, u64)> = done;
        done.into_iter().for_each(|(id, _)| self.durable(id));
    }

    /// Whether a sector must have been destroyed when a read was asked.
    fn must_be_destroyed(&self, sector: &Sector, asked: u64) -> bool {
        let written = match sector.newest {
            None => Some(0),
            Some((id, _)) => self.spans[&id].durable,
        };
        written.is_some_and(|written| {
            let after = |id: &u64| {
                let span = self.spans[id];
                span.asked > written && span.durable.is_some_and(|durable| durable < asked)
            };
            sector.destroyers.iter().any(after)
        })
    }

    /// Compares what a read gave, sector by sector.
    fn check(&mut self, asked: u64, from: u64, expected: &[u32], data: &[u8]) -> Result<(), String> {
        for (at, (bytes, &number)) in (from..).zip(data.chunks_exact(SECTOR).zip(expected)) {
            let sector = &self.sectors[at as usize];
            if bytes.iter().all(|&byte| byte == PATTERN) {
                self.destroyed += 1;
                if sector.destroyers.is_empty() {
                    return Err(format!("sector {at} is given as destroyed, and nothing destroyed it"));
                }
                continue;
            }
            if self.must_be_destroyed(sector, asked) {
                return Err(format!("sector {at} was destroyed and is given"));
            }
            let right = if number == 0 { vec![0; SECTOR] } else { bytes_of(at, at + 1, number) };
            if bytes != right {
                return Err(format!("sector {at} is not of write {number}: {:?}", &bytes[..16]));
            }
        }
        Ok(())
    }
}

/// What was asked.
enum Asked {
    Read { at: u64, from: u64, expected: Vec<u32> },
    Write { fua: bool },
    Flush { at: u64 },
}

fn live(target: &mut impl Target, mut disk: Disk, random: &mut Random, count: u64) -> Result<u64, String> {
    let (sender, answers) = channel();
    let mut outstanding: HashMap<u64, (u64, u64, Asked)> = HashMap::new();
    let mood = Mood::draw(random);
    let all = disk.sectors.len() as u64;
    for id in 0..count + 1 {
        let last = id == count;
        let len = [1, 1, 3, 8, 16, 40][random.below(6) as usize];
        let part = [all, 120][random.below(2) as usize];
        let from = random.below(part);
        let to = (from + len).min(all);
        let kind = random.below(10);
        let changes = kind < 6;
        // A read and a change of the same sectors are not outstanding together.
        let meets = |(start, end, asked): &(u64, u64, Asked)| {
            *start < to && from < *end && changes != matches!(asked, Asked::Write { .. })
        };
        loop {
            for (id, result, data) in answers.try_iter() {
                disk.now += 1;
                let (_, _, asked) = outstanding.remove(&id).ok_or("answered twice")?;
                hear(&mut disk, id, asked, result, data)?;
            }
            if last && outstanding.is_empty() {
                return Ok(disk.destroyed);
            }
            if !last && outstanding.len() < mood.depth && !outstanding.values().any(meets) {
                break;
            }
            target.pass(random);
        }
        disk.now += 1;
        let (offset, bytes) = (from * SECTOR as u64, (to - from) * SECTOR as u64);
        let fua = random.below(8) == 0;
        let (command, data, asked) = match kind {
            0..=4 => {
                disk.write(id, (from, to), id as u32 + 1);
                let command = Command::of_bytes(Op::Write, offset, bytes).with_fua(fua);
                (command, bytes_of(from, to, id as u32 + 1), Asked::Write { fua })
            }
            5 => {
                disk.write(id, (from, to), 0);
                let command = Command::of_bytes(Op::WriteZeroes, offset, bytes).with_fua(fua);
                (command, Vec::new(), Asked::Write { fua })
            }
            6 => (Command::FLUSH, Vec::new(), Asked::Flush { at: disk.now }),
            _ => {
                let sectors = &disk.sectors[from as usize..to as usize];
                let expected =
                    sectors.iter().map(|sector| sector.newest.map_or(0, |(_, number)| number)).collect();
                let asked = Asked::Read { at: disk.now, from, expected };
                (Command::of_bytes(Op::Read, offset, bytes), vec![0; bytes as usize], asked)
            }
        };
        outstanding.insert(id, (from, if kind == 6 { from } else { to }, asked));
        let sender = sender.clone();
        let answer = move |Completion { outcome, data, .. }| drop(sender.send((id, outcome.status(), data)));
        target.submit(Job::new(command, data, Box::new(answer)));
        if random.below(3) == 0 {
            target.pass(random);
        }
    }
    Ok(disk.destroyed)
}

fn hear(
    disk: &mut Disk,
    id: u64,
    asked: Asked,
    result: Result<(), Failure>,
    data: Vec<u8>,
) -> Result<(), String> {
    match asked {
        Asked::Read { at, from, expected } => {
            result.map_err(|failure| format!("command {id}, a read: {failure}"))?;
            disk.check(at, from, &expected, &data).map_err(|why| format!("command {id}, a read: {why}"))
        }
        Asked::Write { fua } => {
            disk.written(id, fua);
            result.map_err(|failure| format!("command {id}: {failure}"))
        }
        Asked::Flush { at } => {
            disk.flushed(at);
            result.map_err(|failure| format!("command {id}, a flush: {failure}"))
        }
    }
}

fn lives(timing: Timing) {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let lives = number("SKYLIGHT_SERVED_OPERATIONS", 400_000) / 20 / LIFE + 4;
    let specs = segments();
    let geometry = Geometry::new(&specs).expect("segments that add up");
    let under_head = under_head(&specs, &geometry, WIDTH_TRACKS);
    let mut destroyed = 0;
    for life in 0..lives {
        let (write_cache, seed) = (life % 2 == 0, seed.wrapping_mul(1_000_003).wrapping_add(life));
        let mut random = Random(seed);
        let options = Options { write_cache, log_bytes: Some(16_384), ..Options::default() };
        let image = image(ReadMode { data: ReadData::Pattern, fail: false }, &options);
        let disk = Disk::new(under_head.clone(), write_cache);
        let mut target = AnyTarget::new(image, timing, write_cache, &mut random, seed);
        let lived = live(&mut target, disk, &mut random, LIFE);
        destroyed +=
            lived.unwrap_or_else(|why| panic!("{timing:?}, write cache {write_cache}, seed {seed}: {why}"));
    }
    println!("{timing:?}: {lives} disks, {destroyed} sectors read as destroyed");
    assert!(destroyed > lives, "hardly anything was destroyed");
}

in_every_timing!(lives);

/// When the write came that a refused read names.
fn refused_write_came(backend: &dyn Backend) -> SystemTime {
    let mut data = vec![0; 48 * SECTOR];
    let (all, track_bytes) = (data.len() as u64, data.len() as u64 / 2);
    backend.execute(&Command::of_bytes(Op::Write, 0, all), &mut data).expect("a write of two tracks");
    let track = &mut data[..track_bytes as usize];
    backend.execute(&Command::of_bytes(Op::Write, 0, track_bytes), track).expect("a write of the first one");
    backend
        .execute(&Command::of_bytes(Op::Read, track_bytes, track_bytes), track)
        .expect_err("it is overwritten");
    let status = backend.status();
    let line = status["shingled"]["last_refused"].as_str().expect("a line");
    let (_, at) = line.split_once(" at ").expect("a time");
    humantime::parse_rfc3339(at.split(',').next().unwrap_or_default())
        .unwrap_or_else(|why| panic!("{line}: {why}"))
}

/// The layer is told the time by the wall's clock in model time too, where the drive has one of its own.
#[test]
fn a_refused_read_names_the_time_of_day_in_every_timing_mode() {
    for timing in [Timing::None, Timing::Model] {
        let image = image(ReadMode { data: ReadData::Overwriting, fail: true }, &Options::default());
        let began = SystemTime::now();
        let backend = alone(image, timing, Interface::draw(&mut Random(1), false), Box::new(|_| ()));
        let came = refused_write_came(backend.as_ref());
        let (from, to) = (began - Duration::from_secs(1), SystemTime::now() + Duration::from_secs(1));
        assert!(from <= came && came <= to, "{timing:?}: {came:?} is not from {from:?} to {to:?}");
    }
}

/// The pattern is the profile's, in whatever mode the disk was when it was opened.
#[test]
fn a_disk_that_is_served_in_another_mode_keeps_the_pattern_of_its_profile() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/skylight/profiles/swd-160gb.toml");
    let text = std::fs::read_to_string(path).expect("a profile");
    let text = text.replace("read = \"data\"", "read = \"pattern\"\npattern = 171");
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan {
        profile: Some(Profile::from_toml(&text, "patterned").unwrap_or_else(|error| panic!("{error}"))),
        image: folder.path().join("disk.img"),
        cache_on: None,
        timing: ServedTiming::None,
        write_cache: None,
        look_ahead: None,
        checksums: None,
        overwrite: false,
        seed: 1,
        delays: None,
        faults: None,
        log: None,
        read_mode: Some(ReadModeName::Data),
        width_tracks: None,
        hbuffer: None,
        refused: None,
    };
    let backend = open(plan).unwrap_or_else(|error| panic!("{error}")).backend;
    let mut data = vec![0x55; 2200 * SECTOR];
    let track_bytes = data.len() as u64;
    for track in [1, 0] {
        backend
            .execute(&Command::of_bytes(Op::Write, track * track_bytes, track_bytes), &mut data)
            .expect("a write of a track");
    }
    backend.set(&Setting::ReadMode(ReadModeName::Performance)).expect("a raw shingled disk");
    let sector = &mut data[..SECTOR];
    backend.execute(&Command::of_bytes(Op::Read, track_bytes, SECTOR as u64), sector).expect("a pattern");
    assert!(sector.iter().all(|&byte| byte == 171), "{:#x}", sector[0]);
}
