//! How fast random blocks go into the exception map: `cargo run --release --example map_rate`.

use skylight_disk::{Lba, LbaExtent, Pba, Sectors};
use skylight_layer::ExtentMap;

/// Time on the processor, whatever else the machine does.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn main() {
    let mut lbas = Vec::new();
    let mut state = 88_172_645_463_325_252u64;
    for _ in 0..9_200_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        lbas.push(Lba(state % 950_000_000 * 8));
    }
    for ahead in [0usize, 16, 24, 32] {
        let start = cpu_ns();
        let mut map = ExtentMap::new();
        for (number, &lba) in lbas.iter().enumerate() {
            if ahead > 0
                && let Some(&next) = lbas.get(number + ahead)
            {
                map.hint(next);
            }
            map.insert(LbaExtent::new(lba, Sectors(8)), Pba(number as u64 * 8));
        }
        let spent = (cpu_ns() - start) as f64 / 1e9;
        println!(
            "hints {ahead}: {:.0} ns a block, {:.2} bytes a block",
            spent * 1e9 / lbas.len() as f64,
            map.bytes() as f64 / (map.sectors() / 8) as f64
        );
    }
}
