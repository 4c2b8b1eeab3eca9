//! What every verb that runs checks needs: the project, its settings, the shell, the guard, the judge.

use std::path::{Path, PathBuf};

use aot_core::coordinator::OnRefusedStart;
use aot_core::state::{Checks, State};
use aot_core::verdict::Jobs;
use aot_runner::agents::{AgentFlag, AgentLauncher, AgentSettings, Team};
use aot_runner::checks::judge::{self, CommandJudge, Judge};
use aot_runner::checks::seal::Seal;
use aot_runner::checks::{Checker, Evaluation, Occasion, Progress, Whose};
use aot_runner::crew::{Caging, JudgeCommand, RunConfig};
use aot_runner::environment;
use aot_runner::process::Guard;
use aot_runner::process::cage;
use aot_runner::settings::{self, Settings};
use aot_runner::store::home::Home;
use aot_runner::tree::{Project, Tree};

use crate::failure::{self, Failure};
use crate::place;

#[derive(Debug)]
pub struct Workspace {
    pub project: Project,
    guard: Guard,
    settings: Settings,
    judge: Option<CommandJudge>,
    jobs: Jobs,
}

impl Workspace {
    pub fn open(state: &Path, jobs: Jobs) -> Result<Workspace, Failure> {
        let project = project(state)?;
        if place::checking().is_some_and(|checked| checked == project.state) {
            return Err(Failure::WithinCheck);
        }
        let guard = Guard::new(place::this_program()?);
        let read = settings::read(&project.root, place::user_settings().as_deref()).map_err(|fault| {
            Failure::Input {
                what: format!("{}:{}:{}", fault.path.display(), fault.line, fault.column),
                problem: fault.message,
                hint: "correct the file; docs/reference/config.md has every key".into(),
            }
        })?;
        for warning in &read.warnings {
            failure::complain(&format!("warning: {warning}"));
        }
        let settings = read.settings;
        let judge = settings.judge.clone();
        let judge = judge.command.map(|command| CommandJudge {
            command,
            time: judge.time.unwrap_or(judge::TIME),
            shell: place::shell(),
            guard: guard.clone(),
        });
        Ok(Workspace { project, guard, settings, judge, jobs })
    }

    /// The workspace of a project, or of the folder we are in if it has no loop.
    pub fn here(state: Option<&Path>) -> Result<Workspace, Failure> {
        let loop_less = place::here()?.join(place::STATE_FILE);
        Workspace::open(state.unwrap_or(&loop_less), Jobs::default())
    }

    /// What workers are given. What does not hold them in is told.
    pub fn run_config(&self, team: Team, on_refused_start: OnRefusedStart) -> Result<RunConfig, Failure> {
        let Settings { cage: wanted, work, .. } = &self.settings;
        Home::of(&self.project.state)?.ready()?;
        let launcher = self.launcher()?;
        let judge = self
            .judge
            .as_ref()
            .map(|judge| JudgeCommand { command: judge.command.clone(), time: Some(judge.time) });
        Ok(RunConfig {
            project: self.project.clone(),
            guard: self.guard.clone(),
            shell: place::shell(),
            judge,
            cage: Caging {
                kind: launcher.cage,
                writable: launcher.writable.clone(),
                network: wanted.network,
            },
            team,
            launcher,
            on_refused_start,
            environment: environment::allowed(std::env::vars_os(), &work.environment),
            idle: work.idle_timeout,
        })
    }

    /// What the runs of agents need. The cage is found by trying.
    pub fn launcher(&self) -> Result<AgentLauncher, Failure> {
        let Settings { cage: wanted, work, .. } = &self.settings;
        // Where there is no loop there is no folder of ours, and none is made just to look.
        let scratch = place::Scratch::make()?;
        let there = self.project.sidecar.is_dir();
        let trial = if there { &self.project.sidecar } else { scratch.path() };
        let ladder = cage::find(&self.guard, wanted.choice, trial);
        if let Err(why) = ladder.as_wanted() {
            return Err(Failure::Input {
                what: "the cage that aot.toml asks for".into(),
                problem: why.to_owned(),
                hint: "`aot doctor` shows what holds here; `kind = \"auto\"` takes the best of it".into(),
            });
        }
        Ok(AgentLauncher {
            itself: place::program_file()?,
            guard: self.guard.clone(),
            cage: ladder.kind,
            writable: wanted.folders(place::home().as_deref()),
            variables: std::env::vars_os().collect(),
            further: work.environment.clone(),
            home: place::home(),
            sidecar: self.project.sidecar.clone(),
        })
    }

    /// Who is asked in which role.
    pub fn team(&self, flags: &[AgentFlag], state: &State, alone: bool) -> Result<Team, Failure> {
        let gathered = Team::choose(flags, &self.settings.agents, state, alone, &place::program);
        gathered.map_err(|error| Failure::Team { hint: error.hint(), problem: error.to_string() })
    }

    pub fn chosen(&self) -> &AgentSettings {
        &self.settings.agents
    }

    pub fn checker(&self) -> Checker<'_> {
        Checker {
            project: &self.project,
            guard: &self.guard,
            shell: place::shell(),
            judge: self.judge.as_ref().map(|judge| judge as &dyn Judge),
            jobs: self.jobs,
            cage: None,
        }
    }

    pub fn evaluate(
        &self,
        state: &State,
        checks: &Checks,
        whose: Whose<'_>,
        occasion: Occasion,
        on: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Evaluation, Failure> {
        let evaluation = self
            .checker()
            .evaluate(state, checks, whose, occasion, jiff::Timestamp::now(), on)
            .map_err(looking)?;
        if let Some(problem) = &evaluation.not_kept {
            failure::complain(&format!("warning: the evidence could not be kept: {problem}"));
        }
        Ok(evaluation)
    }

    pub fn tree(&self) -> Result<Tree, Failure> {
        Tree::of(&self.project).map_err(looking)
    }

    /// Refuses what was changed since the alignment (D21). Writes nothing: a fingerprint is taken by whoever agrees.
    pub fn untampered(&self, state: &State) -> Result<(), Failure> {
        let Some(agreed) = &state.control.fingerprint else { return Ok(()) };
        let now = Seal::of(&state.objective, &self.project.root).map_err(looking)?;
        let altered = now.altered(agreed, &self.project);
        if altered.is_empty() { Ok(()) } else { Err(Failure::Tampered(altered)) }
    }
}

/// Where everything is, for a state file as it was named.
pub fn project(state: &Path) -> Result<Project, Failure> {
    Ok(project_of(&Home::of(state)?, place::project_root(state)))
}

/// The same where the home is known.
pub fn project_of(home: &Home, root: PathBuf) -> Project {
    Project { root, state: home.state().to_path_buf(), sidecar: home.sidecar().to_path_buf() }
}

pub fn looking(error: std::io::Error) -> Failure {
    Failure::World { doing: "look at the project's files", problem: error.to_string() }
}
