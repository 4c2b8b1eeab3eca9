//! The order of starts pays: on a sample of what `--example makespan` measures.

use aot_testkit::makespan::{MakespanTable, PARALLEL};

#[test]
fn the_coordinator_beats_file_order_and_waves_and_keeps_the_hard_bound() {
    let graphs = if cfg!(debug_assertions) { 48 } else { 400 };
    let table = MakespanTable::measure(graphs, 0).unwrap_or_else(|violation| panic!("{violation}"));
    for parallel in PARALLEL {
        let row = table.sum(|_, m| m == parallel);
        let hard = 2.0 - 1.0 / f64::from(parallel);
        let worst = row.worst.max(row.worst_learnt);
        assert!(worst <= hard + 1e-9, "m = {parallel}: {worst} above {hard}\n{table}");
    }
    let whole = table.whole();
    assert!(whole.mean(whole.ratio) < whole.mean(whole.file_order), "\n{table}");
    assert!(whole.mean(whole.ratio) <= 1.09, "\n{table}");
    assert!(whole.mean(whole.speedup) >= 1.3, "\n{table}");
    assert!(whole.mean(whole.learnt) <= 1.04, "\n{table}");
}
