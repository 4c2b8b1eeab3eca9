//! How long a loop takes against what nobody could beat, with durations that were learnt from a past run and without. The
//! graphs and how well the past foretells the present are those of [`crate::makespan`]; nothing here depends on the machine.

use crate::makespan::{FAMILIES, Knowledge, PARALLEL, Task};
use crate::random::Random;

use super::{Bench, Goal, Row, Samples, Unit};

const MEAN: f64 = 1.04;
const WORST: f64 = 1.45;

pub fn measure(bench: &mut Bench) {
    let graphs = bench.of(200, 1_000);
    let [mut same_work, mut same_kind, mut nothing, mut file_order, mut waves] =
        std::array::from_fn::<_, 5, _>(|_| Samples::default());
    for number in 0..graphs {
        let family = FAMILIES[number as usize % FAMILIES.len()];
        let task = Task::draw(family, &mut Random::new(number));
        for m in PARALLEL {
            let bound = task.lower_bound(m);
            let with = |knowledge| {
                task.by_coordinator(m, knowledge).expect("a loop without failures completes") as f64 / bound
            };
            same_work.0.push(with(Knowledge::SameWork));
            same_kind.0.push(with(Knowledge::SameKind));
            nothing.0.push(with(Knowledge::Nothing));
            file_order.0.push(task.in_file_order(m) as f64 / bound);
            waves.0.push(task.in_waves(m) as f64 / bound);
        }
    }
    let mut rows = |what: &str, ratios: &Samples, [mean, worst]: [Goal; 2]| {
        let sum: f64 = ratios.0.iter().sum();
        bench.row(row(format!("makespan, {what}: mean"), ratios, sum / ratios.0.len() as f64, mean));
        bench.row(row(format!("makespan, {what}: worst"), ratios, ratios.quantile(1.0), worst));
    };
    let goals = [Goal::AtMost(MEAN), Goal::AtMost(WORST)];
    rows("learnt from a past run of the same work", &same_work, goals);
    rows("learnt from other work of the same agents", &same_kind, [Goal::None; 2]);
    rows("nothing learnt", &nothing, [Goal::None; 2]);
    rows("in the order of the file", &file_order, [Goal::None; 2]);
    rows("in waves", &waves, [Goal::None; 2]);
}

fn row(what: String, ratios: &Samples, value: f64, goal: Goal) -> Row {
    Row {
        what,
        against: "lower bound".into(),
        value,
        spread: (ratios.quantile(0.25), ratios.quantile(0.75)),
        unit: Unit::Times,
        goal,
        sides: format!("{} runs in virtual time", ratios.0.len()),
    }
}
