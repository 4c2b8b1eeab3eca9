//! Random lives: after every step the derived figures are compared with their plain definitions, and what must always
//! hold is looked at. A life that fails prints its graph and its script.

use std::collections::{HashMap, HashSet};

use aot_core::coordinator::Task;

use super::world::World;

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }
}

/// Atoms in the written order; later ones depend on earlier ones, groups and cuts nest.
fn graph(dice: &mut Dice) -> String {
    let agents = ["w", "wp", "wc", "wpc"][dice.below(4)];
    let mut text =
        format!("m={}; N={}; s={}; agents={agents}", 1 + dice.below(3), 2 + dice.below(9), 1 + dice.below(3));
    if dice.one_in(4) {
        text.push_str("; each");
    }
    if dice.one_in(5) {
        text.push_str("; Q=1");
    }
    let mut names: Vec<String> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let count = 2 + dice.below(7);
    for number in 0..count {
        let mark = ["", "", "!", "$", "?", "@db", "(a/*)", "(a/b)"][dice.below(8)];
        let name = format!("A{number}");
        open.push(name.clone());
        text.push_str(&format!("; {name}{mark}"));
        if !names.is_empty() && dice.one_in(2) {
            text.push_str(&format!("; {name} <- {}", names[dice.below(names.len())]));
        }
        names.push(name);
    }
    let mut groups = 0;
    while open.len() >= 2 && dice.one_in(2) {
        let first = open.remove(dice.below(open.len()));
        let second = open.remove(dice.below(open.len()));
        if dice.one_in(2) {
            let bar = if dice.one_in(3) { "||" } else { "|" };
            let listed = if dice.one_in(4) { "|:Z" } else { "" };
            let listed = if listed.is_empty() { String::new() } else { format!("{listed}{groups}") };
            text.push_str(&format!("; G{groups}={first}{bar}{second}{listed}"));
            groups += 1;
        } else {
            text.push_str(&format!("; {first} -> {second}"));
            open.push(first);
        }
    }
    text
}

#[test]
fn what_is_derived_equals_its_definition_in_random_lives() {
    let lives: u64 = std::env::var("LIVES").ok().and_then(|lives| lives.parse().ok()).unwrap_or(3000);
    for seed in 1..=lives {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let graph = graph(&mut dice);
        let mut script = Vec::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            live(&graph, &mut dice, &mut script);
        }));
        assert!(outcome.is_ok(), "seed {seed}: {graph}\n   {}", script.join(" "));
    }
}

fn live(graph: &str, dice: &mut Dice, script: &mut Vec<String>) {
    let mut world = World::play(graph, "");
    let mut starts: HashMap<u32, HashSet<String>> = HashMap::new();
    let mut fresh = 0;
    for _ in 0..1500 {
        look(&world, &mut starts);
        if world.is_halted() {
            if dice.one_in(2) {
                return;
            }
            script.push("crash".into());
            world.word("crash");
            continue;
        }
        let mut words = world.sayable();
        if world.replan_is_asked() {
            let atoms: Vec<String> = world.file.atoms.keys().map(|id| id.to_string()).collect();
            let any = atoms[dice.below(atoms.len())].clone();
            let other = atoms[dice.below(atoms.len())].clone();
            fresh += 1;
            words.push(format!("r(+N{fresh}<-{any})"));
            words.push(format!("r({any}->M{fresh},O{fresh})"));
            words.push(format!("r({any}|P{fresh})"));
            words.push(format!("r({any}<-{other})"));
            words.push(format!("r(~{any})"));
            words.push("r(^G0)".into());
        }
        if world.is_parked() {
            words.push("wait4000".into());
        }
        let word = match dice.below(40) {
            0 => "crash".to_owned(),
            1 => "redirect".to_owned(),
            2 if dice.one_in(4) => "stop".to_owned(),
            3 if dice.one_in(4) => "now".to_owned(),
            _ if words.is_empty() => "crash".to_owned(),
            _ => words[dice.below(words.len())].clone(),
        };
        script.push(word.clone());
        world.word(&word);
        if word == "redirect" && !world.is_halted() {
            assert!(
                world.attempts().iter().all(|job| matches!(job.task, Task::Work(_))),
                "only landings live on"
            );
            script.push("redirected".into());
            world.word("redirected");
        }
        assert!(
            world.is_halted() || world.is_parked() || !world.sayable().is_empty(),
            "nothing runs, and it does not halt"
        );
    }
    panic!("it does not halt");
}

fn look(world: &World, starts: &mut HashMap<u32, HashSet<String>>) {
    let control = &world.file.control;
    let parallel = world.file.constraints().max_parallel_agents;
    assert!(world.most_running <= parallel as usize, "{} run", world.most_running);
    if let Some(open) = &control.open {
        assert!(open.started.len() < 2 * parallel as usize, "{} starts", open.started.len());
        let seen = starts.entry(control.iteration).or_default();
        let now: HashSet<String> = open.started.iter().map(|id| id.to_string()).collect();
        assert_eq!(now.len(), open.started.len(), "an atom was started twice in an iteration");
        seen.extend(now);
    }
    assert!(control.iteration <= world.file.constraints().max_iterations, "past the iteration limit");
}
