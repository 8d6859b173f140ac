//! Hostile and broken clients: the server replies with a protocol error or closes their connection, and
//! continues to serve all others.

mod common;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::encode::{option_bytes, request_bytes};
use common::memory::Memory;
use common::{Reply, TestServer, context_data, info_data};
use skylight_serve::core::filters::delay::{Delay, Delays};
use skylight_serve::core::{Backend, Errno, Shape};
use skylight_serve::nbd::server::{MAX_HANDSHAKES, Options};
use skylight_serve::nbd::wire::{self, RawRequest, chunk, command, command_flag, info, option, reply};

const SIZE: u64 = 64 << 20;

fn memory() -> Arc<dyn Backend> {
    Arc::new(Memory::shaped(Shape { places: true, rotational: true, ..Shape::drive("disk", SIZE) }))
}

fn memory_server() -> TestServer {
    TestServer::new(memory(), Options::default())
}

/// A server behind a filter that completes commands on another thread.
fn async_server() -> TestServer {
    let delays = Delays { read: Duration::from_micros(1), write: Duration::ZERO };
    TestServer::new(Arc::new(Delay::new(memory(), delays).expect("a thread")), Options::default())
}

/// Checks that the server still serves a new client.
fn assert_serves(server: &TestServer) {
    let mut client = server.client(true, &[]);
    client.send_request(command::WRITE, 0, 4096, 512, &[9; 512]);
    assert_eq!(client.error(), 0);
    client.send_request(command::READ, 0, 4096, 512, &[]);
    let Reply::Chunk { last: true, kind: chunk::OFFSET_DATA, data, .. } = client.reply() else {
        panic!("a read has one chunk");
    };
    assert_eq!(data[8..], [9; 512]);
}

#[test]
fn invalid_requests_get_protocol_errors() {
    for server in [memory_server(), async_server()] {
        let mut client = server.client(false, &[]);
        for (kind, flags, offset, len, errno) in [
            (command::READ, 0, SIZE, 512, Errno::Invalid),
            (command::READ, 0, u64::MAX, u32::MAX, Errno::Invalid),
            (command::READ, 0, 0, (32 << 20) + 512, Errno::Invalid),
            (command::READ, command_flag::DF, 0, 512, Errno::Invalid),
            (command::TRIM, 0, SIZE - 512, 1024, Errno::Invalid),
            (command::WRITE_ZEROES, 0, SIZE - 512, 1024, Errno::NoSpace),
            (command::BLOCK_STATUS, 0, 0, 512, Errno::Invalid),
            (77, 0, 0, 512, Errno::Invalid),
        ] {
            client.send_request(kind, flags, offset, len, &[]);
            assert_eq!(client.error(), errno.number(), "{kind} {flags} {offset} {len}");
        }
        assert_serves(&server);
    }
}

#[test]
fn the_payload_of_a_refused_write_is_consumed() {
    for server in [memory_server(), async_server()] {
        let mut client = server.client(false, &[]);
        // Past the end, not whole blocks, longer than a piece, longer than allowed.
        for (offset, len, errno) in [
            (SIZE, 512, Errno::NoSpace),
            (1, 512, Errno::Invalid),
            (SIZE - 512, 3 << 20, Errno::NoSpace),
            (0, (32 << 20) + 512, Errno::Invalid),
        ] {
            client.send_request(command::WRITE, 0, offset, len, &vec![1; len as usize]);
            assert_eq!(client.error(), errno.number(), "{offset} {len}");
        }
        client.send_request(command::READ, 0, 0, 512, &[]);
        assert_eq!(client.error(), 0);
        assert_eq!(client.take(512), [0; 512]);
    }
}

#[test]
fn long_commands_execute_in_pieces() {
    for (server, structured) in [(memory_server(), true), (memory_server(), false), (async_server(), true)] {
        let mut client = server.client(structured, &[]);
        let data: Vec<u8> = (0..5 << 20).map(|index: u32| (index / 509) as u8).collect();
        client.send_request(command::WRITE, command_flag::FUA, 4096, data.len() as u32, &data);
        assert_eq!(client.error(), 0);
        client.send_request(command::READ, 0, 4096, data.len() as u32, &[]);
        let mut got = vec![0; data.len()];
        if structured {
            loop {
                let Reply::Chunk { last, kind: chunk::OFFSET_DATA, data, .. } = client.reply() else {
                    panic!("chunks of data");
                };
                let at = (wire::u64_at(&data, 0).unwrap() - 4096) as usize;
                got[at..at + data.len() - 8].copy_from_slice(&data[8..]);
                if last {
                    break;
                }
            }
        } else {
            assert_eq!(client.error(), 0);
            got = client.take(data.len());
        }
        assert!(got == data);
        assert_serves(&server);
    }
}

