//! Concurrent reads, and reads concurrent with changes of the image.
//!
//! Parallelism is shown without a clock: on a store where a read completes only once another one has started.
//! Correctness is shown by sequence numbers in the blocks: a read returns a number that was written before
//! the read ended and is no older than the last one completed before the read started.

mod common;
#[path = "../../image/tests/power_cuts/drives.rs"]
mod drives;
#[path = "../../image/tests/media/mod.rs"]
mod media;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use common::{Reply, TIMEOUT, TestServer};
use drives::DRIVES;
use media::ram::RamStore;
use skylight_disk::{SPLITMIX64_STEP, splitmix64};
use skylight_image::store::{Reads, Syncs};
use skylight_image::{Image, Options, Store};
use skylight_serve::core::untimed::ServedImage;
use skylight_serve::core::{Backend, Command, Op, Shape};
use skylight_serve::nbd::server::Options as ServerOptions;
use skylight_serve::nbd::wire::{chunk, command};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = drives::SECTORS * 512 / BLOCK;

/// A barrier: the number of readers that must arrive before any may continue, and the number that have
/// arrived.
#[derive(Default)]
struct Barrier {
    wanted: Mutex<(usize, usize)>,
    arrived: Condvar,
}

impl Barrier {
    fn expect_arrivals(&self, readers: usize) {
        *self.wanted.lock().expect("no panic") = (readers, 0);
    }

