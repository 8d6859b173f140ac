//! Long reads and writes of a drive that writes in place: spliced from the file, and in pieces; compared with
//! a copy in memory.
//!
//! Commands are sent in a batch before any reply is read. A batch has writes first and reads behind them,
//! because what a read returns of a later write that overlaps it in time is not defined.

mod common;

use std::sync::Arc;

use common::{Client, Reply, TestServer};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use skylight_drive::profile::Profile;
use skylight_image::{Image, Options};
use skylight_serve::core::untimed::ServedImage;
use skylight_serve::core::{Errno, Shape};
use skylight_serve::nbd::server::Options as ServerOptions;
use skylight_serve::nbd::wire::{chunk, command, command_flag};

/// The part of the drive under test, bytes.
const PART: u64 = 8 << 20;
const SMALL_PIECE: usize = 128 << 10;

struct Drive {
    server: TestServer,
    size: u64,
    _folder: tempfile::TempDir,
}

fn drive() -> Drive {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/skylight/profiles/st4000nc001.toml");
    let text = std::fs::read_to_string(profile).expect("a profile");
    let profile = Profile::from_toml(&text, profile).expect("it is right");
    let options = Options { write_cache: true, ..Options::default() };
    let image = Image::create(&folder.path().join("img"), &profile, &options).expect("a sparse file");
    let size = image.capacity_bytes();
    let shape = Shape { write_piece: SMALL_PIECE, ..Shape::drive("disk", 0) };
    let served = ServedImage::new(image, shape, "none").expect("a thread");
    Drive { server: TestServer::new(Arc::new(served), ServerOptions::default()), size, _folder: folder }
}

/// Reads the data of a read reply.
fn read(client: &mut Client, structured: bool, offset: u64, len: usize) -> Vec<u8> {
    if !structured {
        assert_eq!(client.error(), 0);
        return client.take(len);
    }
    let mut found = Vec::new();
    loop {
        let Reply::Chunk { last, kind: chunk::OFFSET_DATA, data, .. } = client.reply() else {
            panic!("a read has chunks of data");
        };
        assert_eq!(data[..8], (offset + found.len() as u64).to_be_bytes());
        found.extend_from_slice(&data[8..]);
        if last {
            assert_eq!(found.len(), len);
            return found;
        }
    }
}

/// An extent of sectors or of pages, short or longer than a piece.
fn extent() -> impl Strategy<Value = (u64, usize)> {
    let lens = prop_oneof![1..16u64, 120..300u64, 1000..2100u64, 2100..6000u64];
    (lens, any::<bool>(), 0..PART / 512).prop_map(|(sectors, pages, at)| {
        let (len, at) = (sectors * 512, at * 512);
        let (len, at) = if pages { (len.next_multiple_of(4096), at / 4096 * 4096) } else { (len, at) };
        (at.min(PART - len), len as usize)
    })
}

/// Writes, each with its first byte and whether it has FUA, and reads.
type Batch = (Vec<((u64, usize), u8, bool)>, Vec<(u64, usize)>);

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let writes = proptest::collection::vec((extent(), 1..=255u8, any::<bool>()), 0..5);
    let reads = proptest::collection::vec(extent(), 1..3);
    proptest::collection::vec((writes, reads), 1..6)
}

#[test]
fn pipelined_long_commands_match_the_copy() {
    let drive = drive();
    let copy = std::cell::RefCell::new(vec![0u8; PART as usize]);
    let config = Config { cases: 24, ..Config::default() };
    TestRunner::new(config)
        .run(&(any::<bool>(), batches()), |(structured, batches)| {
            let mut client = drive.server.client(structured, &[]);
            let mut copy = copy.borrow_mut();
            for (writes, reads) in batches {
                for &((at, len), byte, fua) in &writes {
                    let data: Vec<u8> =
                        (0..len).map(|index| byte.wrapping_add((index / 512) as u8)).collect();
                    let flags = if fua { command_flag::FUA } else { 0 };
                    client.send_request(command::WRITE, flags, at, len as u32, &data);
                    copy[at as usize..at as usize + len].copy_from_slice(&data);
                }
                for &(at, len) in &reads {
                    client.send_request(command::READ, 0, at, len as u32, &[]);
                }
                for _ in &writes {
                    prop_assert_eq!(client.error(), 0);
                }
                for &(at, len) in &reads {
                    let found = read(&mut client, structured, at, len);
                    prop_assert!(found == copy[at as usize..at as usize + len], "{} bytes at {}", len, at);
                }
            }
            Ok(())
        })
        .expect("the drive does what the copy does");
}

#[test]
fn long_writes_complete_in_order_and_a_failed_one_affects_no_other() {
    let drive = drive();
    let mut client = drive.server.client(false, &[]);
    let mib = vec![5; 1 << 20];
    client.send_request(command::WRITE, 0, 0, 1 << 20, &mib);
    client.send_request(command::WRITE, 0, drive.size - 512, 1 << 20, &mib);
    client.send_request(command::WRITE, command_flag::FUA, 1 << 20, 1 << 20, &mib);
    client.send_request(command::FLUSH, 0, 0, 0, &[]);
    let refused = Errno::NoSpace.number();
    let errors: Vec<u32> = (0..4).map(|_| client.error()).collect();
    assert_eq!(errors, [0, refused, 0, 0]);
    client.send_request(command::READ, 0, 0, 2 << 20, &[]);
    assert_eq!(read(&mut client, false, 0, 2 << 20), vec![5; 2 << 20]);
}

#[test]
fn a_write_whose_client_disconnects_leaves_whole_blocks() {
    let drive = drive();
    let mut client = drive.server.client(false, &[]);
    client.send_request(command::WRITE, 0, 0, 1 << 20, &vec![9; 700_001]);
    drop(client);
    // Other clients are served, and once the thread of the first one has ended nothing changes any more.
    let mut client = drive.server.client(false, &[]);
    let mut before = usize::MAX;
    loop {
        client.send_request(command::READ, 0, 0, 1 << 20, &[]);
        let found = read(&mut client, false, 0, 1 << 20);
        let written = found.iter().take_while(|&&byte| byte == 9).count();
        assert!(found[written..].iter().all(|&byte| byte == 0));
        assert!(written.is_multiple_of(4096) && written <= 700_001);
        if written == before {
            break;
        }
        before = written;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_client_that_disconnects_during_a_splice_affects_no_other() {
    let drive = drive();
    for structured in [false, true] {
        let mut client = drive.server.client(structured, &[]);
        // More than the socket buffers: the server is in the middle of a reply when the client disconnects.
        (0..8).for_each(|_| client.send_request(command::READ, 0, 0, 1 << 20, &[]));
        client.take(100_000);
    }
    let mut client = drive.server.client(false, &[]);
    client.send_request(command::WRITE, 0, 0, 1 << 20, &vec![3; 1 << 20]);
    client.send_request(command::READ, 0, 0, 1 << 20, &[]);
    assert_eq!(client.error(), 0);
    assert_eq!(read(&mut client, false, 0, 1 << 20), vec![3; 1 << 20]);
}
