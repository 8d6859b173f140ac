//! Random shingled disks, small enough for an oracle that looks at every pair of sectors.

use skylight_disk::{Angle, Geometry, Lba, LbaExtent, Pba, PbaExtent, Sectors, SegmentSpec, Shingling};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};
use skylight_layer::{Bands, StretchSpec, Swd, SwdSpec};

use super::common::host::Stream;

/// The byte that reads give for overwritten sectors in the mode that gives a pattern.
pub const PATTERN: u8 = 0xab;

/// A disk, and the sector of the medium that each host sector has.
pub struct Disk {
    pub specs: Vec<SegmentSpec>,
    pub width_tracks: u32,
    pub stretches: Option<Vec<StretchSpec>>,
    pub places: Vec<u64>,
}

/// A skew: none, whole sectors of the track (where the paper's formulas fail), halves of them, or anything.
fn skew(stream: &mut Stream, sectors: u32) -> Angle {
    let part = stream.below(u64::from(sectors)) as f64;
    match stream.below(5) {
        0 => Angle(0),
        1 | 2 => Angle::from_revolutions(part / f64::from(sectors)),
        3 => Angle::from_revolutions((part + 0.5) / f64::from(sectors)),
        _ => Angle(stream.next()),
    }
}

/// A recording zone from the track `outermost` on.
fn zone(stream: &mut Stream, outermost: u32, surfaces: u16) -> SegmentSpec {
    let tracks = 1 + stream.below(9) as u32;
    let most = if stream.once_in(4) { 40 } else { 14 };
    let sectors_per_track = 1 + stream.below(most) as u32;
    let inward = !stream.once_in(3);
    let spare = if stream.once_in(4) { stream.below(u64::from(sectors_per_track)) as u32 } else { 0 };
    let room = u64::from(tracks) * u64::from(surfaces) * u64::from(sectors_per_track) - u64::from(spare);
    let group_tracks = match stream.below(3) {
        0 => 1,
        1 => tracks,
        _ => 1 + stream.below(u64::from(tracks)) as u32,
    };
    SegmentSpec {
        sectors: stream.once_in(5).then(|| Sectors(1 + stream.below(room))),
        sectors_per_track,
        first_track: if inward { outermost } else { outermost + tracks - 1 },
        tracks,
        inward,
        first_surface: 0,
        surfaces,
        group_tracks,
        surfaces_descend: stream.once_in(3),
        surfaces_alternate: stream.once_in(3),
        passes_alternate: stream.once_in(3),
        first_sector: spare,
        track_skew: skew(stream, sectors_per_track),
        head_skew: skew(stream, sectors_per_track),
        group_skew: skew(stream, sectors_per_track),
        start_angle: stream.once_in(3).then(|| skew(stream, sectors_per_track)),
    }
}

/// A track that two segments share, as slipped sectors leave it.
fn shared_track(stream: &mut Stream, track: u32) -> [SegmentSpec; 2] {
    let mut whole = zone(stream, track, 1);
    (whole.tracks, whole.group_tracks, whole.first_track) = (1, 1, track);
    whole.sectors_per_track += 1;
    let cut = 1 + stream.below(u64::from(whole.sectors_per_track - 1)) as u32;
    whole.start_angle = Some(whole.start_angle.unwrap_or(Angle(0)));
    let first = SegmentSpec { first_sector: 0, sectors: Some(Sectors(cut.into())), ..whole.clone() };
    [first, SegmentSpec { first_sector: cut, sectors: None, ..whole }]
}

