//! What the proving ground has seen, as Markdown. First what does not depend on the machine. Measures nothing.

use std::fmt::{self, Display, Formatter};

use super::faults::{MISDEEDS, Misdeed};
use super::judge::{Complaint, Word};
use super::scene::Tokens;
use super::{LoopReport, ProjectReport, RoundReport};

#[derive(Debug)]
pub struct ProvingTable {
    pub seed: u64,
    pub rounds: u64,
    /// Of the programs.
    pub versions: String,
    pub projects: Vec<ProjectReport>,
}

impl ProvingTable {
    /// Every promise that did not hold, with its place.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for project in &self.projects {
            for (seed, round) in (self.seed..).zip(&project.rounds) {
                for (how, report) in [("mending", &round.mending), ("declining", &round.declining)] {
                    let told = report.broken();
                    broken.extend(
                        told.iter().map(|line| format!("{}, seed {seed}, {how}: {line}", project.name)),
                    );
                }
            }
        }
        broken
    }

    fn rounds(&self) -> impl Iterator<Item = (&ProjectReport, &RoundReport)> {
        self.projects.iter().flat_map(|project| project.rounds.iter().map(move |round| (project, round)))
    }
}

impl ProjectReport {
    fn loops(&self) -> impl Iterator<Item = &LoopReport> {
        self.rounds.iter().flat_map(|round| [&round.mending, &round.declining])
    }

    fn complaints(&self, is_one: impl Fn(&Complaint) -> bool) -> usize {
        self.loops().flat_map(|report| &report.complaints).filter(|complaint| is_one(complaint)).count()
    }
}

impl Display for ProvingTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ProvingTable { seed, rounds, versions, .. } = self;
        let last = (seed + rounds).saturating_sub(1);
        writeln!(f, "Seeds {seed} to {last}; {versions}.\n")?;
        self.promises(f)?;
        self.played(f)?;
        self.costs(f)?;
        self.by_misdeed(f)?;
        self.believers(f)?;
        self.times(f)
    }
}

impl ProvingTable {
    fn promises(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| project | modules | imports | tests | loops | DONE | false DONE | protected files changed | tree is the reference | modules proven |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        for project in &self.projects {
            let ProjectReport { name, version, modules, edges, tests, .. } = project;
            let loops = project.loops().count();
            let done = project.loops().filter(|report| report.word == Word::Done).count();
            let lied = project.complaints(|one| matches!(one, Complaint::FalseDone { .. }));
            let touched = project.complaints(|one| matches!(one, Complaint::ProtectedChanged { .. }));
            let other = project.complaints(|one| matches!(one, Complaint::NotTheReference { .. }));
            let proven: u64 = project.loops().map(|report| report.proven).sum();
            writeln!(
                f,
                "| {name} {version} | {modules} | {edges} | {tests} | {loops} | {done} | {lied} | {touched} | {} of {done} | {proven} of {} |",
                done - other,
                modules * loops
            )?;
        }
        writeln!(f)
    }

    /// What the agents really did in these loops, by their own notes.
    fn played(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let loops = || self.projects.iter().flat_map(ProjectReport::loops);
        let count = |did: &str| loops().filter_map(|report| report.work.did.get(did)).sum::<u64>();
        let names = MISDEEDS.map(|misdeed| format!("{} {}", misdeed.name(), count(misdeed.name())));
        let prevented: u64 = loops().map(|report| report.work.prevented).sum();
        let names = names.join(", ");
        writeln!(
            f,
            "Turns of agents in these loops: {names}, right {}; the cage forbade {prevented} edits.\n",
            count("right")
        )
    }

