//! Clients that send anything: elements of the protocol with arbitrary numbers in arbitrary order, and noise.
//!
//! There must be no panic and no hang, and every reply must follow the protocol. SKYLIGHT_FUZZ_SECONDS sets
//! the duration of each test (3600: an hour); cargo-fuzz goes deeper with fuzz/fuzz_targets/handshake.rs and
//! requests.rs (`make fuzz`).

#[path = "common/encode.rs"]
mod encode;
#[path = "common/memory.rs"]
mod memory;
#[path = "common/scripted_client.rs"]
mod scripted_client;

use std::time::{Duration, Instant};

use encode::{option_bytes, request_bytes};
use memory::Memory;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scripted_client::replay;
use skylight_serve::core::{Errno, Shape};
use skylight_serve::nbd::wire::{self, RawRequest, chunk, handshake_flag, option};

const SIZE: u64 = 1 << 20;

/// Boundary values and arbitrary numbers.
fn number() -> impl Strategy<Value = u64> {
    let edges =
        vec![0, 1, 511, 512, 4096, SIZE - 512, SIZE, SIZE + 512, 1 << 31, 1 << 32, u64::MAX - 511, u64::MAX];
    prop_oneof![
        proptest::sample::select(edges),
        0..SIZE,
        (0..SIZE / 512).prop_map(|sector| sector * 512),
        any::<u64>()
    ]
}

fn noise(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..max)
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    let known = ["", "disk", "base:allocation", "base:", "x-skylight:place"];
    prop_oneof![proptest::sample::select(known.map(|name| name.as_bytes().to_vec()).to_vec()), noise(40)]
}

/// A length-prefixed string whose length may be wrong.
fn length_prefixed(string: Vec<u8>, len: Option<u32>) -> Vec<u8> {
    let mut bytes = len.unwrap_or(string.len() as u32).to_be_bytes().to_vec();
    bytes.extend(string);
    bytes
}

fn option_data() -> impl Strategy<Value = Vec<u8>> {
    let strings = proptest::collection::vec(string(), 0..4);
    let info =
        (string(), proptest::option::weighted(0.1, any::<u32>()), proptest::collection::vec(0u16..5, 0..5));
    let info = info.prop_map(|(name, len, wanted)| {
        let mut data = length_prefixed(name, len);
        data.extend((wanted.len() as u16).to_be_bytes());
        wanted.iter().for_each(|about| data.extend(about.to_be_bytes()));
        data
    });
    let contexts = (string(), proptest::option::weighted(0.1, any::<u32>()), strings).prop_map(
        |(name, count, queries)| {
            let mut data = length_prefixed(name, None);
            data.extend(count.unwrap_or(queries.len() as u32).to_be_bytes());
            queries.into_iter().for_each(|query| data.extend(length_prefixed(query, None)));
            data
        },
    );
    prop_oneof![3 => Just(Vec::new()), 3 => info, 3 => contexts, 1 => noise(60)]
}

fn options() -> impl Strategy<Value = Vec<u8>> {
    let kinds = vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 77];
    let one =
        (proptest::sample::select(kinds), option_data()).prop_map(|(kind, data)| option_bytes(kind, &data));
    proptest::collection::vec(prop_oneof![20 => one, 1 => noise(30)], 0..6).prop_map(|parts| parts.concat())
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![6 => Just(0u16), 3 => 0u16..32, 1 => any::<u16>()];
    let payload = prop_oneof![8 => Just(None), 1 => (0usize..5000).prop_map(Some)];
    // Few disconnect, or little would follow.
    let kind = prop_oneof![30 => prop_oneof![0u16..2, 3u16..9], 1 => Just(2u16), 1 => any::<u16>()];
    (kind, flags, any::<u64>(), number(), number(), payload).prop_map(
        |(kind, flags, cookie, offset, len, payload)| {
            // Few are long, because they take long.
            let len = (len % if cookie % 16 == 0 { 3 << 20 } else { 1 << 15 }) as u32;
            let raw = RawRequest { flags, kind, cookie, offset, len };
            let mut bytes = request_bytes(&raw).to_vec();
            if kind == wire::command::WRITE {
                bytes.resize(bytes.len() + payload.unwrap_or(len as usize), 0xa5);
            }
            bytes
        },
    )
}

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![30 => request(), 1 => noise(50)];
    proptest::collection::vec(one, 0..12).prop_map(|parts| parts.concat())
}

