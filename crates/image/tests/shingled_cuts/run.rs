//! A shingled disk's life in sessions, and a cut after every effect of each.

use std::time::Duration;

use crate::media::fault::{FaultStore, Medium, Random};
use crate::media::ram::RamStore;
use skylight_disk::{Angle, Geometry, Lba, LbaExtent, Pba, Sectors, SegmentSpec, Shingling};
use skylight_image::planted_bugs::{Planted, Plants};
use skylight_image::store::checksummed::SumOptions;
use skylight_image::{Image, Options};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};
use skylight_layer::{Bands, Layer, StretchSpec, Swd, SwdSpec};

use crate::common::{Event, Lives, Session};
use crate::oracle::{Found, Oracle, Write, bytes_of};
use crate::surface::under_head;

const WIDTH_TRACKS: u32 = 4;
/// Commands of a session, at most.
const SESSION: u64 = 40;
/// Bytes of a region of the checksums, so that the disk has some.
const REGION: u64 = 32 << 10;

/// What came up, to be sure that it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub cuts: u64,
    pub checkpoints: u64,
    pub clean_starts: u64,
    pub overwritten: u64,
    pub cuts_in_recovery: u64,
}

/// A command, or the end of a session.
#[derive(Clone, Debug)]
pub enum Op {
    Write(Vec<Write>, bool),
    Zero(Write),
    Flush,
    Trim(u64, u64),
    Close,
}

/// See the module page.
pub struct Life {
    spec: SwdSpec,
    options: Options,
    random: Random,
    oracle: Oracle,
    next_value: u64,
    pub seen: Seen,
}

/// Three recording zones on one surface, skewed by no whole sector.
fn segments() -> Vec<SegmentSpec> {
    [(0, 14, 24), (14, 12, 19), (26, 15, 16)]
        .into_iter()
        .map(|(first_track, tracks, sectors_per_track)| SegmentSpec {
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
        })
        .collect()
}

impl Life {
    pub fn new(
        banded: bool,
        (write_cache, checksums): (bool, bool),
        seed: u64,
        planted: Option<Planted>,
    ) -> Self {
        let specs = segments();
        let geometry = Geometry::new(&specs).expect("segments that add up");
        // Bands of two tracks of the first zone with a guard, and of what there is behind.
        let stretch = |sectors, band, guard, start| StretchSpec {
            sectors: Sectors(sectors),
            band: Sectors(band),
            guard: Sectors(guard),
            start: Pba(start),
        };
        let bands = banded.then(|| Bands::new(&[stretch(96, 48, 72, 0), stretch(150, 50, 57, 336)]));
        let capacity = if banded { Sectors(246) } else { geometry.capacity() };
        let shingling = Shingling::new(WIDTH_TRACKS).expect("a head");
        let mode = ReadMode { data: ReadData::Overwriting, fail: false };
        let under_head = under_head(&specs, &geometry, WIDTH_TRACKS);
        let places = (0..capacity.get())
            .map(|sector| bands.as_ref().map_or(sector, |bands| bands.native(Lba(sector)).get()));
        let oracle = Oracle::new(under_head, places.collect(), !write_cache);
        Self {
            spec: SwdSpec { geometry, shingling, capacity, bands, mode, pattern: 0 },
            options: Options {
                write_cache,
                plants: planted.into(),
                log_bytes: Some(16_384),
                checksums,
                sums: SumOptions {
                    boot_id: Some([0; 16]),
                    region_bytes: Some(REGION),
                    clears_after: Some(Duration::ZERO),
                    plants: Plants::NONE,
                },
                ..Options::default()
            },
            random: Random(seed),
            oracle,
            next_value: 1,
            seen: Seen::default(),
        }
    }

    /// What sectors may be.
    #[allow(dead_code, reason = "another test looks at it")]
    pub fn current(&self) -> &Oracle {
        &self.oracle
    }

    /// A write: near others, behind the last one, or anywhere.
    fn draw_write(&mut self, number: u64, after: Option<u64>) -> Write {
        let sectors = self.oracle.places.len() as u64;
        let random = &mut self.random;
        let len = [1, 1, 3, 8, 16, 40][random.below(6) as usize];
        let from = match random.below(3) {
            0 => after.unwrap_or(0) % sectors,
            1 => random.below(sectors.min(120)),
            _ => random.below(sectors),
        };
        self.next_value += 1;
        Write { from, to: (from + len).min(sectors), number, value: self.next_value }
    }

    fn draw(&mut self, image: &mut Image) -> Op {
        let written = image.overwriting().expect("it overwrites").counters().writes;
        match self.random.below(12) {
            0..=7 => {
                let count = if self.random.below(3) == 0 { 2 + self.random.below(5) } else { 1 };
                let mut writes: Vec<Write> = Vec::new();
                for number in written + 1..=written + count {
                    writes.push(self.draw_write(number, writes.last().map(|write| write.to)));
                }
                Op::Write(writes, self.random.below(6) == 0)
            }
            8 => Op::Zero(Write { value: 0, ..self.draw_write(written + 1, None) }),
            9 => {
                let Write { from, to, .. } = self.draw_write(0, None);
                Op::Trim(from, to)
            }
            _ => Op::Flush,
        }
    }
}

