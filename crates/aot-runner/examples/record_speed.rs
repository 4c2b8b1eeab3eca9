//! What a write of a driver costs: `cargo run --release -p aot-runner --example record_speed -- STATE`. Starts and
//! resolves every atom of a copy of a state file, eight at a time, and prints milliseconds per write.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aot_core::rules::{Change, Refusal};
use aot_core::state::{AtomId, Binding};
use aot_runner::store::Store;
use jiff::Timestamp;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: PathBuf = std::env::args_os().nth(1).ok_or("name a state file")?.into();
    let copy = std::env::temp_dir().join(format!("record-speed-{}", std::process::id()));
    std::fs::create_dir_all(&copy)?;
    let path = copy.join("aot-loop-state.md");
    std::fs::copy(given, &path)?;
    let mut store = Store::open(&path, "record_speed")?;
    let atoms: Vec<AtomId> = store.load::<Refusal>()?.1.atoms.keys().cloned().collect();
    let (mut writes, mut time) = (0_u32, Duration::ZERO);
    for batch in atoms.chunks(8) {
        let started = batch.iter().map(|atom| Change::AtomStarted { atom: atom.clone(), attempt: Some(1) });
        let resolved = batch.iter().map(|atom| Change::AtomResolved {
            atom: atom.clone(),
            binding: Binding { summary: "done".into(), artifacts: Vec::new(), ..Binding::default() },
        });
        for changes in [started.collect::<Vec<_>>(), resolved.collect()] {
            store.queue(Timestamp::now(), changes);
            let began = Instant::now();
            store.flush(Timestamp::now())?;
            time += began.elapsed();
            writes += 1;
        }
    }
    println!(
        "{writes} writes of 8 changes each, {:.2} ms each, {} parses",
        time.as_secs_f64() * 1e3 / f64::from(writes),
        store.parses()
    );
    std::fs::remove_dir_all(copy)?;
    Ok(())
}
