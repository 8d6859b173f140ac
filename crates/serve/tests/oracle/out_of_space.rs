//! A medium without space: what changes bytes may be refused, reads give what was written, and all goes on by itself when
//! there is space again.

use std::time::Duration;

use crate::media::fault::{FaultStore, Full, Random};
use crate::media::ram::RamStore;
use skylight_image::Image;

use crate::Timing;
use crate::common::number;
use crate::drives::{DRIVES, Drive, SECTORS};
use crate::host::{Host, Mood, Target};
use crate::shadow::{Op, SECTOR, Shadow};
use crate::targets::AnyTarget;
use crate::without_power_cuts::options;

/// Most commands of a stretch.
const STRETCH: u64 = 60;
/// Times that the medium is full in one life.
const TIMES: u64 = 8;
/// Tries after there is space again until all succeeds, at most: some seconds of the model's.
const PATIENCE: u64 = 1000;

/// One drive's life.
struct Life {
    store: FaultStore,
    host: Host,
    random: Random,
}

impl Life {
    fn stretch(&mut self, target: &mut impl Target) -> Result<(), String> {
        let (count, mood) = (1 + self.random.below(STRETCH), Mood::draw(&mut self.random));
        self.host.work(target, &mut self.random, count, mood)?;
        self.host.look_at_all(target, &mut self.random)
    }

    fn live(&mut self, target: &mut impl Target) -> Result<(), String> {
        for _ in 0..TIMES {
            let full = [Full::Holes, Full::Writes][self.random.below(2) as usize];
            self.store.full_after(self.random.below(40), full);
            self.host.may_be_full = true;
            self.stretch(target).map_err(|why| format!("{full:?}: {why}"))?;
            self.store.mend();
            self.goes_on(target)?;
            self.host.may_be_full = false;
            self.stretch(target).map_err(|why| format!("after {full:?}: {why}"))?;
            self.store.take_effects();
        }
        Ok(())
    }

    /// There is space again: soon enough all is taken. For a while after a refusal a drive does not try.
    fn goes_on(&mut self, target: &mut impl Target) -> Result<(), String> {
        for _ in 0..PATIENCE {
            let refused = self.host.refused;
            let number = self.host.shadow.number(0, 8);
            for op in [Op::Flush, Op::Write { from: 0, to: 8, number, fua: true }] {
                self.host.ask(target, op);
                self.host.settle(target, &mut self.random)?;
            }
            if self.host.refused == refused {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err("there is space again, and changes are still refused".to_owned())
    }
}

/// How often something was refused.
fn live(drive: Drive, timing: Timing, write_cache: bool, seed: u64) -> Result<u64, String> {
    let mut random = Random(seed);
    let options = options(write_cache, false, random.below(2) == 0);
    let store = FaultStore::new(RamStore::new(Image::bytes_needed((drive.layer)().as_ref(), &options)));
    let image = Image::create_on(Box::new(store.clone()), (drive.layer)(), "", &options).expect("memory");
    let mut life = Life { store: store.clone(), host: Host::new(Shadow::new(SECTORS, write_cache)), random };
    let mut target = AnyTarget::new(image, timing, write_cache, &mut life.random, seed);
    life.live(&mut target).and_then(|()| target.close())?;
    let mut image =
        Image::open_on(Box::new(store), (drive.layer)(), &options).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; SECTORS as usize * SECTOR];
    image.read(0, &mut bytes).map_err(|error| error.to_string())?;
    let Life { mut host, .. } = life;
    host.shadow.closed();
    host.shadow.check_cut(&bytes).map_err(|why| format!("started again: {why}"))?;
    Ok(host.refused)
}

fn lives(timing: Timing) {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let each = number("SKYLIGHT_SERVED_OPERATIONS", 400_000) / 80_000 + 1;
    for drive in DRIVES {
        for write_cache in [false, true] {
            let mut refused = 0;
            for life in 0..each {
                let seed = seed.wrapping_mul(1_000_003).wrapping_add(life);
                let lived = live(drive, timing, write_cache, seed);
                let place = || format!("{}, {timing:?}, write cache {write_cache}, seed {seed}", drive.name);
                refused += lived.unwrap_or_else(|why| panic!("{}: {why}", place()));
            }
            assert!(refused > 0, "{}, {timing:?}: the medium was never full", drive.name);
        }
    }
}

in_every_timing!(lives);
