//! A batch that ends early: the host stops after enough slow commands.

use skylight_command::code::Code;
use skylight_disk::Nanos;
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive, Stop};

/// A host that stops at the first slow completion submits nothing after it, and all submitted commands
/// complete.
#[test]
fn a_stop_condition_ends_the_batch() {
    let text = include_str!("../../../python/skylight/profiles/st4000nc001.toml");
    let profile = Profile::from_toml(text, "st4000nc001.toml").expect("valid");
    let offset: Vec<u64> = (0..400u64).map(|n| (n * 7_919) % 1_000_000 * 4_096 * 900).collect();
    let (op, size) = (vec![Code::Read; 400], vec![4_096u32; 400]);
    let batch = Batch { op: &op, offset: &offset, size: &size };
    for depth in [1, 8] {
        let (mut submit, mut complete) = (vec![0; 400], vec![0; 400]);
        let mut drive = Drive::new(&profile, 1).expect("builds");
        drive.run(&batch, depth, &mut submit, &mut complete).expect("runs");
        let latency: Vec<u64> = complete.iter().zip(&submit).map(|(c, s)| c - s).collect();
        let worst = *latency[40..].iter().max().expect("some");
        let (mut submit_2, mut complete_2) = (vec![0; 400], vec![0; 400]);
        let stop = Stop { latency: Nanos(worst), count: 1, within: 1, alone: None };
        let mut drive = Drive::new(&profile, 1).expect("builds");
        let done = drive.run_until(&batch, depth, Some(stop), &mut submit_2, &mut complete_2).expect("runs");
        let slow = (0..400).filter(|&row| latency[row] >= worst).min_by_key(|&row| complete[row]);
        let slow = slow.expect("it is there");
        let before = submit.iter().filter(|&&at| at < complete[slow]).count();
        assert_eq!(done, before, "depth {depth}: what was submitted before the slow completion, no more");
        assert_eq!(submit_2[..done], submit[..done]);
        assert!(complete_2[..done].iter().all(|&at| at > 0));
        let unsound = Stop { latency: Nanos(1), count: 2, within: 1, alone: None };
        assert!(drive.run_until(&batch, depth, Some(unsound), &mut submit_2, &mut complete_2).is_err());
    }
}
