//! Filters over a drive in memory: delays run in parallel, faults follow their rate and seed.

#[path = "common/memory.rs"]
mod memory;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use memory::Memory;
use serde_json::Value;
use skylight_serve::core::faults::{Faults, INJECTED};
use skylight_serve::core::filters::delay::{Delay, Delays};
use skylight_serve::core::filters::error::FaultInjector;
use skylight_serve::core::{Backend, Command, Errno, Failure, Job, OnComplete, Op, Setting};

#[test]
fn delays_run_in_parallel() {
    let delays = Delays { read: Duration::from_millis(60), write: Duration::from_millis(20) };
    let delay = Delay::new(Arc::new(Memory::new(1 << 20)), delays).unwrap();
    let (sender, receiver) = channel();
    let began = Instant::now();
    for index in 0..20 {
        let sender = sender.clone();
        let op = if index % 2 == 0 { Op::Read } else { Op::Write };
        let complete: OnComplete = Box::new(move |completion| {
            sender.send((op, completion.outcome.status(), began.elapsed())).unwrap()
        });
        delay.submit(Job::new(Command::of_bytes(op, 0, 512), vec![0; 512], complete));
    }
    let completions: Vec<_> = (0..20).map(|_| receiver.recv().unwrap()).collect();
    assert!(completions[..10].iter().all(|&(op, result, _)| op == Op::Write && result.is_ok()));
    for (op, _, took) in completions {
        let delay = if op == Op::Read { delays.read } else { delays.write };
        assert!(took >= delay, "{op:?} after {took:?}");
    }
    // In sequence they would take 800 ms.
    assert!(began.elapsed() < Duration::from_millis(400));
}

#[test]
fn a_delay_can_be_changed_at_run_time() {
    let delay = Delay::new(Arc::new(Memory::new(1 << 20)), Delays::default()).unwrap();
    assert_eq!(delay.set(&Setting::ReadDelay(Duration::from_millis(30))), Ok("delay-read 30 ms".to_owned()));
    let (sender, receiver) = channel();
    let began = Instant::now();
    let complete: OnComplete = Box::new(move |completion| sender.send(completion.outcome.status()).unwrap());
    delay.submit(Job::new(Command::of_bytes(Op::Read, 0, 512), vec![0; 512], complete));
    assert_eq!(receiver.recv(), Ok(Ok(())));
    assert!(began.elapsed() >= Duration::from_millis(30));
    assert_eq!(Backend::status(&delay), Value::Null, "memory has no status to add to");
}

#[test]
fn delayed_commands_complete_at_the_end() {
    let delays = Delays { read: Duration::from_secs(3600), write: Duration::from_secs(3600) };
    let delay = Delay::new(Arc::new(Memory::new(1 << 20)), delays).unwrap();
    let (sender, receiver) = channel();
    let complete: OnComplete = Box::new(move |completion| sender.send(completion.outcome.status()).unwrap());
    delay.submit(Job::new(Command::FLUSH, Vec::new(), complete));
    drop(delay);
    assert_eq!(receiver.recv(), Ok(Ok(())));
}

fn injector(faults: Faults) -> FaultInjector {
    FaultInjector::new(Arc::new(Memory::new(1 << 20)), faults)
}

#[test]
fn range_and_operation_select_commands() {
    let filter = injector(Faults { range: 4096..8192, ops: vec![Op::Read], ..Faults::default() });
    let mut data = [0; 4096];
    assert_eq!(filter.execute(&Command::of_bytes(Op::Read, 0, 4096), &mut data), Ok(()));
    assert_eq!(
        filter.execute(&Command::of_bytes(Op::Read, 7680, 512), &mut data[..512]),
        Err(Failure::Medium)
    );
    assert_eq!(filter.execute(&Command::of_bytes(Op::Read, 8192, 512), &mut data[..512]), Ok(()));
    assert_eq!(filter.execute(&Command::of_bytes(Op::Write, 4096, 4096), &mut data), Ok(()));
}

#[test]
fn faults_are_parsed() {
    let faults: Faults = "rate=0.5,op=read+trim,range=0-1e6,error=enospc,seed=7".parse().unwrap();
    let ops = vec![Op::Read, Op::Trim];
    assert_eq!(faults, Faults { rate: 0.5, range: 0..1_000_000, ops, failure: Failure::NoSpace, seed: 7 });
    assert_eq!("".parse(), Ok(Faults::default()));
    for failure in INJECTED {
        let text = format!("error={}", Errno::from(failure));
        assert_eq!(text.parse(), Ok(Faults { failure, ..Faults::default() }), "{text}");
    }
    for text in [
        "rate=2",
        "rate=NaN",
        "range=8-4",
        "range=4",
        "what=1",
        "op=erase",
        "error=EWHAT",
        "error=EOVERFLOW",
        "seed=-1",
    ] {
        assert!(text.parse::<Faults>().is_err_and(|error| error.contains("use ")), "{text}");
    }
}

#[test]
fn faults_can_be_changed_at_run_time() {
    let filter = injector(Faults::default());
    let read = || filter.execute(&Command::of_bytes(Op::Read, 0, 512), &mut [0; 512]);
    assert_eq!(read(), Err(Failure::Medium));
    assert_eq!(Backend::set(&filter, &Setting::Faults(None)), Ok("no commands fail".to_owned()));
    assert_eq!(read(), Ok(()));
    let faults = Faults { failure: Failure::NoMemory, ..Faults::default() };
    assert!(Backend::set(&filter, &Setting::Faults(Some(faults))).is_ok());
    assert_eq!(read(), Err(Failure::NoMemory));
    let delay = Setting::ReadDelay(std::time::Duration::ZERO);
    assert!(Backend::set(&filter, &delay).is_err_and(|error| error.contains("--delay-read")));
}

#[test]
fn failures_match_the_rate_and_repeat_with_the_seed() {
    let fails = |seed| -> Vec<bool> {
        let filter = injector(Faults { rate: 0.25, seed, ..Faults::default() });
        (0..4000)
            .map(|_| filter.execute(&Command::of_bytes(Op::Read, 0, 512), &mut [0; 512]).is_err())
            .collect()
    };
    let (first, again, other) = (fails(7), fails(7), fails(8));
    assert_eq!(first, again);
    assert_ne!(first, other);
    let count = first.iter().filter(|&&failed| failed).count();
    // 1000 expected; the standard deviation is 27.
    assert!((860..1140).contains(&count), "{count}");
}
