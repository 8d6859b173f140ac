//! Power cuts in every timing mode: what the volatile cache of the model held is lost with it, what was flushed is not.
//!
//! A session serves a drive and works with it; its effects on the medium are kept, with what the host had asked and
//! heard by then. Then the power is cut after none of them, after the first, and so on (`common`).

use std::time::Duration;

use crate::media::fault::{FaultStore, Medium, Random};
use crate::media::ram::RamStore;
use skylight_image::planted_bugs::Plants;
use skylight_image::store::checksummed::SumOptions;
use skylight_image::{Image, Options};
use skylight_layer::Layer;

use crate::Timing;
use crate::common::{Event, Lives, Session, number};
use crate::drives::{DRIVES, Drive, SECTORS};
use crate::host::{Host, Mood, Seen, Target};
use crate::shadow::{Op, SECTOR, Shadow};
use crate::targets::AnyTarget;

/// Commands of a session.
const SESSION: u64 = 60;
/// Of the regions whose checksums a cut leaves unsure: many on a small drive.
const REGION_BYTES: u64 = 64 << 10;

/// See the module page.
struct Life {
    drive: Drive,
    timing: Timing,
    options: Options,
    random: Random,
    shadow: Shadow,
    cuts: u64,
    cuts_in_recovery: u64,
}

impl Life {
    fn new(drive: Drive, timing: Timing, (write_cache, checksums): (bool, bool), seed: u64) -> Self {
        let (log_bytes, piece) = (Some(8192), Some(3));
        let sums = SumOptions {
            boot_id: Some([0; 16]),
            region_bytes: Some(REGION_BYTES),
            clears_after: Some(Duration::ZERO),
            plants: Plants::NONE,
        };
        let options = Options { write_cache, log_bytes, piece, checksums, sums, ..Options::default() };
        let (random, shadow) = (Random(seed), Shadow::new(SECTORS, write_cache));
        Self { drive, timing, options, random, shadow, cuts: 0, cuts_in_recovery: 0 }
    }

    /// Works with a drive and often switches it off.
    fn work(&mut self, host: &mut Host, target: &mut impl Target, count: u64) -> Result<bool, String> {
        let mood = Mood::draw(&mut self.random);
        host.work(target, &mut self.random, count, mood)?;
        host.look_at_all(target, &mut self.random)?;
        Ok(self.random.below(3) == 0)
    }

    fn serve(&mut self, host: &mut Host, image: Image, count: u64) -> Result<bool, String> {
        let (write_cache, seed) = (self.options.write_cache, self.cuts);
        let mut target = AnyTarget::new(image, self.timing, write_cache, &mut self.random, seed);
        let closes = self.work(host, &mut target, count)?;
        if closes {
            target.close()?
        }
        Ok(closes)
    }

    /// The drive that was cut goes on, and keeps what it flushes.
    fn work_on(&mut self, image: Image, store: &FaultStore, found: &[u8]) -> Result<(), String> {
        let mut shadow = self.shadow.clone();
        shadow.found(found);
        let mut host = Host::new(shadow);
        let count = self.random.below(6);
        let closed = self.serve(&mut host, image, count).map_err(|why| format!("working on: {why}"))?;
        let mut shadow = host.shadow;
        if closed {
            shadow.closed();
        }
        // The numbers that were used for this are used again.
        let mut image = self.open(store).map_err(|why| format!("after a kill: {why}"))?;
        let found = self.look_at(&mut image)?;
        shadow.check_cut(&found).map_err(|why| format!("after a kill: {why}"))
    }
}

impl Lives for Life {
    type Op = (u64, Op);
    type Found = Vec<u8>;
    type Oracle = Shadow;