#[test]
fn requests_may_arrive_in_fragments_or_batches() {
    for server in [memory_server(), async_server()] {
        let mut client = server.client(true, &[]);
        let mut bytes = Vec::new();
        for index in 0..600u64 {
            let raw =
                RawRequest { flags: 0, kind: command::WRITE, cookie: index, offset: index * 512, len: 512 };
            bytes.extend(request_bytes(&raw));
            bytes.extend([index as u8; 512]);
        }
        for part in bytes.chunks(1021) {
            client.send(part);
        }
        let mut cookies: Vec<u64> = (0..600)
            .map(|_| match client.reply() {
                Reply::Simple { error: 0, cookie } => cookie,
                other => panic!("{other:?}"),
            })
            .collect();
        cookies.sort_unstable();
        assert!(cookies.into_iter().eq(0..600));
        client.send_request(command::READ, 0, 0, 600 * 512, &[]);
        let Reply::Chunk { data, .. } = client.reply() else { panic!("data") };
        assert!(data[8..].chunks(512).enumerate().all(|(index, block)| block == [index as u8; 512]));
    }
}

#[test]
fn overlapping_writes_leave_one_of_them_in_each_block() {
    for server in [memory_server(), async_server()] {
        let mut clients: Vec<_> = (0..4).map(|_| server.client(false, &[])).collect();
        // Concurrently, from several clients, over the same MiB: each byte must be that of some write over
        // it.
        for round in 0..16u64 {
            for (index, client) in clients.iter_mut().enumerate() {
                let (start, len) = (round * 37 % 64 * 4096 + index as u64 * 512, (1 + round % 5) << 16);
                client.send_request(
                    command::WRITE,
                    0,
                    start,
                    len as u32,
                    &vec![1 + index as u8; len as usize],
                );
            }
        }
        for client in &mut clients {
            (0..16).for_each(|_| assert_eq!(client.error(), 0));
        }
        let mut client = server.client(false, &[]);
        client.send_request(command::READ, 0, 0, 1 << 20, &[]);
        assert_eq!(client.error(), 0);
        let got = client.take(1 << 20);
        assert!(got.chunks(512).all(|block| block[0] <= 4 && block.iter().all(|byte| *byte == block[0])));
        // A completed write is visible to every other client.
        clients[0].send_request(command::WRITE, 0, 0, 4096, &[9; 4096]);
        assert_eq!(clients[0].error(), 0);
        clients[1].send_request(command::READ, 0, 0, 4096, &[]);
        assert_eq!((clients[1].error(), clients[1].take(4096)), (0, vec![9; 4096]));
    }
}

#[test]
fn incomplete_messages_block_no_other_client() {
    let options = Options { handshake_timeout: Duration::from_millis(300), ..Options::default() };
    let server = TestServer::new(memory(), options);
    // In the handshake: dropped after the timeout.
    let mut silent = server.greet(3);
    silent.send(&wire::OPTION_MAGIC.to_be_bytes()[..5]);
    // In a request header and in a payload: not dropped while nothing is short.
    let mut slow = server.client(false, &[]);
    let raw = RawRequest { flags: 0, kind: command::WRITE, cookie: 1, offset: 0, len: 8 << 20 };
    slow.send(&request_bytes(&raw)[..13]);
    let mut slower = server.client(false, &[]);
    slower.send(&request_bytes(&raw));
    slower.send(&[7; 3 << 20]);
    assert_serves(&server);
    let began = Instant::now();
    assert!(silent.is_closed());
    assert!(began.elapsed() < Duration::from_secs(5));
    slow.send(&request_bytes(&raw)[13..]);
    slow.send(&vec![7; 8 << 20]);
    assert_eq!(slow.error(), 0);
    drop(slower);
    assert_serves(&server);
}

#[test]
fn a_hundred_clients_at_once() {
    let server = memory_server();
    let mut clients: Vec<_> = (0..100).map(|_| server.client(true, &[])).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.send_request(command::WRITE, 0, index as u64 * 4096, 4096, &[index as u8; 4096]);
    }
    for client in &mut clients {
        assert_eq!(client.error(), 0);
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let other = (index + 37) % 100;
        client.send_request(command::READ, 0, other as u64 * 4096, 4096, &[]);
        let Reply::Chunk { data, .. } = client.reply() else { panic!("data") };
        assert_eq!(data[8..], [other as u8; 4096]);
    }
}

