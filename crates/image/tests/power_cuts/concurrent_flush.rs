//! Flushes beside other commands, step by step: what is done while a sync is under way is not durable by it.
//!
//! Each drive writes, begins a flush, has the medium synced, works on until what the cache had of the first writes is
//! given back, and only then ends the flush; it reuses the room, and flushes again. After every effect the power is cut
//! in several ways.

use crate::media::fault::{Effect, FaultStore, Medium, Random};
use crate::media::ram::RamStore;
use skylight_image::planted_bugs::Planted;
use skylight_image::{Image, Options};
use skylight_layer::Idle;

use crate::common::number;
use crate::drives::{DRIVES, Drive, SECTORS};
use crate::oracle::{Op, Oracle, bytes_of};

/// Ways in which the power is cut after each effect.
const WAYS: u64 = 8;
/// Units of idle work: enough to clean all that was written.
const IDLE: usize = 100;

/// A drive, its oracle, and what went wrong first.
struct Beside {
    drive: Drive,
    options: Options,
    store: FaultStore,
    image: Image,
    oracle: Oracle,
    medium: Medium,
    random: Random,
    next_number: u64,
    wrong: Option<String>,
}

impl Beside {
    fn new(drive: Drive, planned: bool, planted: Option<Planted>) -> Self {
        let options = Options {
            write_cache: true,
            planned,
            plants: planted.into(),
            log_bytes: Some(65_536),
            ..Options::default()
        };
        let memory = RamStore::new(Image::bytes_needed((drive.layer)().as_ref(), &options));
        let store = FaultStore::new(memory.clone());
        let image = Image::create_on(Box::new(store.clone()), (drive.layer)(), "", &options);
        let mut medium = Medium::new(memory);
        store.take_effects().iter().for_each(|effect| medium.take(effect));
        medium.take(&Effect::Sync);
        Self {
            drive,
            options,
            store,
            image: image.expect("memory has room"),
            oracle: Oracle::new(SECTORS, true),
            medium,
            random: Random(number("PROPTEST_RNG_SEED", 1)),
            next_number: 1,
            wrong: None,
        }
    }

    /// Does something, and cuts the power after each of its effects.
    fn does<T>(&mut self, op: &Op, act: impl FnOnce(&mut Image) -> T) -> T {
        self.oracle.begin(op);
        let done = act(&mut self.image);
        for effect in self.store.take_effects() {
            self.medium.take(&effect);
            (0..WAYS).for_each(|_| self.cut(op));
        }
        self.oracle.end(op);
        done
    }

    fn cut(&mut self, op: &Op) {
        let store = FaultStore::new(self.medium.cut(&mut self.random));
        let found = Image::open_on(Box::new(store), (self.drive.layer)(), &self.options)
            .map_err(|error| error.to_string())
            .and_then(|mut image| {
                let mut bytes = vec![0; (SECTORS * 512) as usize];
                image.read(0, &mut bytes).map_err(|error| error.to_string())?;
                self.oracle.check_cut(&bytes)
            });
        if let (Err(why), None) = (found, &self.wrong) {
            self.wrong = Some(format!("{}, cut in {op:?}: {why}", self.drive.name));
        }
    }

    fn writes(&mut self, from: u64, to: u64) {
        let number = self.next_number;
        self.next_number += 1;
        let op = Op::Write(vec![(from, to, number)], false);
        self.does(&op, |image| image.write(from * 512, &bytes_of(from, to, number), false))
            .expect("it writes");
    }

    fn idles(&mut self) {
        for _ in 0..IDLE {
            if self.does(&Op::Idle, Image::idle).expect("it idles") != Idle::Worked {
                return;
            }
        }
    }

    /// A flush with other commands after its first sync.
    fn flushes(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        let begun = self.does(&Op::BeginFlush, Image::begin_flush).expect("it begins");
        let Some(mut sync) = begun else { return };
        let mut synced = self.does(&Op::Sync, |_| sync.sync());
        meanwhile(self);
        loop {
            self.oracle.begin(&Op::Sync);
            let next = self.does(&Op::Sync, |image| image.finish_sync(&sync, synced)).expect("it goes on");
            let Some(next) = next else { break };
            synced = self.does(&Op::Sync, |_| next.sync());
            sync = next;
        }
        self.oracle.end(&Op::EndFlush);
    }

    /// See the module page.
    fn lives(mut self) -> Option<String> {
        for round in 0..2 {
            for band in 0..6 {
                self.writes(band * 96, band * 96 + 8 + round);
            }
            self.does(&Op::Flush, Image::flush).expect("it flushes");
            self.writes(1900, 1908);
            self.flushes(|this| {
                // A write behind the cleaning would need a flush in one go, which is what is not wanted here.
                this.writes(2, 10);
                this.idles();
            });
            for band in 6..12 {
                self.writes(band * 96, band * 96 + 40);
            }
            self.flushes(|this| this.writes(98, 100));
            self.flushes(|_| ());
        }
        self.wrong
    }
}

#[test]
fn what_is_done_while_a_sync_is_under_way_is_not_durable_by_it() {
    for drive in DRIVES {
        assert_eq!(Beside::new(drive, true, None).lives(), None);
        assert_eq!(Beside::new(drive, false, None).lives(), None, "in place");
    }
}

#[test]
fn faults_of_flushes_beside_other_commands_are_noticed() {
    for planted in [Planted::DurableTooSoon, Planted::FreedTooSoon] {
        let found = DRIVES.into_iter().find_map(|drive| Beside::new(drive, true, Some(planted)).lives());
        println!("{planted:?}: {}", found.unwrap_or_else(|| panic!("{planted:?} went unnoticed")));
    }
}
