//! A write or trim that the layer refuses is an error with its reason, and changes nothing.

mod media;

use media::ram::RamStore;
use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};
use skylight_image::{Image, ImageError, Options};
use skylight_layer::{Conventional, Failure, Idle, Layer, MediaUse, Medium, Op, Piece, Plan, Queue};

/// A disk that may be written in its first half alone.
struct HalfWritable(Conventional);

impl Layer for HalfWritable {
    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }

    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let command = queue.next_command();
        if command.op != Op::Read && command.extent.end().get() > self.capacity().get() / 2 {
            return plan.fail(command.id, Failure::NotPermitted);
        }
        self.0.take(queue, plan);
    }

    fn idle(&mut self, plan: &mut Plan) -> Idle {
        self.0.idle(plan)
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.0.locate(extent, pieces);
    }

    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        self.0.locate_first(extent, write)
    }

    fn erase(&mut self) {
        self.0.erase();
    }

    fn media_use(&self) -> MediaUse {
        self.0.media_use()
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.0.initial_locations(extent, visit);
    }
}

#[test]
fn a_command_that_the_layer_refuses_is_an_error() {
    let layer = Box::new(HalfWritable(Conventional::new(Medium::Platter, Sectors(2048))));
    let options = Options { log_bytes: Some(8192), ..Options::default() };
    let store = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
    let mut image = Image::create_on(Box::new(store), layer, "", &options).expect("memory");
    let half = 1024 * 512;
    image.write(half - 4096, &[7; 4096], true).expect("the first half");
    let refused = |result| match result {
        Err(error @ ImageError::Refused(Failure::NotPermitted)) => Failure::from(&error),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(image.write(half, &[9; 4096], true)), Failure::NotPermitted);
    assert_eq!(refused(image.trim(half, 4096)), Failure::NotPermitted);
    let mut data = [1; 8192];
    image.read(half - 4096, &mut data).expect("it reads on");
    assert!(data[..4096] == [7; 4096] && data[4096..] == [0; 4096]);
}