    /// Waits for the others; fails if they do not arrive.
    fn wait(&self) -> io::Result<()> {
        let mut wanted = self.wanted.lock().expect("no panic");
        wanted.1 += 1;
        self.arrived.notify_all();
        let alone = |wanted: &mut (usize, usize)| wanted.1 < wanted.0;
        let (_wanted, waited) = self.arrived.wait_timeout_while(wanted, TIMEOUT, alone).expect("no panic");
        if waited.timed_out() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// A memory store whose reads and syncs wait at barriers.
#[derive(Clone)]
struct BarrierStore {
    memory: Arc<Mutex<RamStore>>,
    read_barrier: Arc<Barrier>,
    /// The barrier of syncs.
    syncs: Arc<Barrier>,
}

impl Syncs for BarrierStore {
    fn sync(&self) -> io::Result<()> {
        self.syncs.wait()
    }
}

impl Reads for BarrierStore {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_barrier.wait()?;
        Store::read_at(self, offset, buffer)
    }
}

impl Store for BarrierStore {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn len_bytes(&self) -> u64 {
        self.memory.lock().expect("no panic").len_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.memory.lock().expect("no panic").read_at(offset, buffer)
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        Some(Arc::new(self.clone()))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        // One sector at a time, so that a concurrent read would see a torn block.
        for (index, sector) in data.chunks(512).enumerate() {
            self.memory.lock().expect("no panic").write_at(offset + index as u64 * 512, sector)?;
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
        self.memory.lock().expect("no panic").discard(offset, len)
    }
}

/// An empty drive, and the barrier of its reads.
fn served(drive: &drives::Drive) -> (ServedImage, Arc<Barrier>) {
    let (backend, read_barrier, _) = served_with_syncs(drive);
    (backend, read_barrier)
}

/// The same, with the barrier of its syncs.
fn served_with_syncs(drive: &drives::Drive) -> (ServedImage, Arc<Barrier>, Arc<Barrier>) {
    let layer = (drive.layer)();
    let options = Options { write_cache: true, log_bytes: Some(8192), ..Options::default() };
    let memory = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
    let store = BarrierStore {
        memory: Arc::new(Mutex::new(memory)),
        read_barrier: Arc::default(),
        syncs: Arc::default(),
    };
    let (read_barrier, syncs) = (store.read_barrier.clone(), store.syncs.clone());
    let image = Image::create_on(Box::new(store), layer, "", &options).expect("memory has room");
    (ServedImage::new(image, Shape::drive("disk", 0), "native").expect("a thread"), read_barrier, syncs)
}

/// Drives without idle work. Cleaning waits for reads in progress, and later reads wait for cleaning, so on a
/// drive that cleans in idle time a read that waits for another one to start would wait for ever.
fn without_idle_work() -> impl Iterator<Item = &'static drives::Drive> {
    DRIVES.iter().filter(|drive| (drive.layer)().idle_after().is_none())
}

fn write(backend: &dyn Backend, block: u64, number: u64) {
    let mut data = number.to_le_bytes().repeat(BLOCK as usize / 8);
    backend.execute(&Command::of_bytes(Op::Write, block * BLOCK, BLOCK), &mut data).expect("memory takes it");
}

/// The number that fills a block.
fn read(backend: &dyn Backend, block: u64) -> u64 {
    let mut data = vec![0; BLOCK as usize];
    backend.execute(&Command::of_bytes(Op::Read, block * BLOCK, BLOCK), &mut data).expect("memory has it");
    number_in(&data)
}

fn number_in(data: &[u8]) -> u64 {
    assert!(data.chunks(8).all(|word| word == &data[..8]), "a torn block");
    u64::from_le_bytes(data[..8].try_into().expect("8 bytes"))
}

#[test]
fn reads_of_two_clients_run_in_parallel() {
    for drive in without_idle_work() {
        let (backend, read_barrier) = served(drive);
        (0..2).for_each(|block| write(&backend, block, block + 7));
        read_barrier.expect_arrivals(2);
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
fn reads_of_one_client_run_in_parallel_over_a_disk() {
    for drive in without_idle_work() {
        let (backend, read_barrier) = served(drive);
        let server = TestServer::new(Arc::new(backend.concurrent()), ServerOptions::default());
        let mut client = server.client(true, &[]);
        for block in 0..8u64 {
            let data = (block + 7).to_le_bytes().repeat(BLOCK as usize / 8);
            client.send_request(command::WRITE, 0, block * BLOCK, BLOCK as u32, &data);
        }
        (0..8).for_each(|_| assert_eq!(client.error(), 0));
        read_barrier.expect_arrivals(8);
        for block in 0..8 {
            client.send_request(command::READ, 0, block * BLOCK, BLOCK as u32, &[]);
        }
        let mut found: Vec<(u64, u64)> = (0..8)
            .map(|_| match client.reply() {
                Reply::Chunk { last: true, kind: chunk::OFFSET_DATA, data, .. } => {
                    let at = u64::from_be_bytes(data[..8].try_into().expect("8 bytes"));
                    (at / BLOCK, number_in(&data[8..]))
                }
                other => panic!("{}: reads were not parallel: {other:?}", drive.name),
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..8).map(|block| (block, block + 7)).collect::<Vec<_>>());
        read_barrier.expect_arrivals(0);
        client.send_request(command::FLUSH, 0, 0, 0, &[]);
        assert_eq!(client.error(), 0);
    }
}

#[test]
fn reads_concurrent_with_writes_and_cleaning_return_current_data() {
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
        let reads = std::thread::scope(|scope| {
            let readers = [1, 2].map(|reader: u64| {
                let (backend, begun, done, over) = (&backend, &begun, &done, &over);
                scope.spawn(move || {
                    let (mut state, mut reads) = (seed ^ reader << 32, 0u64);
                    while !over.load(Ordering::Acquire) || reads == 0 {
                        let block = draw(&mut state);
                        let oldest = done[block as usize].load(Ordering::Acquire);
                        let found = read(backend, block);
                        let newest = begun[block as usize].load(Ordering::Acquire);
                        assert!(
                            (oldest..=newest).contains(&found),
                            "{}, block {block}: {found}, not {oldest} to {newest}",
                            drive.name
                        );
                        reads += 1;
                    }
                    reads
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
        println!("{}: {reads} reads beside 1499 writes", drive.name);
        backend.close().expect("nothing failed");
    }
}

#[test]
fn a_long_flush_blocks_neither_reads_nor_writes() {
    for drive in without_idle_work() {
        let (backend, _, syncs) = served_with_syncs(drive);
        write(&backend, 1, 7);
        // The sync completes when this test arrives at the barrier.
        syncs.expect_arrivals(2);
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| backend.execute(&Command::FLUSH, &mut []));
            while syncs.wanted.lock().expect("no panic").1 == 0 {
                std::thread::yield_now();
            }
            assert_eq!(read(&backend, 1), 7, "{}", drive.name);
            write(&backend, 2, 8);
            assert_eq!(read(&backend, 2), 8, "{}", drive.name);
            assert!(!flush.is_finished(), "{}", drive.name);
            syncs.wait().expect("the sync waits");
            // A second sync may follow for tags of bands.
            syncs.expect_arrivals(0);
            assert_eq!(flush.join().expect("it ends"), Ok(()), "{}", drive.name);
        });
        backend.close().expect("nothing failed");
    }
}
