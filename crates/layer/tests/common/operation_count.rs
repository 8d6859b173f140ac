//! How many random operations the tests of the layers make.
//!
//! All layers of [`SHARES`] together make four million operations, or as many as `SKYLIGHT_OPERATIONS` says, each layer its
//! share; the others make as many again: `SKYLIGHT_OPERATIONS=1_000_000_000 cargo test -p skylight-layer`. What was made is counted as
//! commands are submitted, checked, and printed past the capture of the test harness; a long run says every two
//! minutes how far it is.

use std::cell::Cell;
use std::fmt::Debug;
use std::io::Write as _;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

/// Operations over all layers of [`SHARES`] when nothing else is asked for.
const OPERATIONS: u64 = 4_000_000;

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(120);

/// Operations in one case of a long run.
pub const LONG: u64 = 20_000;

/// The share of each layer in percent; each halves it between lone commands and deep queues.
pub const SHARES: [(&str, u64); 4] =
    [("conventional", 4), ("set_associative", 36), ("fully_associative", 20), ("journaled", 40)];

/// So many cases, and as many times more as `PROPTEST_CASES` asks for more than its 256.
pub fn cases(count: u32) -> Config {
    let config = Config::default();
    Config { cases: count.saturating_mul((config.cases / 256).max(1)), failure_persistence: None, ..config }
}

fn total(usual: u64) -> u64 {
    let Ok(asked) = std::env::var("SKYLIGHT_OPERATIONS") else { return usual };
    asked
        .replace('_', "")
        .parse()
        .unwrap_or_else(|_| panic!("SKYLIGHT_OPERATIONS={asked} is no number; use, say, 1_000_000_000"))
}

/// Half of a layer's share of operations in cases of [`LONG`], each run from a value of the strategy; `run`
/// says how many it made.
pub fn half_share<S: Strategy>(layer: &str, queues: &str, strategy: &S, run: impl Fn(S::Value) -> u64)
where
    S::Value: Debug,
{
    assert_eq!(SHARES.iter().map(|(_, percent)| percent).sum::<u64>(), 100, "shares of the whole");
    let percent = SHARES.iter().find(|(name, _)| *name == layer).map(|(_, percent)| percent);
    make(
        (total(OPERATIONS) * percent.expect("a layer with a share")).div_ceil(200),
        layer,
        queues,
        strategy,
        run,
    );
}

/// Half as many operations as are asked for, or half of the usual number.
pub fn half<S: Strategy>(usual: u64, layer: &str, against: &str, strategy: &S, run: impl Fn(S::Value) -> u64)
where
    S::Value: Debug,
{
    make(total(usual).div_ceil(2), layer, against, strategy, run);
}

fn make<S: Strategy>(due: u64, layer: &str, queues: &str, strategy: &S, run: impl Fn(S::Value) -> u64)
where
    S::Value: Debug,
{
    let (made, begun, said) = (Cell::new(0), Instant::now(), Cell::new(Instant::now()));
    let seed =
        std::env::var("PROPTEST_RNG_SEED").unwrap_or_else(|_| "drawn (PROPTEST_RNG_SEED is not set)".into());
    let config = Config { cases: due.div_ceil(LONG) as u32, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(strategy, |value| {
        made.set(made.get() + run(value));
        if said.get().elapsed() >= PROGRESS {
            said.set(Instant::now());
            say(&format!("{layer}, {queues}: {} of {due} random operations so far, seed {seed}", made.get()));
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let (made, seconds) = (made.get(), begun.elapsed().as_secs_f64());
    assert!(made >= due, "{made} operations of {due}");
    say(&format!("{layer}, {queues}: {made} random operations in {seconds:.1} s"));
}

/// A line for whoever looks on: not with `println!`, which the harness keeps to itself.
fn say(what: &str) {
    let line = format!("skylight-layer: {what}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
}
