//! An image that stopped after an error: each command that fails because of it says so, once with the reason in the lines
//! of a front door, and is no sector that cannot be read.

use std::sync::mpsc::channel;

use crate::Timing;
use crate::drives::DRIVES;
use crate::media::fault::{FaultStore, Random};
use crate::media::ram::RamStore;
use crate::targets::{Interface, alone};
use skylight_image::{Image, Options};
use skylight_serve::core::{Command, Failure, Op};

#[test]
fn what_fails_because_the_image_stopped_says_why_and_is_no_error_of_the_medium() {
    for timing in [Timing::None, Timing::Model] {
        let (layer, options) = ((DRIVES[0].layer)(), Options::default());
        let store = FaultStore::new(RamStore::new(Image::bytes_needed(layer.as_ref(), &options)));
        let image = Image::create_on(Box::new(store.clone()), layer, "", &options).expect("memory");
        let (sender, lines) = channel();
        let interface = Interface::draw(&mut Random(1), false);
        let backend =
            alone(image, timing, interface, Box::new(move |line| drop(sender.send(line.to_owned()))));
        let write = Command::of_bytes(Op::Write, 0, 4096).with_fua(true);
        let done = || backend.execute(&write, &mut [7; 4096]);
        assert_eq!(done(), Ok(()), "{timing:?}");
        store.fail_after(0);
        assert_eq!(done(), Err(Failure::Medium), "{timing:?}: the medium's own error");
        store.mend();
        for _ in 0..3 {
            assert_eq!(done(), Err(Failure::Internal), "{timing:?}: it takes no more changes");
        }
        let lines: Vec<String> = lines.try_iter().collect();
        let why = "the image takes no more changes after an error (a medium that fails: cannot write: a planted fault)";
        assert!(lines.len() == 1 && lines[0].starts_with(&format!("image error: {why}")), "{lines:?}");
        let status = backend.status();
        assert!(status["last_error"].as_str().is_some_and(|last| last.starts_with(why)), "{status}");
    }
}
