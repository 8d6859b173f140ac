//! An append is refused with ENOTSUP in every timing mode: no protocol has one, and no layer without zones takes it.

use std::sync::mpsc::channel;

use crate::media::fault::Random;
use crate::media::ram::RamStore;
use skylight_image::{Image, Options};
use skylight_serve::core::{Command, Completion, Errno, Job, Op};

use crate::Timing;
use crate::drives::DRIVES;
use crate::host::Target;
use crate::targets::AnyTarget;

fn refuses(timing: Timing) {
    for drive in DRIVES {
        let layer = (drive.layer)();
        let options = Options { log_bytes: Some(16_384), ..Options::default() };
        let store = RamStore::new(Image::bytes_needed(layer.as_ref(), &options));
        let image = Image::create_on(Box::new(store), layer, "", &options).expect("memory");
        let (mut random, (sender, results)) = (Random(1), channel());
        let mut target = AnyTarget::new(image, timing, true, &mut random, 1);
        for (op, data) in [(Op::Append, vec![7; 4096]), (Op::Read, vec![0; 4096])] {
            let sender = sender.clone();
            let answer =
                move |completion: Completion| sender.send(completion.result).expect("the test listens");
            target.submit(Job::new(Command::of_bytes(op, 0, 4096), data, Box::new(answer)));
            let result = loop {
                match results.try_recv() {
                    Ok(result) => break result,
                    Err(_) => target.pass(&mut random),
                }
            };
            let expected = if op == Op::Append { Err(Errno::NotSupported) } else { Ok(()) };
            assert_eq!(result, expected, "{op} in {timing:?}");
        }
    }
}

in_every_timing!(refuses);
