//! For every host sector its last write, for every sector of the media what lies there and whose it is.
//!
//! A sector's content is the number of the write and the address that it was for. Invariants, asserted at
//! every change: nothing that is to be found is overwritten, no sector of a medium is two host sectors', and
//! where a commit puts a host sector is its last write.

use skylight_disk::{LbaExtent, PbaExtent};
use skylight_layer::{Layer, Medium, Piece};

/// No host address.
pub const NOBODY: u32 = u32::MAX;

/// Content that is no host's.
pub const JUNK: u64 = u64::MAX;

/// What the write with a number leaves in a host sector.
pub fn written(number: u64, lba: u64) -> u64 {
    number << 32 | lba
}

/// One sector of one medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub medium: Medium,
    pub pba: u64,
}

/// What lies on a medium, by sector, and the host address that is to be found there.
struct Image {
    content: Vec<u64>,
    owner: Vec<u32>,
}

/// See the module page.
pub struct Truth {
    /// The medium of native places.
    home: Medium,
    media: [Image; 2],
    native: Vec<u64>,
    /// By host sector: content of its last write, and where commits put it.
    last: Vec<u64>,
    at: Vec<Spot>,
    cached: u64,
    joints: u64,
}

impl Truth {
    /// A new drive: by host sector its native place on the platters, and the sectors of each medium.
    pub fn new(native: Vec<u64>, sectors: u64) -> Self {
        Self::on(Medium::Platter, native, sectors)
    }

    /// The same with native places on a medium.
    pub fn on(home: Medium, native: Vec<u64>, sectors: u64) -> Self {
        let image = || Image { content: vec![JUNK; sectors as usize], owner: vec![NOBODY; sectors as usize] };
        let mut truth = Self {
            home,
            media: [image(), image()],
            native,
            last: Vec::new(),
            at: Vec::new(),
            cached: 0,
            joints: 0,
        };
        truth.erase();
        truth
    }

    /// Every sector is at its native place.
    pub fn erase(&mut self) {
        for image in &mut self.media {
            image.owner.fill(NOBODY);
        }
        self.last = (0..self.native.len() as u64).collect();
        self.at = (0..self.native.len()).map(|lba| self.native(lba as u64)).collect();
        (self.cached, self.joints) = (0, 0);
        let platter = &mut self.media[self.home as usize];
        for (lba, &pba) in self.native.iter().enumerate() {
            (platter.content[pba as usize], platter.owner[pba as usize]) = (lba as u64, lba as u32);
        }
    }

    pub fn native(&self, lba: u64) -> Spot {
        Spot { medium: self.home, pba: self.native[lba as usize] }
    }

    pub fn at(&self, lba: u64) -> Spot {
        self.at[lba as usize]
    }

    pub fn last(&self, lba: u64) -> u64 {
        self.last[lba as usize]
    }

    pub fn content(&self, spot: Spot) -> u64 {
        self.media[spot.medium as usize].content[spot.pba as usize]
    }

    pub fn owner(&self, spot: Spot) -> u32 {
        self.media[spot.medium as usize].owner[spot.pba as usize]
    }

    /// The extents that they make: runs that continue in both address spaces.
    pub fn extents(&self) -> u64 {
        self.cached - self.joints
    }

    /// Whether a sector and the one before are cached as one extent.
    pub fn is_joint(&self, lba: usize) -> bool {
        if lba == 0 || lba >= self.at.len() {
            return false;
        }
        let [before, here] = [lba - 1, lba].map(|k| (self.at[k], self.at[k] != self.native(k as u64)));
        before.1 && here.1 && before.0.pba + 1 == here.0.pba
    }

    /// Writes where nothing is that is still wanted.
    pub fn write(&mut self, spot: Spot, content: u64) {
        let owner = self.owner(spot);
        assert_eq!(owner, NOBODY, "a write of {content:x} destroys sector {owner} at {spot:?}");
        self.media[spot.medium as usize].content[spot.pba as usize] = content;
    }

    /// Writes a host sector's native place, where no other sector may be.
    pub fn rewrite(&mut self, lba: u64, content: u64) {
        let spot = self.native(lba);
        let owner = self.owner(spot);
        assert!(owner == NOBODY || u64::from(owner) == lba, "rewriting {lba} destroys {owner}");
        self.media[spot.medium as usize].content[spot.pba as usize] = content;
    }

    /// The host gets the sectors of its extent in order, each as it was last written.
    pub fn read(&self, medium: Medium, extent: PbaExtent, first: u64) -> u64 {
        for k in 0..extent.len.get() {
            let spot = Spot { medium, pba: extent.start.get() + k };
            let lba = first + k;
            assert_eq!(self.at(lba), spot, "sector {lba} is read where it lies");
            assert_eq!(self.content(spot), self.last(lba), "sector {lba} is as it was written");
        }
        first + extent.len.get()
    }

    /// A write of the host is found at `spot` from now on.
    pub fn commit_write(&mut self, sector: u64, content: u64, spot: Spot) {
        self.last[sector as usize] = content;
        self.move_to(sector, spot);
    }

    /// What was trimmed may be anything: it is what its native place holds.
    pub fn trim(&mut self, extent: LbaExtent) {
        for sector in extent.start.get()..extent.end().get() {
            let native = self.native(sector);
            self.last[sector as usize] = self.content(native);
            self.move_to(sector, native);
        }
    }

    pub fn move_to(&mut self, sector: u64, spot: Spot) {
        let (native, index) = (self.native(sector), sector as usize);
        let joints = |truth: &Self| u64::from(truth.is_joint(index)) + u64::from(truth.is_joint(index + 1));
        self.joints -= joints(self);
        let from = std::mem::replace(&mut self.at[index], spot);
        self.joints += joints(self);
        self.cached += u64::from(spot != native);
        self.cached -= u64::from(from != native);
        self.media[from.medium as usize].owner[from.pba as usize] = NOBODY;
        assert_eq!(self.owner(spot), NOBODY, "two sectors live at {spot:?}");
        self.media[spot.medium as usize].owner[spot.pba as usize] = sector as u32;
        assert_eq!(self.content(spot), self.last[index], "sector {sector} is at {spot:?}");
    }

    /// What the layer says of an extent is where commits have put it, in order and without a gap.
    pub fn check_pieces(&self, layer: &impl Layer, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.clear();
        layer.locate(extent, pieces);
        let mut next = extent.start.get();
        for piece in &*pieces {
            assert!(!piece.extent.is_empty(), "an empty piece of {extent:?}: {pieces:?}");
            for k in 0..piece.extent.len.get() {
                let spot = Spot { medium: piece.medium, pba: piece.extent.start.get() + k };
                assert_eq!(self.at(next), spot, "sector {next} is located");
                assert_eq!(piece.cached, spot != self.native(next), "sector {next} is cached or not");
                next += 1;
            }
        }
        assert_eq!(next, extent.end().get(), "pieces of {extent:?} cover it: {pieces:?}");
    }

    /// What the layer says of its cache is what the commits left there.
    pub fn check_cache_use(&self, layer: &impl Layer) {
        let in_use = layer.cache_use();
        assert_eq!(in_use.live_sectors, self.cached, "live sectors in the cache");
        assert_eq!(in_use.map_entries, self.extents(), "entries of the map");
    }
}
