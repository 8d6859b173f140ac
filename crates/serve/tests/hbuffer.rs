//! A host buffer before a served drive with zones: the right bytes against a shadow, with many commands outstanding, and after
//! a restart.
//!
//! `SKYLIGHT_SERVED_OPERATIONS` is how many commands there are in all (4,000 if it is not set), `PROPTEST_RNG_SEED` the seed (1).

#[path = "../../image/tests/media/mod.rs"]
mod media;
#[path = "../../image/tests/common/numbers.rs"]
mod numbers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use media::fault::{FaultStore, Random};
use media::ram::RamStore;
use numbers::number;
use skylight_disk::{Pba, Sectors};
use skylight_image::{Image, Options};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel};
use skylight_layer::hbuffer::policies;
use skylight_layer::{ZonedLayer, ZonedSpec};
use skylight_serve::core::hbuffer::{HBufferPlan, HBuffered};
use skylight_serve::core::served::ServedImage;
use skylight_serve::core::{Backend, Command, Completion, Job, Op, Shape};

const BYTES: u64 = 512;
/// As small as an entry of the log and the records of all zones let it be.
const ZONE: Sectors = Sectors(2500);
const ZONES: u32 = 24;
const LOG_ZONES: u32 = 3;
/// Commands outstanding.
const DEPTH: usize = 24;

struct Disk {
    store: FaultStore,
    model: ZoneModel,
    policy: &'static str,
}

impl Disk {
    fn new(model: ZoneModel, policy: &'static str) -> Self {
        let options = Options::default();
        let layer = Self::layer(model);
        let store = FaultStore::new(RamStore::new(Image::bytes_needed(&layer, &options)));
        let image = Image::create_on(Box::new(store.clone()), Box::new(layer), "", &options).expect("memory");
        image.close().expect("memory");
        Self { store, model, policy }
    }

    fn layer(model: ZoneModel) -> ZonedLayer {
        let mut layout = ZoneLayout::new(model, Sectors(u64::from(ZONES) * ZONE.get()), ZONE);
        layout.conventional = if model == ZoneModel::HostAware { 3 } else { 0 };
        ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None })
    }

    fn start(&self) -> HBuffered {
        let layer = Box::new(Self::layer(self.model));
        let image =
            Image::open_on(Box::new(self.store.clone()), layer, &Options::default()).expect("an image");
        let served = ServedImage::new(image, Shape::drive("zoned", 0), "none").expect("a thread");
        let plan = HBufferPlan { policy: self.policy.to_owned(), zones: Some(LOG_ZONES) };
        HBuffered::new(Arc::new(served), &plan).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// What a disk holds, and commands whose completions are still to come, with what a read has to give.
struct Host<'a> {
    backend: &'a HBuffered,
    holds: &'a mut Vec<u8>,
    outstanding: VecDeque<(Command, Receiver<Completion>, Vec<u8>)>,
}

impl Host<'_> {
    fn submit(&mut self, command: Command, data: Vec<u8>) {
        let (from, to) =
            (command.offset_bytes() as usize, (command.offset_bytes() + command.len_bytes()) as usize);
        match command.op {
            Op::Write => self.holds[from..to].copy_from_slice(&data),
            Op::WriteZeroes => self.holds[from..to].fill(0),
            _ => {}
        }
        // Conflicting commands take effect in the order of submission, so a read gives what was written before it.
        let due = if command.op == Op::Read { self.holds[from..to].to_vec() } else { Vec::new() };
        let (sender, receiver) = channel();
        let answer = move |completion| {
            // The test may have failed.
            let _ = sender.send(completion);
        };
        self.backend.submit(Job::new(command, data, Box::new(answer)));
        self.outstanding.push_back((command, receiver, due));
    }

    fn take(&mut self) {
        let Some((command, receiver, due)) = self.outstanding.pop_front() else { return };
        let completion = receiver.recv().expect("a completion");
        assert_eq!(completion.result, Ok(()), "{command:?}");
        if command.op == Op::Read {
            assert!(completion.data == due, "{command:?} gives other bytes");
        }
    }

    /// A command that the seed says.
    fn random(&mut self, random: &mut Random) {
        let op = match random.below(100) {
            0..50 => Op::Write,
            50..90 => Op::Read,
            90..96 => Op::WriteZeroes,
            _ => Op::Flush,
        };
        if op == Op::Flush {
            return self.submit(Command::FLUSH, Vec::new());
        }
        let size = self.backend.shape().size / BYTES;
        let longest = [8, 200, 4000][random.below(3) as usize];
        let sectors = 1 + random.below(longest);
        // Some places are hot, so that commands conflict.
        let most = if random.below(4) == 0 { 200 } else { size - sectors };
        let start = random.below(most);
        let command = Command::of_bytes(op, start * BYTES, sectors * BYTES).with_fua(random.below(10) == 0);
        let byte = random.below(256) as u8;
        let data = if op == Op::Write { vec![byte; (sectors * BYTES) as usize] } else { Vec::new() };
        self.submit(command, data);
    }
}

fn check(backend: &HBuffered, holds: &[u8]) {
    let mut data = vec![0; 1 << 20];
    for (index, expected) in holds.chunks(1 << 20).enumerate() {
        let data = &mut data[..expected.len()];
        let command = Command::of_bytes(Op::Read, (index << 20) as u64, expected.len() as u64);
        backend.execute(&command, data).expect("a read");
        assert!(data == expected, "MiB {index}");
    }
}

#[test]
fn every_command_gives_what_is_due_and_a_restart_changes_nothing() {
    let (seed, operations) = (number("PROPTEST_RNG_SEED", 1), number("SKYLIGHT_SERVED_OPERATIONS", 4000));
    println!("seed {seed}");
    let models = [ZoneModel::HostManaged, ZoneModel::HostAware];
    let of_each = operations / (models.len() * policies::NAMES.len()) as u64;
    for (model, policy) in models.into_iter().flat_map(|model| policies::NAMES.map(|policy| (model, policy)))
    {
        let disk = Disk::new(model, policy);
        let mut random = Random(seed);
        let mut holds = Vec::new();
        for _ in 0..3 {
            let backend = disk.start();
            holds.resize(backend.shape().size as usize, 0);
            check(&backend, &holds);
            let mut host = Host { backend: &backend, holds: &mut holds, outstanding: VecDeque::new() };
            for _ in 0..of_each / 3 {
                host.random(&mut random);
                while host.outstanding.len() > DEPTH {
                    host.take();
                }
            }
            while !host.outstanding.is_empty() {
                host.take();
            }
            check(&backend, &holds);
            backend.close().unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
