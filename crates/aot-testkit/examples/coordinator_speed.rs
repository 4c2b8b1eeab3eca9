//! What the coordinator costs per atom, and how that grows: `performance coordinator` without the rounds.
//!
//! `cargo run --release -p aot-testkit --example coordinator_speed`

use aot_testkit::performance::coordinator::SHAPES;

const SIZES: [usize; 3] = [50_000, 100_000, 200_000];

fn main() {
    println!("{:28} {:>8} {:>10} {:>12}", "shape", "atoms", "µs/atom", "events");
    for shape in SHAPES {
        let mut before: Option<f64> = None;
        for size in SIZES {
            // The best of three: the machine has other work too.
            let lives = (0..3).map(|_| shape.run(size));
            let life = lives.min_by_key(|life| life.spent).expect("there were three");
            let per_atom = life.per_atom(size) * 1e6;
            let growth = before.map_or(String::new(), |before| format!("   {:.2} times", per_atom / before));
            println!("{:28} {size:>8} {per_atom:>10.2} {:>12}{growth}", shape.name, life.events);
            before = Some(per_atom);
        }
    }
}
