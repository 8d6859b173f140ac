//! Long writes of a client that queues execute beside the receipt of the next request: in order, one at a time.

mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use common::TestServer;
use common::encode::request_bytes;
use common::memory::Memory;
use skylight_serve::core::{Backend, Command, Extent, Failure, Op, Shape, StatusQuery};
use skylight_serve::nbd::server::Options;
use skylight_serve::nbd::wire::{RawRequest, command};

const MIB: usize = 1 << 20;
/// Where a command makes the drive panic.
const BROKEN: u64 = 13 << 20;

/// A drive whose long writes take long, and a record of what executed: the operation, its offset, and the thread.
struct Slow {
    memory: Memory,
    executing: Mutex<Vec<(Op, u64)>>,
    executed: Mutex<Vec<(Op, u64, ThreadId)>>,
    pause: Duration,
}

impl Slow {
    fn new(pause: Duration) -> Arc<Self> {
        let (executing, executed) = (Mutex::default(), Mutex::default());
        Arc::new(Self { memory: Memory::new(16 * MIB), executing, executed, pause })
    }
}

impl Backend for Slow {
    fn shape(&self) -> &Shape {
        self.memory.shape()
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        let what = (command.op, command.offset_bytes());
        assert!(what.1 != BROKEN, "planted: the drive breaks here");
        {
            let mut executing = self.executing.lock().expect("no panic");
            assert!(executing.is_empty(), "{what:?} began while {executing:?} executed");
            executing.push(what);
        }
        if data.len() >= MIB {
            std::thread::sleep(self.pause);
        }
        let result = self.memory.execute(command, data);
        self.executing.lock().expect("no panic").clear();
        self.executed.lock().expect("no panic").push((what.0, what.1, std::thread::current().id()));
        result
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        self.memory.block_status(offset, len, query, limit, extents)
    }
}

#[test]
fn commands_behind_a_long_write_execute_in_order_and_one_at_a_time() {
    let drive = Slow::new(Duration::from_millis(20));
    let server = TestServer::new(drive.clone(), Options::default());
    let mut client = server.client(false, &[]);
    let mut sent = Vec::new();
    for round in 0..6_u8 {
        client.send_request(command::WRITE, 0, 0, MIB as u32, &vec![round; MIB]);
        client.send_request(command::WRITE, 0, 4096, 4096, &[round + 100; 4096]);
        client.send_request(command::READ, 0, 0, 8192, &[]);
        client.send_request(command::WRITE, 0, 4096, MIB as u32, &vec![round + 200; MIB]);
        client.send_request(command::FLUSH, 0, 0, 0, &[]);
        sent.extend([(Op::Write, 0), (Op::Write, 4096), (Op::Read, 0), (Op::Write, 4096), (Op::Flush, 0)]);
        for step in 0..5 {
            assert_eq!(client.error(), 0, "command {step} of round {round}");
            if step == 2 {
                let found = client.take(8192);
                assert_eq!(found[..4096], [round; 4096]);
                assert_eq!(found[4096..], [round + 100; 4096]);
            }
        }
    }
    let executed: Vec<_> =
        drive.executed.lock().expect("no panic").iter().map(|&(op, at, _)| (op, at)).collect();
    assert_eq!(executed, sent);
}

#[test]
fn two_threads_take_turns_for_a_client_that_queues_and_one_serves_a_client_that_waits() {
    let drive = Slow::new(Duration::from_millis(20));
    let server = TestServer::new(drive.clone(), Options::default());
    let threads = || -> BTreeSet<String> {
        let executed = std::mem::take(&mut *drive.executed.lock().expect("no panic"));
        executed.iter().map(|(_, _, thread)| format!("{thread:?}")).collect()
    };
    let mut client = server.client(false, &[]);
    for offset in [0, 4096, 512, MIB as u64] {
        client.send_request(command::WRITE, 0, offset, MIB as u32, &vec![7; MIB]);
        assert_eq!(client.error(), 0);
    }
    assert_eq!(threads().len(), 1);
    for index in 0..8 {
        client.send_request(command::WRITE, 0, index << 20, MIB as u32, &vec![index as u8; MIB]);
    }
    (0..8).for_each(|_| assert_eq!(client.error(), 0));
    assert_eq!(threads().len(), 2);
    client.send_request(command::READ, 0, 0, 8 << 20, &[]);
    assert_eq!(client.error(), 0);
    let found = client.take(8 << 20);
    assert!(found.chunks(MIB).zip(0..).all(|(part, index)| part.iter().all(|&byte| byte == index)));
}

#[test]
fn writes_received_before_a_disconnection_are_executed() {
    let drive = Slow::new(Duration::from_millis(50));
    let mut server = TestServer::new(drive.clone(), Options::default());
    let mut client = server.client(false, &[]);
    for index in 0..4 {
        client.send_request(command::WRITE, 0, index << 20, MIB as u32, &vec![9; MIB]);
    }
    client.send_request(command::DISC, 0, 0, 0, &[]);
    (0..4).for_each(|_| assert_eq!(client.error(), 0));
    assert!(client.is_closed());
    drop(server.server.take());
    assert_eq!(drive.executed.lock().expect("no panic").len(), 4);
}

#[test]
fn a_panic_of_a_drive_ends_the_connection() {
    let drive = Slow::new(Duration::from_millis(20));
    let server = TestServer::new(drive, Options::default());
    let mut client = server.client(false, &[]);
    for index in [0, 1, 2, 13] {
        client.send_request(command::WRITE, 0, index << 20, MIB as u32, &vec![9; MIB]);
    }
    // The write behind it is received while it executes. The connection may end before all of it is sent.
    let behind = RawRequest { flags: 0, kind: command::WRITE, cookie: 0, offset: 0, len: MIB as u32 };
    let _ = client.socket.write_all(&[request_bytes(&behind).to_vec(), vec![9; MIB]].concat());
    (0..3).for_each(|_| assert_eq!(client.error(), 0));
    assert!(client.is_closed());
    drop(client);
    // Others are served.
    server.client(false, &[]);
}
