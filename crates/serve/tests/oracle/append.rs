//! An append is refused as unsupported in every timing mode, on drives with zones too: no protocol has one, so `validate` lets
//! none through, and no served drive moves its bytes. The drive goes on.

use std::sync::mpsc::channel;

use crate::media::fault::Random;
use crate::media::ram::RamStore;
use skylight_image::{Image, Options};
use skylight_serve::core::{Command, Completion, Failure, Job, Op, Outcome};

use crate::Timing;
use crate::drives::DRIVES;
use crate::host::Target;
use crate::targets::AnyTarget;
use crate::zones;

fn refuses(timing: Timing) {
    for drive in DRIVES {
        let layer = (drive.layer)();
        let options = Options { log_bytes: Some(16_384), ..Options::default() };
        let store = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
        let image = Image::create_on(Box::new(store), layer, "", &options).expect("memory");
        refuses_on(image, timing, true);
    }
    for write_cache in [false, true] {
        refuses_on(zones::image(write_cache), timing, write_cache);
    }
}

/// Refuses an append, and then does a write and reads it.
fn refuses_on(image: Image, timing: Timing, write_cache: bool) {
    let (mut random, (sender, results)) = (Random(1), channel());
    let mut target = AnyTarget::new(image, timing, write_cache, &mut random, 1);
    for (op, data) in [(Op::Append, vec![7; 4096]), (Op::Write, vec![8; 4096]), (Op::Read, vec![0; 4096])] {
        let sender = sender.clone();
        let answer = move |completion: Completion| sender.send(completion).expect("the test listens");
        target.submit(Job::new(Command::of_bytes(op, 0, 4096), data, Box::new(answer)));
        let completion = loop {
            match results.try_recv() {
                Ok(completion) => break completion,
                Err(_) => target.pass(&mut random),
            }
        };
        let refused = Outcome::Failed(Failure::Unsupported);
        let expected = if op == Op::Append { refused } else { Outcome::Done };
        assert_eq!(completion.outcome, expected, "{op} in {timing:?}");
        if op == Op::Read {
            assert_eq!(completion.data, vec![8; 4096], "{timing:?}");
        }
    }
    target.close().unwrap_or_else(|why| panic!("{why}"));
}

in_every_timing!(refuses);