#[test]
fn at_the_client_limit_an_idle_client_is_evicted() {
    let server = TestServer::new(memory(), Options { max_connections: 3, ..Options::default() });
    let mut clients: Vec<_> = (0..3).map(|_| server.client(true, &[])).collect();
    for client in [0, 2] {
        clients[client].send_request(command::FLUSH, 0, 0, 0, &[]);
        assert_eq!(clients[client].error(), 0);
    }
    assert_serves(&server);
    assert!(clients[1].is_closed(), "it never asked for anything");
    for client in [0, 2] {
        clients[client].send_request(command::FLUSH, 0, 0, 0, &[]);
        assert_eq!(clients[client].error(), 0, "client {client} stays");
    }
}

#[test]
fn at_the_client_limit_with_all_busy_a_new_client_is_rejected_and_may_query() {
    let delays = Delays { read: Duration::from_secs(3600), write: Duration::ZERO };
    let delay = Arc::new(Delay::new(memory(), delays).expect("a thread"));
    let options = Options { max_connections: 3, grace: Duration::from_millis(100), ..Options::default() };
    let server = TestServer::new(delay, options);
    let mut busy: Vec<_> = (0..3).map(|_| server.client(true, &[])).collect();
    for client in &mut busy {
        client.send_request(command::READ, 0, 0, 512, &[]);
        client.send_request(command::WRITE, 0, 0, 512, &[1; 512]);
        assert_eq!(client.error(), 0, "the read before it is with the backend by now");
    }
    let mut fourth = server.greet(3);
    fourth.send(&option_bytes(option::GO, &info_data("", &[])));
    assert_eq!(fourth.option_reply().0, reply::ERR_POLICY);
    fourth.send(&option_bytes(option::INFO, &info_data("", &[])));
    assert_eq!(fourth.option_reply().0, reply::INFO);
}

#[test]
fn unfinished_handshakes_are_evicted() {
    let server = memory_server();
    let _silent: Vec<_> = (0..2 * MAX_HANDSHAKES).map(|_| server.greet(3)).collect();
    assert_serves(&server);
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a number of pages");
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * 4096
}

#[test]
fn a_client_that_does_not_read_costs_bounded_memory_and_delays_no_other() {
    for mut server in [memory_server(), async_server()] {
        let before = resident();
        let mut deaf: Vec<_> = (0..4).map(|_| server.client(true, &[])).collect();
        for client in &mut deaf {
            client.socket.set_nonblocking(true).unwrap();
            let raw = RawRequest { flags: 0, kind: command::READ, cookie: 1, offset: 0, len: 1 << 20 };
            // As many as the socket buffers: each requests 1 MiB that is never read.
            let mut asked = 0;
            while asked < 20_000 && client.socket.write_all(&request_bytes(&raw)).is_ok() {
                asked += 1;
            }
            assert!(asked > 100, "{asked}");
        }
        std::thread::sleep(Duration::from_millis(300));
        assert_serves(&server);
        let grown = resident().saturating_sub(before);
        // Four connections with at most 16 MiB each, and the memory of tests that run in parallel.
        assert!(grown < 400 << 20, "{grown}");
        let began = Instant::now();
        server.server.take().unwrap().stop().unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "deaf clients do not keep a server from ending");
    }
}

#[test]
fn malformed_options_are_rejected() {
    let server = memory_server();
    let mut client = server.greet(3);
    for (kind, data, expected) in [
        (option::GO, vec![], reply::ERR_INVALID),
        (option::GO, vec![0xff; 64], reply::ERR_INVALID),
        (option::INFO, info_data("another", &[]), reply::ERR_UNKNOWN),
        (option::INFO, [info_data("", &[3]), vec![0]].concat(), reply::ERR_INVALID),
        (option::LIST, vec![1], reply::ERR_INVALID),
        (option::STARTTLS, vec![], reply::ERR_POLICY),
        (option::SET_META_CONTEXT, context_data("", &["base:allocation"]), reply::ERR_INVALID),
        (option::STRUCTURED_REPLY, vec![1], reply::ERR_INVALID),
        (4711, vec![1, 2, 3], reply::ERR_UNSUP),
        (4, vec![], reply::ERR_UNSUP),
        (option::GO, vec![0; 1 << 20], reply::ERR_TOO_BIG),
    ] {
        client.send(&option_bytes(kind, &data));
        assert_eq!(client.option_reply().0, expected, "option {kind}");
    }
    client.send(&option_bytes(option::ABORT, &[]));
    assert_eq!(client.option_reply().0, reply::ACK);
    assert!(client.is_closed());
    assert!(server.greet(1 << 5).is_closed(), "an unknown client flag");
    let mut client = server.greet(3);
    client.send(&[0; 16]);
    assert!(client.is_closed(), "no option magic");
    let mut client = server.client(false, &[]);
    client.send(&[0; 28]);
    assert!(client.is_closed(), "no request magic");
    assert_serves(&server);
}

