//! The proving ground: public projects whose modules were emptied, an atom for each of them, and scripted agents that lie,
//! edit tests, crash, babble, hang and are wrong at first. Loops of the built program bring the modules back; what they
//! leave is judged by the projects' own tests and by git, and compared with the same agents in a shell.

pub mod agent;
mod bare;
mod client;
mod corpus;
pub mod faults;
pub mod judge;
mod scene;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agent::Patience;
use bare::BareRun;
use corpus::{Corpus, Prepared, TESTS};
use faults::{Misdeed, misdeeds};
use judge::{Complaint, Outcome, Word, judge};
use scene::{LoopRun, Minds, Work, Workforce};
pub use table::ProvingTable;

use crate::project::Project;

/// The pause of a scripted request, where time is measured.
const PACE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct ProvingGround {
    /// The built program.
    pub aot: PathBuf,
    /// Downloads and what was found out about them.
    pub cache: PathBuf,
    /// Which projects; all if there are none.
    pub projects: Vec<String>,
    /// The first of so many seeds.
    pub seed: u64,
    pub rounds: u64,
}

/// What was seen of one project.
#[derive(Debug)]
pub struct ProjectReport {
    pub name: String,
    pub version: String,
    pub modules: usize,
    pub edges: usize,
    pub tests: usize,
    pub rounds: Vec<RoundReport>,
    /// Agents without any fault.
    pub honest_loop: Duration,
    pub honest_bare: Duration,
}

/// One seed.
#[derive(Debug)]
pub struct RoundReport {
    pub plan: Vec<Vec<Misdeed>>,
    pub mending: LoopReport,
    pub declining: LoopReport,
    pub xargs: BareRun,
    pub believing: BareRun,
}

#[derive(Debug)]
pub struct LoopReport {
    pub word: Word,
    pub exit: Option<i32>,
    pub proven: u64,
    pub took: Duration,
    pub work: Work,
    pub agent_runs_told: u64,
    pub tokens_told: u64,
    pub complaints: Vec<Complaint>,
}

impl LoopReport {
    /// What does not hold, in words; each line is a broken promise of the program.
    pub fn broken(&self) -> Vec<String> {
        let mut broken: Vec<String> =
            self.complaints.iter().map(|complaint| format!("{complaint:?}")).collect();
        if self.word == Word::NotDone {
            broken.push(format!("not DONE: exit {:?}", self.exit));
        }
        if self.work.blind > 0 {
            broken.push(format!("{} turns without what the red test said", self.work.blind));
        }
        let tokens = self.work.total().all();
        if self.tokens_told != tokens {
            broken.push(format!("it counts {} tokens, the agents {tokens}", self.tokens_told));
        }
        let runs = self.work.runs + self.work.declined;
        if self.agent_runs_told != runs {
            broken.push(format!("it counts {} agent runs, the agents {runs}", self.agent_runs_told));
        }
        broken
    }
}

/// How long honest agents take that think for a while: in a loop, all at once and then one run of the tests, and under
/// `make`, which waits for imports and runs the same checks.
#[derive(Debug)]
pub struct PacedTimes {
    pub looped: Duration,
    pub xargs: Duration,
    /// None without `make`.
    pub make: Option<Duration>,
}

impl ProvingGround {
    /// The first of the projects, with agents of this pace.
    pub fn paced(&self, pace: Duration, parallel: usize) -> Result<PacedTimes, String> {
        let prepared = Corpus::read().prepare(&self.cache, &self.projects)?;
        let prepared = prepared.first().ok_or("there is no such project")?;
        let nothing = vec![Vec::new(); prepared.modules.len()];
        let minds = || Minds::new(prepared, &nothing, Patience::Mends, pace).so_many(parallel);
        let looped = scene::run_loop(&self.aot, prepared, &minds(), &Workforce::Scripted);
        if looped.exit != Some(0) {
            return Err(format!("the loop ended with {:?}: {}", looped.exit, looped.said));
        }
        let made = bare::with_make(prepared, &minds());
        Ok(PacedTimes {
            looped: looped.took,
            xargs: bare::with_xargs(prepared, &minds()).took,
            make: (made.said_done && made.tests_pass).then_some(made.took),
        })
    }

    pub fn run(&self) -> Result<ProvingTable, String> {
        let corpus = Corpus::read();
        let prepared = corpus.prepare(&self.cache, &self.projects)?;
        let projects = prepared.iter().map(|prepared| self.project(prepared)).collect();
        let python = prepared.first().map(|prepared| program_version(&prepared.python)).unwrap_or_default();
        let versions = format!("{}, {python}, pytest {}", program_version(&self.aot), corpus.pytest);
        Ok(ProvingTable { seed: self.seed, rounds: self.rounds, versions, projects })
    }

