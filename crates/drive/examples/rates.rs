//! How fast a profile's drive runs: `cargo run --release --example rates -- PROFILE.toml`.

use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a profile")?;
    let profile = Profile::from_toml(&std::fs::read_to_string(&path)?, &path)?;
    let count = 3_000_000;
    for (name, op) in [("reads", 0u8), ("writes", 1)] {
        let mut drive = Drive::new(&profile, 1)?;
        let blocks = drive.capacity().bytes() / 4096;
        let mut state = 88_172_645_463_325_252u64;
        let offset: Vec<u64> = (0..count)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % blocks * 4096
            })
            .collect();
        let (op, size) = (vec![op; count], vec![4096; count]);
        let (mut submit, mut complete) = (vec![0; count], vec![0; count]);
        let batch = Batch { op: &op, offset: &offset, size: &size };
        for depth in [1, 31] {
            let start = std::time::Instant::now();
            drive.run(&batch, depth, &mut submit, &mut complete)?;
            println!(
                "random {name}, depth {depth}: {:.2} M/s",
                count as f64 / start.elapsed().as_secs_f64() / 1e6
            );
        }
    }
    Ok(())
}