impl Lives for Life {
    type Op = Op;
    type Found = Found;
    type Oracle = Oracle;

    fn layer(&self) -> Box<dyn Layer> {
        Box::new(Swd::new(self.spec.clone()))
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn oracle(&mut self) -> &mut Oracle {
        &mut self.oracle
    }

    fn cuts(&mut self) -> &mut u64 {
        &mut self.seen.cuts
    }

    fn session(&mut self, store: RamStore) -> Result<Session<Op, Found>, String> {
        self.power_is_back();
        let start = Medium::new(store.clone());
        let store = FaultStore::new(store);
        let mut now = self.oracle.clone();
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        now.check_cut(&found)?;
        now.found(&found);
        let mut events = vec![(store.effects(), Event::Found(found))];
        self.seen.clean_starts += u64::from(image.status().recovery.clean);
        for _ in 0..1 + self.random.below(SESSION) {
            let op = self.draw(&mut image);
            events.push((store.effects(), Event::Begin(op.clone())));
            begin(&mut now, &op);
            ask(&now, &mut image, &op)?;
            events.push((store.effects(), Event::End(op.clone())));
            end(&mut now, &op);
            if self.random.below(6) == 0 {
                now.check_now(&self.look_at(&mut image)?).map_err(|why| format!("in a session: {why}"))?;
            }
        }
        now.check_now(&self.look_at(&mut image)?).map_err(|why| format!("at its end: {why}"))?;
        self.seen.checkpoints += image.status().counters.checkpoints;
        if self.random.below(3) == 0 {
            events.push((store.effects(), Event::Begin(Op::Close)));
            image.close().map_err(|error| error.to_string())?;
            events.push((store.effects(), Event::End(Op::Close)));
        }
        Ok(Session { start, effects: store.take_effects(), events })
    }

    fn happen(&mut self, event: Event<Op, Found>) {
        match event {
            Event::Begin(op) => begin(&mut self.oracle, &op),
            Event::End(op) => end(&mut self.oracle, &op),
            Event::Found(found) => self.oracle.found(&found),
        }
    }

    fn power_is_back(&mut self) {
        self.options.sums.boot_id = Some((u128::from(self.random.below(u64::MAX)) + 1).to_le_bytes());
    }

    fn cut(&mut self, medium: &Medium) -> Result<(), String> {
        self.power_is_back();
        let left = medium.cut(&mut self.random);
        let store = FaultStore::new(left.clone());
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        self.oracle.check_cut(&found)?;
        let effects = store.take_effects();
        if effects.is_empty() || self.random.below(3) > 0 {
            return Ok(());
        }
        self.cut_in_recovery(left, &effects, &found)?;
        self.seen.cuts_in_recovery += 1;
        Ok(())
    }

    /// What the disk says of every sector, and gives for it.
    fn look_at(&mut self, image: &mut Image) -> Result<Found, String> {
        let sectors = self.oracle.places.len();
        let mut found = Found { states: vec![None; sectors], bytes: vec![0; sectors * 512] };
        image.read(0, &mut found.bytes).map_err(|error| error.to_string())?;
        let all = LbaExtent::new(Lba(0), Sectors(sectors as u64));
        for loss in image.overwriting().expect("it overwrites").losses(all) {
            // Between tracks of unlike sizes each sector is told on its own.
            for number in 0..loss.lba.len.get() {
                found.states[(loss.lba.start.get() + number) as usize] =
                    Some((loss.source.get() + number, loss.by.write));
            }
        }
        self.seen.overwritten += u64::from(found.states.iter().any(Option::is_some));
        image.audit()?;
        Ok(found)
    }
}

fn begin(oracle: &mut Oracle, op: &Op) {
    match op {
        Op::Write(writes, _) => writes.iter().for_each(|&write| oracle.begin(write)),
        Op::Zero(write) => oracle.begin(*write),
        Op::Flush | Op::Trim(..) | Op::Close => {}
    }
}

fn end(oracle: &mut Oracle, op: &Op) {
    match op {
        // A write that must be durable makes all before it so.
        Op::Write(_, true) | Op::Flush | Op::Close => oracle.durable(),
        Op::Write(..) | Op::Zero(_) if oracle.strict => oracle.durable(),
        _ => {}
    }
}

fn ask(oracle: &Oracle, image: &mut Image, op: &Op) -> Result<(), String> {
    let done = match op {
        Op::Write(writes, fua) => {
            let data: Vec<_> = writes.iter().map(|&write| bytes_of(&oracle.places, write)).collect();
            let together: Vec<_> = writes
                .iter()
                .zip(&data)
                .map(|(write, data)| skylight_image::Write { offset: write.from * 512, data, fua: *fua })
                .collect();
            image.write_many(&together)
        }
        Op::Zero(write) => image.write_zeroes(write.from * 512, (write.to - write.from) * 512, false),
        Op::Flush => image.flush(),
        Op::Trim(from, to) => image.trim(from * 512, (to - from) * 512),
        Op::Close => Ok(()),
    };
    done.map_err(|error| error.to_string())
}