#[test]
fn the_export_is_listed_and_described() {
    let server = memory_server();
    let mut client = server.greet(3);
    client.send(&option_bytes(option::LIST, &[]));
    assert_eq!(client.option_reply(), (reply::SERVER, b"\0\0\0\x04disk".to_vec()));
    assert_eq!(client.option_reply().0, reply::ACK);
    client.send(&option_bytes(option::INFO, &info_data("disk", &[info::NAME, info::DESCRIPTION])));
    let (_, export) = client.option_reply();
    assert_eq!(wire::u64_at(&export, 2), Some(SIZE));
    let (_, sizes) = client.option_reply();
    assert_eq!((wire::u32_at(&sizes, 2), wire::u32_at(&sizes, 6)), (Some(512), Some(4096)));
    assert_eq!(client.option_reply().1[2..], *b"disk");
    assert!(client.option_reply().1.ends_with(b"flushes"));
    assert_eq!(client.option_reply().0, reply::ACK);
    // NBD_OPT_EXPORT_NAME, with its zeroes.
    let mut client = server.greet(1);
    client.send(&option_bytes(option::EXPORT_NAME, b"disk"));
    assert_eq!(wire::u64_at(&client.take(134), 0), Some(SIZE));
    client.send_request(command::FLUSH, 0, 0, 0, &[]);
    assert_eq!(client.error(), 0);
    let mut client = server.greet(3);
    client.send(&option_bytes(option::EXPORT_NAME, b"another"));
    assert!(client.is_closed());
}

#[test]
fn metadata_contexts_are_listed_set_and_reported() {
    let server = memory_server();
    let mut client = server.greet(3);
    client.send(&option_bytes(option::STRUCTURED_REPLY, &[]));
    assert_eq!(client.option_reply().0, reply::ACK);
    for (queries, names) in [
        (&[][..], &["base:allocation", "x-skylight:place"][..]),
        (&["base:"], &["base:allocation"]),
        (&["x-skylight:place", "other:thing"], &["x-skylight:place"]),
    ] {
        client.send(&option_bytes(option::LIST_META_CONTEXT, &context_data("", queries)));
        for name in names {
            let (kind, data) = client.option_reply();
            assert_eq!((kind, &data[4..]), (reply::META_CONTEXT, name.as_bytes()));
        }
        assert_eq!(client.option_reply().0, reply::ACK);
    }
    let mut client = server.client(true, &["base:allocation", "x-skylight:place"]);
    client.send_request(command::BLOCK_STATUS, command_flag::REQ_ONE, 0, 1 << 20, &[]);
    for (number, done) in [(1, false), (2, true)] {
        let Reply::Chunk { last, kind: chunk::BLOCK_STATUS, data, .. } = client.reply() else {
            panic!("block status");
        };
        assert_eq!(
            (last, wire::u32_at(&data, 0), wire::u32_at(&data, 4)),
            (done, Some(number), Some(1 << 20))
        );
    }
}

#[test]
fn a_client_that_disconnects_early_affects_no_other() {
    let server = async_server();
    for _ in 0..20 {
        let mut client = server.client(true, &[]);
        for _ in 0..50 {
            client.send_request(command::READ, 0, 0, 65_536, &[]);
        }
    }
    assert_serves(&server);
}

#[test]
fn requests_received_before_shutdown_are_answered() {
    let delays = Delays { read: Duration::from_millis(200), write: Duration::ZERO };
    let mut server = TestServer::new(Arc::new(Delay::new(memory(), delays).unwrap()), Options::default());
    let mut client = server.client(false, &[]);
    client.send_request(command::READ, 0, 0, 512, &[]);
    std::thread::sleep(Duration::from_millis(50));
    server.server.take().unwrap().stop().unwrap();
    assert_eq!(client.error(), 0);
    assert_eq!(client.take(512).len(), 512);
    assert!(client.is_closed());
}
