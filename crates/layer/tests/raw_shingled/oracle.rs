//! A shingled disk sector by sector: what lies on the surface after every write, from angles alone.
//!
//! Each sector is an arc of its track. Writing one puts its data there and on every sector of the next tracks
//! that shares some angle with it. Nothing is remembered but what lies where, so chains of destroyed sectors
//! need no rule. It asks the geometry for the place of each sector and nothing else; it loops over all pairs.

use skylight_disk::{Geometry, Pba, SectorPosition, SegmentSpec};
use skylight_layer::capabilities::overwriting::Stamp;

/// Rounding of angles, in 2^-64 of a turn; what two arcs share by more is an overlap.
const ROUNDING: u64 = 1 << 32;

/// What lies on a sector of the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The sector that it was written to.
    pub origin: u64,
    pub value: u64,
    pub by: Stamp,
}

/// See the module page.
pub struct Surface {
    content: Vec<Content>,
    /// For each sector those that a write of it destroys.
    under_head: Vec<Vec<u64>>,
}

impl Surface {
    /// Whether a write of a sector destroys any.
    pub fn destroys(&self, pba: u64) -> bool {
        !self.under_head[pba as usize].is_empty()
    }
}

/// The angle that two arcs share, for arcs that are shorter than a turn together or overlap at one end.
fn shared(one: (u64, u128), other: (u64, u128)) -> u128 {
    let mut shared = 0;
    for (from, to) in [(one, other), (other, one)] {
        let after = u128::from(to.0.wrapping_sub(from.0));
        if after < from.1 {
            shared = shared.max(to.1.min(from.1 - after));
        }
    }
    shared
}

/// For each sector of a segment whether shingles lie towards the ID there: the direction of its stroke, the
/// tracks that are walked one after the other on one surface, or that of the segment for one track alone.
fn directions(spec: &SegmentSpec) -> Vec<bool> {
    let mut inward = Vec::new();
    let mut first = 0;
    while first < spec.tracks {
        let stroke =
            if spec.surfaces == 1 { spec.tracks } else { spec.group_tracks.min(spec.tracks - first) };
        for pass in 0..spec.surfaces {
            let back = spec.passes_alternate && pass % 2 == 1 && stroke > 1;
            let sectors = stroke * spec.sectors_per_track;
            inward.extend((0..sectors).map(|_| spec.inward != back));
        }
        first += stroke;
    }
    inward.drain(..spec.first_sector as usize);
    inward.truncate(spec.sectors.map_or(inward.len(), |sectors| sectors.get() as usize));
    inward
}

/// For each sector the sectors that a write of it destroys.
pub fn under_head(specs: &[SegmentSpec], geometry: &Geometry, width_tracks: u32) -> Vec<Vec<u64>> {
    let capacity = geometry.capacity().get();
    let places: Vec<SectorPosition> = (0..capacity).map(|pba| geometry.position_of(Pba(pba))).collect();
    let arc = |place: &SectorPosition| (place.angle.0, (1_u128 << 64) / u128::from(place.sectors_per_track));
    let inward: Vec<bool> = specs.iter().flat_map(directions).collect();
    let behind = |on: &SectorPosition, inward: bool, other: &SectorPosition| {
        let distance = i64::from(other.track) - i64::from(on.track);
        let distance = if inward { distance } else { -distance };
        on.surface == other.surface && distance > 0 && distance < i64::from(width_tracks)
    };
    let destroyed = |pba: usize| {
        let on = &places[pba];
        let hit = |other: &&(u64, &SectorPosition)| {
            behind(on, inward[pba], other.1) && shared(arc(on), arc(other.1)) > u128::from(ROUNDING)
        };
        (0..).zip(&places).filter(|other| hit(&other)).map(|(pba, _)| pba).collect()
    };
    (0..places.len()).map(destroyed).collect()
}

impl Surface {
    pub fn new(under_head: Vec<Vec<u64>>) -> Self {
        let never = Stamp::default();
        let content = (0..under_head.len() as u64).map(|origin| Content { origin, value: 0, by: never });
        Self { content: content.collect(), under_head }
    }

    /// The head passes over a sector and writes.
    pub fn write(&mut self, pba: u64, value: u64, by: Stamp) {
        let content = Content { origin: pba, value, by };
        self.content[pba as usize] = content;
        for &behind in &self.under_head[pba as usize] {
            self.content[behind as usize] = content;
        }
    }

    pub fn at(&self, pba: u64) -> Content {
        self.content[pba as usize]
    }

    pub fn is_overwritten(&self, pba: u64) -> bool {
        self.at(pba).origin != pba
    }

    pub fn overwritten(&self) -> u64 {
        (0..self.content.len() as u64).filter(|&pba| self.is_overwritten(pba)).count() as u64
    }

    pub fn sectors(&self) -> u64 {
        self.content.len() as u64
    }
}