    fn layer(&self) -> Box<dyn Layer> {
        (self.drive.layer)()
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn oracle(&mut self) -> &mut Shadow {
        &mut self.shadow
    }

    fn cuts(&mut self) -> &mut u64 {
        &mut self.cuts
    }

    fn session(&mut self, store: RamStore) -> Result<Session<(u64, Op), Vec<u8>>, String> {
        self.options.every_access = self.timing == Timing::Native && self.random.below(2) == 0;
        self.power_is_back();
        let start = Medium::new(store.clone());
        let store = FaultStore::new(store);
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        self.shadow.check_cut(&found)?;
        let mut now = self.shadow.clone();
        now.found(&found);
        let mut events = vec![(store.effects(), Event::Found(found))];
        let mut host = Host::new(now);
        host.notes = Some((store.clone(), Vec::new()));
        let count = 1 + self.random.below(SESSION);
        let closed = self.serve(&mut host, image, count)?;
        // What is asked in a session is known of before it happens, so that the numbers are.
        self.shadow.learn_numbers(&host.shadow);
        let notes = host.notes.take().map(|(_, seen)| seen).unwrap_or_default();
        events.extend(notes.into_iter().map(|(at, seen)| match seen {
            Seen::Asked(id, op) => (at, Event::Begin((id, op))),
            Seen::Answered(id, op) => (at, Event::End((id, op))),
        }));
        if closed {
            events.push((store.effects(), Event::End((u64::MAX, Op::Flush))));
        }
        Ok(Session { start, effects: store.take_effects(), events })
    }

    fn power_is_back(&mut self) {
        self.options.sums.boot_id = Some((u128::from(self.random.below(u64::MAX)) + 1).to_le_bytes());
    }

    fn happen(&mut self, event: Event<(u64, Op), Vec<u8>>) {
        match event {
            Event::Begin((id, op)) => self.shadow.ask(id, op),
            Event::End((u64::MAX, _)) => self.shadow.closed(),
            // What a read gave was compared when it came.
            Event::End((id, Op::Read { .. })) => self.shadow.forget(id),
            Event::End((id, op)) => self.shadow.answer(id, &[]).unwrap_or_else(|why| panic!("{op:?}: {why}")),
            Event::Found(bytes) => self.shadow.found(&bytes),
        }
    }

    fn cut(&mut self, medium: &Medium) -> Result<(), String> {
        let left = medium.cut(&mut self.random);
        self.power_is_back();
        let store = FaultStore::new(left.clone());
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        self.shadow.check_cut(&found)?;
        let effects = store.take_effects();
        if !effects.is_empty() && self.random.below(4) == 0 {
            self.cut_in_recovery(left, &effects, &found)?;
            self.cuts_in_recovery += 1;
        }
        if self.random.below(8) == 0 {
            self.work_on(image, &store, &found)?;
        }
        Ok(())
    }

    fn look_at(&mut self, image: &mut Image) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; SECTORS as usize * SECTOR];
        image.read(0, &mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

fn lives(timing: Timing) {
    let (cuts, seed) = (number("SKYLIGHT_SERVED_CUTS", 6_000), number("PROPTEST_RNG_SEED", 1));
    let each = cuts / (2 * 4 * DRIVES.len() as u64) + 1;
    let (mut all, mut in_recovery) = (0, 0);
    for drive in DRIVES {
        for how in [(false, false), (true, false), (false, true), (true, true)] {
            let mut life = Life::new(drive, timing, how, seed);
            if let Err(why) = life.live(each) {
                let how = format!("{timing:?}, write cache and checksums {how:?}, seed {seed}");
                panic!("{}, {how}, cut {}: {why}", drive.name, life.cuts);
            }
            (all, in_recovery) = (all + life.cuts, in_recovery + life.cuts_in_recovery);
        }
    }
    println!("{timing:?}, seed {seed}: {all} cuts, {in_recovery} of them during recovery too");
}

#[test]
fn in_model_time() {
    lives(Timing::Model);
}

#[test]
fn over_a_disk_that_sets_the_time() {
    lives(Timing::Native);
}
