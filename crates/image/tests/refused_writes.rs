//! A write or trim that the layer refuses is an error with its reason, and changes nothing; one for which it plans what was
//! not asked is a fault of ours, and stops the image.

mod media;

use media::ram::RamStore;
use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};
use skylight_image::{Image, ImageError, Options};
use skylight_layer::{Command, Conventional, Failure, Idle, Layer, MediaUse, Medium, Op, Piece, Plan, Queue};

/// A disk that plans commands in a way of its own.
struct Disk(Conventional, fn(&mut Conventional, Queue<'_>, &mut Plan));

/// May be written in its first half alone.
fn half_writable(disk: &mut Conventional, queue: Queue<'_>, plan: &mut Plan) {
    let command = queue.next_command();
    if command.op != Op::Read && command.extent.end().get() > disk.capacity().get() / 2 {
        return plan.fail(command.id, Failure::NotPermitted);
    }
    disk.take(queue, plan);
}

/// Writes a sector behind the one that it is asked to.
fn astray(disk: &mut Conventional, queue: Queue<'_>, plan: &mut Plan) {
    let command = queue.next_command();
    let extent = LbaExtent::new(command.extent.start + Sectors(1), command.extent.len);
    disk.take(Queue { waiting: &[Command { extent, ..command }], next: 0 }, plan);
}

impl Layer for Disk {
    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }

    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        self.1(&mut self.0, queue, plan);
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

fn image(take: fn(&mut Conventional, Queue<'_>, &mut Plan)) -> Image {
    let layer = Box::new(Disk(Conventional::new(Medium::Platter, Sectors(2048)), take));
    let options = Options { log_bytes: Some(8192), ..Options::default() };
    let store = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
    Image::create_on(Box::new(store), layer, "", &options).expect("memory")
}

#[test]
fn a_plan_for_another_sector_than_was_asked_is_a_fault_of_ours_and_stops_the_image() {
    let mut image = image(astray);
    let error = image.write(4096, &[7; 4096], true).expect_err("the plan is not of this write");
    assert!(matches!(error, ImageError::Inconsistent(_)), "{error}");
    let why = "a fault of skylight: a plan writes sector 9 where the bytes of sector 8 are due";
    assert!(error.to_string().starts_with(why), "{error}");
    assert_eq!(Failure::from(&error), Failure::Internal, "the medium can be read and written");
    let stopped = image.write(0, &[7; 4096], true).expect_err("it stopped");
    assert!(stopped.to_string().contains(why), "{stopped}");
    assert_eq!(Failure::from(&stopped), Failure::Internal);
    let mut data = [1; 8192];
    image.read(0, &mut data).expect("it reads on");
    assert_eq!(data, [0; 8192]);
}

#[test]
fn a_command_that_the_layer_refuses_is_an_error() {
    let mut image = image(half_writable);
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
