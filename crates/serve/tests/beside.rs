//! Reads beside each other, and beside what changes the image under them.
//!
//! That reads go on at the same time is shown without a clock: on a medium on which a read ends only when another one
//! has begun. That they read right is shown by numbers in the blocks: what a read finds was written before it ended,
//! and is no older than what was answered before it began.

mod common;
#[path = "../../image/tests/power_cuts/drives.rs"]
mod drives;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use common::{House, PATIENCE, Reply};
use drives::DRIVES;
use skylight_disk::{SPLITMIX64_STEP, splitmix64};
use skylight_image::store::ram::RamStore;
use skylight_image::store::{Reads, Syncs};
use skylight_image::{Image, Options, Store};
use skylight_serve::core::served::ServedImage;
use skylight_serve::core::{Backend, Command, Op, Shape};
use skylight_serve::nbd::server::Options as Allowed;
use skylight_serve::nbd::wire::{chunk, command};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = drives::SECTORS * 512 / BLOCK;

/// Where readers meet: how many must have come before the first may go, and how many came.
#[derive(Default)]
struct Meeting {
    wanted: Mutex<(usize, usize)>,
    came: Condvar,
}

impl Meeting {
    fn call(&self, readers: usize) {
        *self.wanted.lock().expect("nobody panics") = (readers, 0);
    }

