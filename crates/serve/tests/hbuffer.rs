//! A host buffer before a served drive with zones: the right bytes against a shadow, with many commands outstanding, and after
//! a restart; block status that loses none of them.
//!
//! `SKYLIGHT_SERVED_OPERATIONS` is how many commands there are in all (4,000 if it is not set), `PROPTEST_RNG_SEED` the seed (1).

mod common;
#[path = "../../image/tests/common/env_number.rs"]
mod env_number;
#[path = "../../image/tests/media/mod.rs"]
mod media;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use common::{Reply, TestServer};
use env_number::number;
use media::fault::{FaultStore, Random};
use media::ram::RamStore;
use skylight_command::CommandId;
use skylight_disk::{Lba, LbaExtent, Pba, Sectors};
use skylight_image::{Image, Options};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel};
use skylight_layer::hbuffer::policies;
use skylight_layer::{ZonedLayer, ZonedSpec};
use skylight_serve::core::hbuffer::{HBufferPlan, HBuffered};
use skylight_serve::core::untimed::ServedImage;
use skylight_serve::core::{
    Backend, BlockState, Command, Completion, Extent, Failure, Job, Op, Outcome, Shape, StatusQuery,
    ZoneAction, ZonePage, push_extent,
};
use skylight_serve::nbd::server::Options as NbdOptions;
use skylight_serve::nbd::wire::{self, chunk, command, command_flag};

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

    /// Zones without a write pointer.
    fn conventional(model: ZoneModel) -> u32 {
        if model == ZoneModel::HostAware { 3 } else { 0 }
    }

    fn layer(model: ZoneModel) -> ZonedLayer {
        let mut layout = ZoneLayout::new(model, Sectors(u64::from(ZONES) * ZONE.get()), ZONE);
        layout.conventional = Self::conventional(model);
        ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None })
    }

    fn start(&self) -> HBuffered {
        self.start_over(Arc::new(self.drive()))
    }

    /// The drive alone, as fast as it goes.
    fn drive(&self) -> ServedImage {
        let layer = Box::new(Self::layer(self.model));
        let image =
            Image::open_on(Box::new(self.store.clone()), layer, &Options::default()).expect("an image");
        ServedImage::new(image, Shape::drive("zoned", 0), "none").expect("a thread")
    }

    fn start_over(&self, drive: Arc<dyn Backend>) -> HBuffered {
        let plan = HBufferPlan { policy: self.policy.to_owned(), zones: Some(LOG_ZONES) };
        let conventional = u64::from(Self::conventional(self.model)) * ZONE.bytes();
        HBuffered::new(Arc::new(Emptied { drive, conventional }), &plan)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A drive that has emptied the zones with a write pointer whenever block status is asked of it: cleaning may have done that between the
/// look into the map and the question.
struct Emptied {
    drive: Arc<dyn Backend>,
    /// Bytes of its conventional zones.
    conventional: u64,
}

impl Backend for Emptied {
    fn shape(&self) -> &Shape {
        self.drive.shape()
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        self.drive.execute(command, data)
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        if offset < self.conventional {
            return self.drive.block_status(offset, len, query, limit, extents);
        }
        push_extent(extents, len, BlockState::Hole);
        Ok(())
    }

    fn zones(&self, first: u32, most: usize) -> Result<Option<ZonePage>, Failure> {
        self.drive.zones(first, most)
    }

    fn is_async(&self) -> bool {
        self.drive.is_async()
    }

    fn submit(&self, job: Job) {
        self.drive.submit(job);
    }

    fn close(&self) -> Result<(), String> {
        self.drive.close()
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
        assert_eq!(completion.outcome, Outcome::Done, "{command:?}");
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

/// The write pointers of a drive; 0 where a zone has none.
fn write_pointers(drive: &dyn Backend) -> Vec<u64> {
    let page = drive.zones(0, ZONES as usize).expect("the drive works").expect("it has zones");
    page.zones.iter().map(|zone| zone.write_pointer.unwrap_or_default().get()).collect()
}

#[test]
fn what_a_drive_refuses_to_read_is_not_taken_for_unreadable_sectors() {
    // So few places that each sector of them is looked at, if the drive is asked again.
    const PLACES: u64 = 4;
    // A host-managed drive refuses reads behind a write pointer, and says so in every timing mode.
    let disk = Disk::new(ZoneModel::HostManaged, "buffer");
    let drive = Arc::new(disk.drive());
    let backend = disk.start_over(drive.clone());
    let write = |number: u64| {
        let command = Command::of_bytes(Op::Write, number % PLACES * 8192, 4096);
        let before = write_pointers(drive.as_ref());
        let written = backend.execute(&command, &mut [7; 4096]);
        let after = write_pointers(drive.as_ref());
        written.map(|()| (0..ZONES).find(|&zone| after[zone as usize] > before[zone as usize]))
    };
    // The log goes on in its second zone. What the first one has is lost then, behind the back of the buffer.
    let first = write(0).expect("there is space").expect("it is in a zone");
    let number =
        (1..1000).find(|&number| write(number) != Ok(Some(first))).expect("a zone of the log is full");
    let zone = LbaExtent::new(Lba(u64::from(first) * ZONE.get()), ZONE);
    let (sender, receiver) = channel();
    let answer = move |completion: Completion| sender.send(completion.outcome).expect("the test waits");
    let reset = Command::new(CommandId(0), Op::Zone(ZoneAction::Reset), zone);
    drive.submit(Job::new(reset, Vec::new(), Box::new(answer)));
    assert_eq!(receiver.recv(), Ok(Outcome::Done));
    let refused = || {
        let read = |at| backend.execute(&Command::of_bytes(Op::Read, at * 8192, 4096), &mut [0; 4096]);
        let refused: Vec<Failure> = (0..PLACES).filter_map(|at| read(at).err()).collect();
        assert!(refused.iter().all(|&failure| failure == Failure::ReadInvalidData), "{refused:?}");
        refused.len()
    };
    let lost = refused();
    assert!(lost > 0);
    // The log has no space without that zone, whose cleaning has to read it.
    let other = |number: u64| Command::of_bytes(Op::Write, (1000 + number % 1000) * 8192, 4096);
    let failed = (0..3000).find_map(|number| backend.execute(&other(number), &mut [8; 4096]).err());
    assert_eq!(failed, Some(Failure::ReadInvalidData), "after {number} writes");
    assert_eq!(refused(), lost, "sectors were given up");
}

/// Writes single sectors of some home zones, out of order; the others stay as they are.
fn write_some(backend: &HBuffered, holds: &mut [u8], random: &mut Random, writes: u64) {
    let homes = backend.shape().size / BYTES / ZONE.get();
    for _ in 0..writes {
        let (home, sectors) = (random.below(homes.div_ceil(2)) * 2, 1 + random.below(40));
        let start = home * ZONE.get() + random.below(ZONE.get() - sectors);
        let command = Command::of_bytes(Op::Write, start * BYTES, sectors * BYTES);
        let mut data = vec![1 + random.below(255) as u8; (sectors * BYTES) as usize];
        backend.execute(&command, &mut data).expect("a write");
        holds[(start * BYTES) as usize..][..data.len()].copy_from_slice(&data);
    }
}

/// The bytes that a walk over the block status calls holes; none of them may be of a sector that holds data.
fn holes(server: &TestServer, holds: &[u8], one: bool) -> u64 {
    let mut client = server.client(true, &["base:allocation"]);
    let flags = if one { command_flag::REQ_ONE } else { 0 };
    let (size, mut at, mut holes) = (holds.len() as u64, 0, 0);
    while at < size {
        client.send_request(command::BLOCK_STATUS, flags, at, (size - at) as u32, &[]);
        let Reply::Chunk { kind: chunk::BLOCK_STATUS, data, .. } = client.reply() else {
            panic!("no block status at {at}");
        };
        for index in (4..data.len()).step_by(8) {
            let word = |at| u64::from(wire::u32_at(&data, at).expect("a number"));
            let (len, is_hole) = (word(index), word(index + 4) != 0);
            assert!(len > 0 && at + len <= size, "{len} bytes at {at}");
            if is_hole {
                let lost = holds[at as usize..(at + len) as usize].iter().position(|&byte| byte != 0);
                assert_eq!(lost, None, "data in the hole of {len} bytes at {at}, request of one: {one}");
                holes += len;
            }
            at += len;
        }
    }
    holes
}

#[test]
fn block_status_calls_nothing_a_hole_that_has_data() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    println!("seed {seed}");
    for model in [ZoneModel::HostManaged, ZoneModel::HostAware] {
        let disk = Disk::new(model, "buffer");
        let backend = Arc::new(disk.start());
        let mut random = Random(seed);
        let mut holds = vec![0; backend.shape().size as usize];
        let server = TestServer::new(backend.clone(), NbdOptions::default());
        // So little that it all stays in the log, and so much that all of it was cleaned some time.
        for writes in [150, 1500] {
            write_some(&backend, &mut holds, &mut random, writes);
            for one in [true, false] {
                let found = holes(&server, &holds, one);
                assert!(found >= holds.len() as u64 / 3, "{found} bytes of holes after {writes} writes");
            }
        }
    }
}