    fn project(&self, prepared: &Prepared) -> ProjectReport {
        let atoms = prepared.modules.len();
        let nothing = vec![Vec::new(); atoms];
        let name = &prepared.project.name;
        eprintln!("{name}: {atoms} modules, honest agents");
        let honest = Minds::new(prepared, &nothing, Patience::Mends, PACE);
        let honest_loop = scene::run_loop(&self.aot, prepared, &honest, &Workforce::Scripted).took;
        let honest = Minds::new(prepared, &nothing, Patience::Mends, PACE);
        let honest_bare = bare::with_xargs(prepared, &honest).took;
        let rounds = (self.seed..self.seed + self.rounds).map(|seed| {
            // Each project has an order of its own.
            let salt = name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            self.round(prepared, seed, &misdeeds(seed ^ (salt << 16), atoms))
        });
        ProjectReport {
            name: name.clone(),
            version: prepared.project.version.clone(),
            modules: atoms,
            edges: prepared.modules.iter().map(|module| module.depends_on.len()).sum(),
            tests: prepared.tests,
            rounds: rounds.collect(),
            honest_loop,
            honest_bare,
        }
    }

    fn round(&self, prepared: &Prepared, seed: u64, plan: &[Vec<Misdeed>]) -> RoundReport {
        let name = &prepared.project.name;
        let minds = |patience, pace| Minds::new(prepared, plan, patience, pace);
        let looped = |patience| {
            let report = self.looped(prepared, &minds(patience, PACE));
            eprintln!("{name}, seed {seed}, {patience:?}: exit {:?}, {:.1?}", report.exit, report.took);
            report
        };
        RoundReport {
            plan: plan.to_vec(),
            mending: looped(Patience::Mends),
            declining: looped(Patience::Declines),
            xargs: bare::with_xargs(prepared, &minds(Patience::Mends, PACE)),
            believing: bare::with_shell_loop(prepared, &minds(Patience::Mends, Duration::ZERO)),
        }
    }

    fn looped(&self, prepared: &Prepared, minds: &Minds) -> LoopReport {
        let run = scene::run_loop(&self.aot, prepared, minds, &Workforce::Scripted);
        let (report, project, said) = self.judged(prepared, run);
        keep_if_broken(&report.broken(), project, &said);
        report
    }

    /// The same with a real client, one project after the other; the lines of a table, and what does not hold.
    pub fn run_with_client(&self) -> Result<(String, Vec<String>), String> {
        let client = client::client().ok_or("claude is not here: clients/install.sh installs it")?;
        let mut table = "| real client | project | DONE | modules proven | agent runs | mends | seconds |\n|---|---|---|---|---|---|---|\n".to_owned();
        let mut all = Vec::new();
        for prepared in Corpus::read().prepare(&self.cache, &self.projects)? {
            let run = client::run_with_client(&self.aot, &prepared, &client);
            let (modules, mends) = (prepared.modules.len(), run.halted["mends"].as_u64().unwrap_or_default());
            let (report, project, said) = self.judged(&prepared, run);
            let LoopReport { word, proven, agent_runs_told, took, .. } = &report;
            let name = &prepared.project.name;
            let done = if *word == Word::Done { "yes" } else { "no" };
            table += &format!(
                "| {} | {name} | {done} | {proven} of {modules} | {agent_runs_told} | {mends} | {:.1} |\n",
                program_version(&client),
                took.as_secs_f64()
            );
            let mut broken: Vec<String> = report.complaints.iter().map(|one| format!("{one:?}")).collect();
            if *word == Word::NotDone || mends != modules as u64 {
                broken.push(format!("exit {:?}, {mends} mends for {modules} modules", report.exit));
            }
            keep_if_broken(&broken, project, &said);
            all.extend(broken);
        }
        Ok((table, all))
    }

    fn judged(&self, prepared: &Prepared, run: LoopRun) -> (LoopReport, Project, String) {
        let reference = scene::reference(&self.aot, prepared);
        let LoopRun { project, began, exit, took, halted, work, tokens_told, said } = run;
        let word = if exit == Some(0) { Word::Done } else { Word::NotDone };
        let outcome = Outcome {
            repository: &project.root(),
            began: &began,
            reference: &reference.root(),
            test_command: &prepared.test_command(&[]),
            protected: TESTS,
        };
        let report = LoopReport {
            word,
            exit,
            proven: halted["proven"].as_u64().unwrap_or_default(),
            took,
            work,
            agent_runs_told: halted["agent_runs"].as_u64().unwrap_or_default(),
            tokens_told,
            complaints: judge(outcome, word),
        };
        (report, project, said)
    }
}

/// Where downloads are kept.
pub fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
    let named = std::env::var_os("AOT_PROVING_CACHE").map(PathBuf::from);
    named.unwrap_or_else(|| home().join(".cache/aot-proving"))
}

fn program_version(program: &Path) -> String {
    let told = Command::new(program).arg("--version").output().map(|done| done.stdout).unwrap_or_default();
    String::from_utf8_lossy(&told).lines().next().unwrap_or_default().trim().to_owned()
}

/// Leaves the project for somebody to look at.
fn keep_if_broken(broken: &[String], project: Project, said: &str) {
    if !broken.is_empty() {
        let note = project.note("said");
        std::fs::write(&note, said).expect("a file");
        eprintln!("BROKEN: {broken:#?}\n  look at {} and {}", project.keep().display(), note.display());
    }
}