    /// Waits for the others; an error if they do not come.
    fn meet(&self) -> io::Result<()> {
        let mut wanted = self.wanted.lock().expect("nobody panics");
        wanted.1 += 1;
        self.came.notify_all();
        let alone = |wanted: &mut (usize, usize)| wanted.1 < wanted.0;
        let (_wanted, waited) = self.came.wait_timeout_while(wanted, PATIENCE, alone).expect("nobody panics");
        if waited.timed_out() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// Memory on which readers meet.
#[derive(Clone)]
struct MeetingStore {
    memory: Arc<Mutex<RamStore>>,
    meeting: Arc<Meeting>,
    /// Where syncs meet.
    syncs: Arc<Meeting>,
}

impl Syncs for MeetingStore {
    fn sync(&self) -> io::Result<()> {
        self.syncs.meet()
    }
}

impl Reads for MeetingStore {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.meeting.meet()?;
        Store::read_at(self, offset, buffer)
    }
}

impl Store for MeetingStore {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn len_bytes(&self) -> u64 {
        self.memory.lock().expect("nobody panics").len_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.memory.lock().expect("nobody panics").read_at(offset, buffer)
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        Some(Arc::new(self.clone()))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        // A sector at a time, so that a read beside it would see a torn block.
        for (index, sector) in data.chunks(512).enumerate() {
            self.memory.lock().expect("nobody panics").write_at(offset + index as u64 * 512, sector)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        Some(Arc::new(self.clone()))
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.memory.lock().expect("nobody panics").discard(offset, len)
    }
}

/// A drive with nothing in it, and where its reads meet.
fn served(drive: &drives::Drive) -> (ServedImage, Arc<Meeting>) {
    let (backend, meeting, _) = served_with_syncs(drive);
    (backend, meeting)
}

/// The same, and where its syncs meet.
fn served_with_syncs(drive: &drives::Drive) -> (ServedImage, Arc<Meeting>, Arc<Meeting>) {
    let layer = (drive.layer)();
    let options = Options { write_cache: true, log_bytes: Some(8192), ..Options::default() };
    let memory = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
    let store =
        MeetingStore { memory: Arc::new(Mutex::new(memory)), meeting: Arc::default(), syncs: Arc::default() };
    let (meeting, syncs) = (store.meeting.clone(), store.syncs.clone());
    let image = Image::create_on(Box::new(store), layer, "", &options).expect("memory has room");
    (ServedImage::new(image, Shape::drive("disk", 0), "native").expect("a thread"), meeting, syncs)
}

/// The drives that do nothing by themselves. Cleaning waits until no read is under way, and reads that come meanwhile wait
/// for it: on a drive that cleans as soon as it may, one that waits for another to come would wait for ever.
fn quiet() -> impl Iterator<Item = &'static drives::Drive> {
    DRIVES.iter().filter(|drive| (drive.layer)().idle_after().is_none())
}

fn write(backend: &dyn Backend, block: u64, number: u64) {
    let mut data = number.to_le_bytes().repeat(BLOCK as usize / 8);
    backend.execute(&Command::of_bytes(Op::Write, block * BLOCK, BLOCK), &mut data).expect("memory takes it");
}

/// The number in a block, which is one.
fn read(backend: &dyn Backend, block: u64) -> u64 {
    let mut data = vec![0; BLOCK as usize];
    backend.execute(&Command::of_bytes(Op::Read, block * BLOCK, BLOCK), &mut data).expect("memory has it");
    number_in(&data)
}

fn number_in(data: &[u8]) -> u64 {
    assert!(data.chunks(8).all(|word| word == &data[..8]), "a block that was torn");
    u64::from_le_bytes(data[..8].try_into().expect("8 bytes"))
}

#[test]
fn reads_of_two_clients_are_under_way_at_a_time() {
    for drive in quiet() {
        let (backend, meeting) = served(drive);
        (0..2).for_each(|block| write(&backend, block, block + 7));
        meeting.call(2);
        std::thread::scope(|scope| {
            let reads = [0, 1].map(|block| {
                scope.spawn({
                    let backend = &backend;
                    move || read(backend, block)
                })
            });
            assert_eq!(reads.map(|read| read.join().expect("they meet")), [7, 8], "{}", drive.name);
        });
        backend.close().expect("nothing failed");
    }
}

#[test]
fn reads_of_one_client_are_under_way_at_a_time_where_a_disk_sets_the_time() {
    for drive in quiet() {
        let (backend, meeting) = served(drive);
        let house = House::new(Arc::new(backend.beside()), Allowed::default());
        let mut client = house.client(true, &[]);
        for block in 0..8u64 {
            let data = (block + 7).to_le_bytes().repeat(BLOCK as usize / 8);
            client.ask(command::WRITE, 0, block * BLOCK, BLOCK as u32, &data);
        }
        (0..8).for_each(|_| assert_eq!(client.error(), 0));
        meeting.call(8);
        for block in 0..8 {
            client.ask(command::READ, 0, block * BLOCK, BLOCK as u32, &[]);
        }
        let mut found: Vec<(u64, u64)> = (0..8)
            .map(|_| match client.reply() {
                Reply::Chunk { last: true, kind: chunk::OFFSET_DATA, data, .. } => {
                    let at = u64::from_be_bytes(data[..8].try_into().expect("8 bytes"));
                    (at / BLOCK, number_in(&data[8..]))
                }
                other => panic!("{}: they did not meet: {other:?}", drive.name),
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..8).map(|block| (block, block + 7)).collect::<Vec<_>>());
        meeting.call(0);
        client.ask(command::FLUSH, 0, 0, 0, &[]);
        assert_eq!(client.error(), 0);
    }
}

#[test]
fn reads_beside_writes_and_cleaning_find_what_was_written_last() {
    let seed: u64 = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    for drive in &DRIVES {
        let (backend, _) = served(drive);
        let (begun, done) = (
            [(); BLOCKS as usize].map(|()| AtomicU64::new(0)),
            [(); BLOCKS as usize].map(|()| AtomicU64::new(0)),
        );
        let over = AtomicBool::new(false);
        let draw = |state: &mut u64| {
            *state = state.wrapping_add(SPLITMIX64_STEP);
            splitmix64(*state, 0) % BLOCKS
        };
        let looked = std::thread::scope(|scope| {
            let readers = [1, 2].map(|reader: u64| {
                let (backend, begun, done, over) = (&backend, &begun, &done, &over);
                scope.spawn(move || {
                    let (mut state, mut looked) = (seed ^ reader << 32, 0u64);
                    while !over.load(Ordering::Acquire) || looked == 0 {
                        let block = draw(&mut state);
                        let least = done[block as usize].load(Ordering::Acquire);
                        let found = read(backend, block);
                        let most = begun[block as usize].load(Ordering::Acquire);
                        assert!(
                            (least..=most).contains(&found),
                            "{}, block {block}: {found}, not {least} to {most}",
                            drive.name
                        );
                        looked += 1;
                    }
                    looked
                })
            });
            let mut state = seed;
            for number in 1..1500 {
                let block = draw(&mut state);
                begun[block as usize].store(number, Ordering::Release);
                write(&backend, block, number);
                done[block as usize].store(number, Ordering::Release);
            }
            over.store(true, Ordering::Release);
            readers.map(|reader| reader.join().expect("it finds what it may")).iter().sum::<u64>()
        });
        println!("{}: {looked} reads beside 1499 writes", drive.name);
        backend.close().expect("nothing failed");
    }
}

#[test]
fn a_flush_that_takes_long_holds_up_neither_reads_nor_writes() {
    for drive in quiet() {
        let (backend, _, syncs) = served_with_syncs(drive);
        write(&backend, 1, 7);
        // The sync is over when this test meets it.
        syncs.call(2);
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| backend.execute(&Command::FLUSH, &mut []));
            while syncs.wanted.lock().expect("nobody panics").1 == 0 {
                std::thread::yield_now();
            }
            assert_eq!(read(&backend, 1), 7, "{}", drive.name);
            write(&backend, 2, 8);
            assert_eq!(read(&backend, 2), 8, "{}", drive.name);
            assert!(!flush.is_finished(), "{}", drive.name);
            syncs.meet().expect("the sync waits");
            // A second sync may follow for tags of bands.
            syncs.call(0);
            assert_eq!(flush.join().expect("it ends"), Ok(()), "{}", drive.name);
        });
        backend.close().expect("nothing failed");
    }
}