fn client_flags() -> impl Strategy<Value = u32> {
    prop_oneof![8 => Just(3u32), 1 => 0u32..4, 1 => any::<u32>()]
}

fn greeting(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

/// The handshake of a client that enters the transmission phase.
fn handshake(structured: bool) -> Vec<u8> {
    let mut bytes = greeting(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    if structured {
        bytes.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
        let contexts =
            [&[0u8; 4][..], &1u32.to_be_bytes(), &length_prefixed(b"base:allocation".to_vec(), None)]
                .concat();
        bytes.extend(option_bytes(option::SET_META_CONTEXT, &contexts));
    }
    bytes.extend(option_bytes(option::GO, &[0; 6]));
    bytes
}

fn disk() -> Memory {
    Memory::shaped(Shape { places: true, ..Shape::drive("disk", SIZE) })
}

/// Checks that complete replies with valid errors follow the handshake.
fn check_replies(mut output: &[u8], input: &[u8]) -> Result<(), TestCaseError> {
    let known = |number: u32| Errno::ALL.iter().any(|errno| errno.number() == number);
    while output.len() >= 16 && output.len() < 1 << 19 {
        match wire::u32_at(output, 0) {
            Some(wire::CHUNK_MAGIC) => {
                let (Some(kind), Some(len)) = (wire::u16_at(output, 6), wire::u32_at(output, 16)) else {
                    return Err(TestCaseError::fail("a chunk without its header"));
                };
                if kind == chunk::ERROR {
                    prop_assert!(wire::u32_at(output, 20).is_some_and(known));
                }
                output = output.get(20 + len as usize..).unwrap_or(&[]);
            }
            Some(wire::SIMPLE_REPLY_MAGIC) => {
                let (Some(error), Some(cookie)) = (wire::u32_at(output, 4), wire::u64_at(output, 8)) else {
                    return Err(TestCaseError::fail("a reply without its header"));
                };
                prop_assert!(error == 0 || known(error), "error {error}");
                let read = (error == 0).then(|| read_len(input, cookie)).flatten();
                output = output.get(16 + read.unwrap_or(0)..).unwrap_or(&[]);
            }
            magic => return Err(TestCaseError::fail(format!("{magic:x?} is no reply"))),
        }
    }
    Ok(())
}

/// The length of the read with a cookie, if there is one; cookies are random, so none repeats.
fn read_len(input: &[u8], cookie: u64) -> Option<usize> {
    input.windows(wire::REQUEST_BYTES).find_map(|bytes| {
        let raw = RawRequest::parse(bytes).filter(|raw| raw.cookie == cookie)?;
        (raw.kind == wire::command::READ).then_some(raw.len as usize)
    })
}

/// Runs the configured number of cases, and further ones until the time is over.
fn run<S: Strategy>(cases: u32, strategy: &S, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seconds = std::env::var("SKYLIGHT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut runner = TestRunner::new(Config { cases, ..Config::default() });
    loop {
        runner.run(strategy, &check).unwrap_or_else(|error| panic!("{error}"));
        if Instant::now() >= until {
            return;
        }
    }
}

#[test]
fn arbitrary_handshakes() {
    let strategy = (client_flags(), options(), requests(), 1usize..200);
    run(400, &strategy, |(flags, options, requests, part)| {
        let input = [greeting(flags), options, requests].concat();
        let (output, _) = replay(&input, part, &disk());
        prop_assert_eq!(wire::u64_at(&output, 0), Some(wire::MAGIC));
        Ok(())
    });
}

#[test]
fn arbitrary_requests_get_valid_replies() {
    let strategy = (any::<bool>(), requests(), prop_oneof![1usize..100, Just(1 << 20)]);
    run(400, &strategy, |(structured, requests, part)| {
        let way_in = handshake(structured);
        let (alone, _) = replay(&way_in, 1 << 20, &disk());
        let input = [way_in, requests.clone()].concat();
        let (output, all) = replay(&input, part, &disk());
        prop_assert!(output.starts_with(&alone));
        // No more than was requested: a read reply is at most as long as its request, and an error is short.
        prop_assert!(all <= (32 << 20) * 12 + 4096);
        check_replies(&output[alone.len()..], &requests)
    });
}

#[test]
fn noise_is_rejected() {
    let strategy = (noise(2000), 1usize..100);
    run(200, &strategy, |(input, part)| {
        let (output, _) = replay(&input, part, &disk());
        prop_assert!(output.len() >= 18);
        Ok(())
    });
}
