//! What the power-cut tests of all drives share: sessions whose effects on the medium are kept, a cut after none of
//! them, after the first, after the second, and so on, and a start that is cut itself.
//!
//! A life says what a session does and what its oracle allows; this goes through the cuts.

mod env_number;
pub mod multi_part_image;

use std::iter::Peekable;
use std::vec::IntoIter;

use crate::media::fault::{Effect, FaultStore, Medium, Random};
use crate::media::ram::RamStore;
use skylight_image::{Image, Options, Store};
use skylight_layer::Layer;

pub use env_number::number;

/// What happened when so many effects had been.
pub enum Event<Op, Found> {
    Begin(Op),
    End(Op),
    /// A start found this.
    Found(Found),
}

/// What a session began with, what it did to the medium, and what happened after how many effects.
pub struct Session<Op, Found> {
    pub start: Medium,
    pub effects: Vec<Effect>,
    pub events: Vec<(usize, Event<Op, Found>)>,
}

type Events<Op, Found> = Peekable<IntoIter<(usize, Event<Op, Found>)>>;

/// A drive's life in sessions.
pub trait Lives {
    type Op: std::fmt::Debug;
    type Found: PartialEq;
    type Oracle: Clone;

    fn layer(&self) -> Box<dyn Layer>;
    fn options(&self) -> &Options;
    fn random(&mut self) -> &mut Random;
    fn oracle(&mut self) -> &mut Self::Oracle;
    /// How many cuts there were.
    fn cuts(&mut self) -> &mut u64;

    /// Works with a drive; the oracle stays as it was at the start.
    fn session(&mut self, store: RamStore) -> Result<Session<Self::Op, Self::Found>, String>;
    /// Tells the oracle.
    fn happen(&mut self, event: Event<Self::Op, Self::Found>);
    /// The power has failed and is back.
    fn power_is_back(&mut self) {}
    /// One cut.
    fn cut(&mut self, medium: &Medium) -> Result<(), String>;
    /// All that a drive says and gives.
    fn look_at(&mut self, image: &mut Image) -> Result<Self::Found, String>;

    /// The boundaries between the parts of the image: none if it is in one.
    fn boundaries(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The image's store over all the bytes that there are.
    fn store(&self, all: &FaultStore) -> Box<dyn Store> {
        multi_part_image::in_parts(all, &self.boundaries())
    }

    /// Bytes of a medium with all parts.
    fn len_bytes(&self) -> u64 {
        let len = Image::bytes_needed(self.layer().as_ref(), self.options());
        multi_part_image::len_in_parts(len, &self.boundaries())
    }

    fn open(&self, store: &FaultStore) -> Result<Image, String> {
        let image = Image::open_on(self.store(store), self.layer(), self.options());
        image.map_err(|error| format!("does not open: {error}"))
    }

    /// Lives until there were so many cuts.
    fn live(&mut self, cuts: u64) -> Result<(), String> {
        let store = RamStore::new(self.len_bytes());
        let made = FaultStore::new(store.clone());
        let image = Image::create_on(self.store(&made), self.layer(), "", self.options());
        drop(image.map_err(|error| error.to_string())?);
        let mut medium = Medium::new(store);
        made.take_effects().iter().for_each(|effect| medium.take(effect));
        medium.take(&Effect::Sync);
        let mut store = medium.cut(self.random());
        while *self.cuts() < cuts {
            let session = self.session(store)?;
            store = self.cut_everywhere(session, cuts)?;
        }
        Ok(())
    }

    /// Cuts a session after every effect; what is left of one of the cuts.
    fn cut_everywhere(
        &mut self,
        session: Session<Self::Op, Self::Found>,
        most: u64,
    ) -> Result<RamStore, String> {
        let Session { start, effects, events } = session;
        let mut medium = start;
        let mut events = events.into_iter().peekable();
        // Often enough the next session starts from the end of this one.
        let next_start = self.random().below(effects.len() as u64 * 5 / 4 + 1) as usize;
        let (mut next, mut happened) = (None, String::new());
        for done in 0..=effects.len() {
            if let Some(effect) = done.checked_sub(1).map(|last| &effects[last]) {
                medium.take(effect);
            }
            self.happen_until(done, &mut events, &mut happened);
            let place = |why| format!("cut after effect {done} of {}, in {happened}: {why}", effects.len());
            self.cut(&medium).map_err(place)?;
            *self.cuts() += 1;
            if done == next_start.min(effects.len()) {
                next = Some((medium.cut(self.random()), self.oracle().clone()));
            }
            if *self.cuts() >= most {
                break;
            }
        }
        let Some((store, oracle)) = next else {
            return Ok(medium.cut(self.random()));
        };
        *self.oracle() = oracle;
        Ok(store)
    }

    /// Tells the oracle what happened before so many effects; in words what began last.
    fn happen_until(
        &mut self,
        done: usize,
        events: &mut Events<Self::Op, Self::Found>,
        happened: &mut String,
    ) {
        while let Some((_, event)) = events.next_if(|(at, _)| *at <= done) {
            if let Event::Begin(op) = &event {
                *happened = format!("{op:?}").chars().take(160).collect();
            }
            self.happen(event);
        }
    }

    /// A start is cut after some of its effects; the next one finds the same.
    fn cut_in_recovery(
        &mut self,
        left: RamStore,
        effects: &[Effect],
        found: &Self::Found,
    ) -> Result<(), String> {
        let mut medium = Medium::new(left);
        let count = self.random().below(effects.len() as u64 + 1) as usize;
        effects[..count].iter().for_each(|effect| medium.take(effect));
        let store = FaultStore::new(medium.cut(self.random()));
        self.power_is_back();
        let mut image = self.open(&store).map_err(|why| format!("in recovery: {why}"))?;
        match self.look_at(&mut image)? == *found {
            true => Ok(()),
            false => Err("a recovery that was cut and done again found something else".to_owned()),
        }
    }
}
