//! A policy that stops at nothing: any path for any part, and cleaning at any time.

use skylight_layer::hbuffer::policy::{Occasion, Path, Policy, State, WritePart};

use super::common::host::Stream;

/// See the module page.
pub struct RandomPolicy {
    stream: Stream,
    paths: &'static [Path],
}

impl RandomPolicy {
    pub fn new(seed: u64) -> Self {
        let mut stream = Stream(seed);
        let all: [&[Path]; 3] =
            [&[Path::Direct, Path::DriveCache, Path::Buffer, Path::Buffer], &[Path::Buffer], &[Path::Direct]];
        let paths = all[stream.below(3) as usize];
        Self { stream, paths }
    }
}

impl Policy for RandomPolicy {
    fn name(&self) -> &'static str {
        "random"
    }

    fn path(&mut self, _part: &WritePart, _state: &State<'_>) -> Path {
        self.paths[self.stream.below(self.paths.len() as u64) as usize]
    }

    fn clean(&mut self, occasion: Occasion, state: &State<'_>) -> Option<u32> {
        let wants = occasion == Occasion::Idle || self.stream.once_in(100);
        let from = self.stream.below(u64::from(state.homes.count())) as u32;
        wants.then(|| state.homes.next_dirty(from).or(state.homes.oldest())).flatten()
    }

    fn may_go(&self, home: u32, _state: &State<'_>) -> bool {
        !home.is_multiple_of(3)
    }
}