/// Bands with gaps anywhere on the disk: which gaps are guards is the oracle's business.
fn stretches(stream: &mut Stream, sectors: u64) -> Vec<StretchSpec> {
    let (mut start, mut stretches) = (0, Vec::new());
    while start < sectors {
        let (band, guard) = (1 + stream.below(30), stream.below(20));
        let bands = (1 + stream.below(6)).min((sectors - start) / (band + guard));
        if bands == 0 {
            break;
        }
        let len = bands * band - stream.below(band);
        stretches.push(StretchSpec {
            sectors: Sectors(len),
            band: Sectors(band),
            guard: Sectors(guard),
            start: Pba(start),
        });
        start += bands * (band + guard) + stream.below(10);
    }
    stretches
}

/// Where each host sector lies, by stepping through the bands.
fn places(stretches: &[StretchSpec]) -> Vec<u64> {
    let mut places = Vec::new();
    for stretch in stretches {
        let pitch = stretch.band.get() + stretch.guard.get();
        let place = |k: u64| stretch.start.get() + k / stretch.band.get() * pitch + k % stretch.band.get();
        places.extend((0..stretch.sectors.get()).map(place));
    }
    places
}

impl Disk {
    pub fn random(seed: u64) -> Self {
        let mut stream = Stream(seed);
        let surfaces = 1 + stream.below(3) as u16;
        let mut specs = Vec::new();
        let mut outermost = stream.below(3) as u32;
        for _ in 0..1 + stream.below(4) {
            let zone = zone(&mut stream, outermost, surfaces);
            outermost += zone.tracks + if stream.once_in(6) { stream.below(4) as u32 } else { 0 };
            specs.push(zone);
            if stream.once_in(4) {
                specs.extend(shared_track(&mut stream, outermost));
                outermost += 1;
            }
        }
        let widest = if stream.once_in(2) { 16 } else { 5 };
        let width_tracks = 1 + stream.below(widest) as u32;
        let sectors = geometry(&specs).capacity().get();
        let stretches = stream.once_in(4).then(|| stretches(&mut stream, sectors));
        let stretches = stretches.filter(|stretches| !stretches.is_empty());
        let places = stretches.as_ref().map_or((0..sectors).collect(), |stretches| places(stretches));
        Self { specs, width_tracks, stretches, places }
    }

    pub fn geometry(&self) -> Geometry {
        geometry(&self.specs)
    }

    /// The layer under test, with tracks and a width that a fault may have made others.
    pub fn layer(&self, specs: &[SegmentSpec], width_tracks: u32) -> Swd {
        Swd::new(SwdSpec {
            geometry: geometry(specs),
            shingling: Shingling::new(width_tracks).expect("a width"),
            capacity: Sectors(self.places.len() as u64),
            bands: self.stretches.as_ref().map(|stretches| Bands::new(stretches)),
            mode: ReadMode { data: ReadData::Overwriting, fail: false },
            pattern: PATTERN,
        })
    }

    /// An extent of the host: short, of some tracks, or to the end.
    pub fn extent(&self, stream: &mut Stream) -> LbaExtent {
        let capacity = self.places.len() as u64;
        let start = stream.below(capacity);
        let most = [1, 4, 12, 40, 200, 2000][stream.below(6) as usize];
        LbaExtent::new(Lba(start), Sectors((1 + stream.below(most)).min(capacity - start)))
    }

    /// What a write of a sector destroys of what the host can read.
    pub fn seen(&self, under_head: &[Vec<u64>], pba: u64) -> Vec<u64> {
        let destroyed = under_head[pba as usize].iter().copied();
        destroyed.filter(|behind| self.places.binary_search(behind).is_ok()).collect()
    }

    /// The sectors of the medium of a host extent.
    pub fn places(&self, extent: LbaExtent) -> &[u64] {
        &self.places[extent.start.get() as usize..extent.end().get() as usize]
    }
}

pub fn geometry(specs: &[SegmentSpec]) -> Geometry {
    Geometry::new(specs).unwrap_or_else(|error| panic!("{error}: {specs:?}"))
}

/// All sectors of an extent of the medium.
pub fn sectors(extent: PbaExtent) -> std::ops::Range<u64> {
    extent.start.get()..extent.end().get()
}