    fn costs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| for each resolved module | agent runs | conversations | tokens, cached ones too | of these not cached |"
        )?;
        writeln!(f, "|---|---|---|---|---|")?;
        type Pick = fn(&RoundReport) -> &LoopReport;
        let sides: [(&str, Pick); 2] =
            [("with mending", |round| &round.mending), ("without", |round| &round.declining)];
        let mut sums = Vec::new();
        for (name, pick) in sides {
            let reports: Vec<&LoopReport> = self.rounds().map(|(_, round)| pick(round)).collect();
            let proven = reports.iter().map(|report| report.proven).sum::<u64>().max(1) as f64;
            let tokens = reports.iter().fold(Tokens::default(), |sum, report| sum.plus(report.work.total()));
            let runs = reports.iter().map(|report| report.work.runs).sum::<u64>() as f64;
            let conversations = reports.iter().map(|report| report.work.conversations).sum::<u64>() as f64;
            let each =
                [runs, conversations, tokens.all() as f64, tokens.fresh() as f64].map(|sum| sum / proven);
            let [runs, conversations, all, fresh] = each;
            writeln!(f, "| {name} | {runs:.2} | {conversations:.2} | {all:.0} | {fresh:.0} |")?;
            sums.push(each);
        }
        let [runs, conversations, all, fresh] = [0, 1, 2, 3].map(|place| sums[0][place] / sums[1][place]);
        writeln!(f, "| with / without | {runs:.2} | {conversations:.2} | {all:.2} | {fresh:.2} |\n")
    }

    /// Tokens of the modules with which exactly this went wrong.
    fn by_misdeed(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| the agent … | modules | not cached: with | without | ratio | all tokens: with | without | ratio |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        let kinds = [None].into_iter().chain(MISDEEDS.map(Some));
        for kind in kinds {
            let wanted: Vec<Misdeed> = kind.into_iter().collect();
            let (mut count, mut with, mut without) = (0_u64, Tokens::default(), Tokens::default());
            for (_, round) in self.rounds() {
                for (place, _) in round.plan.iter().enumerate().filter(|(_, plan)| **plan == wanted) {
                    let atom = format!("A{}", place + 1);
                    let of = |report: &LoopReport| report.work.tokens.get(&atom).copied().unwrap_or_default();
                    count += 1;
                    (with, without) = (with.plus(of(&round.mending)), without.plus(of(&round.declining)));
                }
            }
            if count == 0 {
                continue;
            }
            let name = kind.map_or("is right at once", Misdeed::name);
            let each = |sum: u64| sum / count;
            let ratio = |one: u64, other: u64| one as f64 / other.max(1) as f64;
            writeln!(
                f,
                "| {name} | {count} | {} | {} | {:.2} | {} | {} | {:.2} |",
                each(with.fresh()),
                each(without.fresh()),
                ratio(with.fresh(), without.fresh()),
                each(with.all()),
                each(without.all()),
                ratio(with.all(), without.all())
            )?;
        }
        writeln!(f)
    }

    fn believers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| the same agents | runs | said done | of these with red tests | files of tests changed |"
        )?;
        writeln!(f, "|---|---|---|---|---|")?;
        let all: Vec<&RoundReport> = self.rounds().map(|(_, round)| round).collect();
        let runs = all.len();
        for (name, pick) in [
            (
                "in a shell loop that believes them",
                (|round| &round.believing) as fn(&RoundReport) -> &super::BareRun,
            ),
            ("with `xargs -P`", |round| &round.xargs),
        ] {
            let done: Vec<_> = all.iter().map(|round| pick(round)).filter(|run| run.said_done).collect();
            let red = done.iter().filter(|run| !run.tests_pass).count();
            let changed: usize = all.iter().map(|round| pick(round).tests_changed).sum();
            writeln!(f, "| {name} | {runs} | {} | {red} | {changed} |", done.len())?;
        }
        let loops: Vec<&LoopReport> =
            all.iter().flat_map(|round| [&round.mending, &round.declining]).collect();
        let done = loops.iter().filter(|report| report.word == Word::Done).count();
        let complaints = |is_one: fn(&Complaint) -> bool| {
            loops.iter().flat_map(|report| &report.complaints).filter(|one| is_one(one)).count()
        };
        let red = complaints(|one| matches!(one, Complaint::FalseDone { .. }));
        let changed = complaints(|one| matches!(one, Complaint::ProtectedChanged { .. }));
        writeln!(f, "| with `aot run` | {} | {done} | {red} | {changed} |\n", loops.len())
    }

    fn times(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| seconds on one machine | honest agents: `aot run` | `xargs -P` and one test run | misbehaving: `aot run` to DONE | without mending | `xargs -P` and one test run (red) |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for project in &self.projects {
            let rounds = project.rounds.len().max(1) as f64;
            let mean = |pick: fn(&RoundReport) -> std::time::Duration| {
                project.rounds.iter().map(|round| pick(round).as_secs_f64()).sum::<f64>() / rounds
            };
            writeln!(
                f,
                "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                project.name,
                project.honest_loop.as_secs_f64(),
                project.honest_bare.as_secs_f64(),
                mean(|round| round.mending.took),
                mean(|round| round.declining.took),
                mean(|round| round.xargs.took)
            )?;
        }
        Ok(())
    }
}
