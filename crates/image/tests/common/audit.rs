//! Whether layer and image agree: a part of the image that only tests compile (feature `planted`), since it looks at the
//! whole drive.
//!
//! Invariant: an audit changes nothing.

use skylight_disk::{Lba, LbaExtent, PbaExtent};
use skylight_layer::{Medium, Piece};

use crate::image::Image;

impl Image {
    /// Checks that layer and interpreter find every sector at one place, and no two at the same; slow.
    ///
    /// # Errors
    /// The first sector for which that does not hold.
    pub fn audit(&self) -> Result<(), String> {
        let all = LbaExtent::new(Lba(0), self.layer.capacity());
        let mut pieces: Vec<Piece> = Vec::new();
        self.layer.locate(all, &mut pieces);
        let of_layer = joined(pieces.iter().map(|piece| (piece.medium, piece.extent)));
        let mut pieces = Vec::new();
        let layer = self.layer.as_ref();
        self.interpreter.layer_pieces(all, layer, &mut |medium, piece| pieces.push((medium, piece)));
        let of_image = joined(pieces.into_iter());
        if let Some((one, other)) = of_layer.iter().zip(&of_image).find(|(one, other)| one != other) {
            return Err(format!("the layer has {one:?} where the image has {other:?}"));
        }
        check_apart(of_layer)?;
        check_apart(self.lying())
    }

    /// Where the bytes of the whole drive lie, piece by piece.
    pub fn lying(&self) -> Vec<(Medium, PbaExtent)> {
        let all = LbaExtent::new(Lba(0), self.layer.capacity());
        let mut pieces = Vec::new();
        let push = &mut |medium, piece| pieces.push((medium, piece));
        self.interpreter.pieces(all, self.layer.as_ref(), push);
        pieces
    }
}

/// Checks that no two pieces share sectors.
fn check_apart(mut places: Vec<(Medium, PbaExtent)>) -> Result<(), String> {
    places.sort_unstable_by_key(|(medium, piece)| (*medium == Medium::Flash, piece.start));
    let shared = |pair: &&[(Medium, PbaExtent)]| pair[0].0 == pair[1].0 && pair[0].1.end() > pair[1].1.start;
    match places.windows(2).find(shared) {
        Some(pair) => Err(format!("{:?} and {:?} share sectors", pair[0], pair[1])),
        None => Ok(()),
    }
}

/// Pieces, as long as they can be.
fn joined(pieces: impl Iterator<Item = (Medium, PbaExtent)>) -> Vec<(Medium, PbaExtent)> {
    let mut joined: Vec<(Medium, PbaExtent)> = Vec::new();
    for (medium, piece) in pieces.filter(|(_, piece)| !piece.is_empty()) {
        match joined.last_mut() {
            Some((same, before)) if *same == medium && before.end() == piece.start => before.len += piece.len,
            _ => joined.push((medium, piece)),
        }
    }
    joined
}
