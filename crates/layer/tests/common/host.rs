//! A host: a queue of commands, and habits that change now and then.

use skylight_disk::{Lba, LbaExtent, SPLITMIX64_STEP, Sectors, splitmix64};
use skylight_layer::{Command, CommandId, Op, Queue};

/// A stream of operations from one number.
pub struct Stream(pub u64);

impl Stream {
    pub fn next(&mut self) -> u64 {
        let drawn = splitmix64(self.0, 0);
        self.0 = self.0.wrapping_add(SPLITMIX64_STEP);
        drawn
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Where commands go.
#[derive(Clone, Copy, Debug)]
enum Habit {
    Anywhere,
    /// Near one place.
    Hot,
    /// Where the last write ended.
    Sequential,
    /// From the first sector of a band on.
    Bands,
}

/// What a host has to know of its drive to be a nuisance to it.
#[derive(Clone, Debug)]
pub struct Sizes {
    pub capacity: u64,
    /// The bands, in order.
    pub bands: Vec<LbaExtent>,
    /// Sectors of the most that the drive writes at a time; commands are shorter, as long, or longer.
    pub unit: u64,
}

pub struct Host {
    pub stream: Stream,
    sizes: Sizes,
    waiting: Vec<Command>,
    /// Commands ever submitted.
    issued: u64,
    depth: u64,
    deepest: u64,
    habit: Habit,
    sequential: u64,
    hot: u64,
}

impl Host {
    /// A host that has no more than `deepest` commands outstanding.
    pub fn new(sizes: Sizes, seed: u64, deepest: u64) -> Self {
        Self {
            stream: Stream(seed),
            sizes,
            waiting: Vec::new(),
            issued: 0,
            depth: 1,
            deepest,
            habit: Habit::Anywhere,
            sequential: 0,
            hot: 0,
        }
    }

    pub fn issued(&self) -> u64 {
        self.issued
    }

    pub fn capacity(&self) -> u64 {
        self.sizes.capacity
    }

    /// An extent as a command might have it: in sectors, not in blocks.
    pub fn extent(&mut self) -> LbaExtent {
        let (capacity, unit) = (self.sizes.capacity, self.sizes.unit);
        let kind = self.stream.below(100);
        let habit = if kind.is_multiple_of(4) { Habit::Anywhere } else { self.habit };
        let start = match habit {
            Habit::Anywhere if kind.is_multiple_of(8) => self.stream.below(capacity) / 8 * 8,
            Habit::Anywhere => self.stream.below(capacity),
            Habit::Hot => (self.hot + self.stream.below(40)) % capacity,
            Habit::Sequential => self.sequential % capacity,
            Habit::Bands => {
                let band = self.stream.below(self.sizes.bands.len() as u64) as usize;
                self.sizes.bands[band].start.get()
            }
        };
        let len = match kind / 10 {
            0..=3 => 8,
            4 | 5 => 1 + self.stream.below(24),
            6 => 8 * (1 + self.stream.below(8)),
            7 => 1 + self.stream.below(5),
            8 => 1 + self.stream.below(unit),
            _ if self.stream.once_in(10) => 1 + self.stream.below(4 * unit),
            _ => unit,
        };
        LbaExtent::new(Lba(start), Sectors(len.min(capacity - start)))
    }

    fn submit(&mut self, op: Op, extent: LbaExtent) {
        self.issued += 1;
        if op == Op::Write {
            self.sequential = extent.end().get();
        }
        self.waiting.push(Command::new(CommandId(self.issued as u32), op, extent));
    }

    /// A band from its start to its end or nearly so, in one write or several.
    fn submit_band(&mut self) {
        let band = self.stream.below(self.sizes.bands.len() as u64) as usize;
        let band = self.sizes.bands[band];
        let end = band.end().get() - u64::from(self.stream.once_in(8));
        let mut start = band.start.get() + u64::from(self.stream.once_in(8));
        let parts = match self.deepest {
            1 => 1,
            _ => 1 + self.stream.below(4),
        };
        while start < end {
            let len = ((end - start) / parts).max(1 + self.stream.below(4)).min(end - start);
            let len = if parts == 1 { end - start } else { len };
            self.submit(Op::Write, LbaExtent::new(Lba(start), Sectors(len)));
            start += len;
        }
    }

    /// Fills the queue, or most of it.
    pub fn submit_some(&mut self) {
        if self.stream.once_in(200) {
            let habits = [Habit::Anywhere, Habit::Hot, Habit::Sequential, Habit::Bands];
            self.habit = habits[self.stream.below(4) as usize];
            self.hot = self.stream.below(self.sizes.capacity);
        }
        if self.waiting.is_empty() && self.stream.once_in(50) {
            let depths = [1, 1, 2, 4, 8, 31, 40].map(|depth: u64| depth.min(self.deepest));
            self.depth = depths[self.stream.below(7) as usize];
        }
        while (self.waiting.len() as u64) < self.depth {
            let extent = self.extent();
            match self.stream.below(100) {
                0..=66 => self.submit(Op::Write, extent),
                67..=69 => self.submit_band(),
                70..=92 => self.submit(Op::Read, extent),
                93..=97 => self.submit(Op::Trim, extent),
                _ => self.submit(Op::Flush, LbaExtent::default()),
            }
            // Now and then the host stops before its queue is full.
            if !self.waiting.is_empty() && self.stream.once_in(10) {
                break;
            }
        }
    }

    /// How many of the queue have arrived, and which of them is to be served.
    pub fn choose(&mut self) -> (usize, usize) {
        let arrived = match self.stream.below(4) {
            0 => 1 + self.stream.below(self.waiting.len() as u64) as usize,
            _ => self.waiting.len(),
        };
        let next = match self.stream.below(2) {
            0 => 0,
            _ => self.stream.below(arrived as u64) as usize,
        };
        (arrived, next)
    }

    pub fn queue(&self, (arrived, next): (usize, usize)) -> Queue<'_> {
        Queue { waiting: &self.waiting[..arrived], next }
    }

    pub fn completed(&mut self, ids: &[CommandId]) {
        self.waiting.retain(|command| !ids.contains(&command.id));
    }
}
