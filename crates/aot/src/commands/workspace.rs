//! What every verb that runs checks or agents needs: the project, its settings, the guard, the judge.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aot_core::brief::Role;
use aot_core::coordinator::OnRefusedStart;
use aot_core::state::{Checks, IsolationMode, State};
use aot_core::verdict::Jobs;
use aot_runner::agents::detect::{self, LoginState};
use aot_runner::agents::profile::Profile;
use aot_runner::agents::{AgentFlag, AgentLauncher, AgentSettings, Installed, Team, TeamError};
use aot_runner::checks::judge::{self, CommandJudge, Judge};
use aot_runner::checks::seal::{Altered, Seal};
use aot_runner::checks::{Checker, Evaluation, Occasion, Progress, Whose};
use aot_runner::confinement::{Area, Caging, CheckCage, Confined, Confinement, is_in_repository};
use aot_runner::crew::{JudgeCommand, LookingJudge, RunConfig, ScoreSource};
use aot_runner::environment;
use aot_runner::keys;
use aot_runner::notify::NotifySettings;
use aot_runner::ports::Ports;
use aot_runner::process::Guard;
use aot_runner::process::cage;
use aot_runner::settings::{self, CageSettings, Fault, Settings};
use aot_runner::store::home::Home;
use aot_runner::tree::{self, BranchTree, IsolationRequest, Project, ProjectRepository, Tree, Undo};

use super::trust::{self, Scope};
use crate::failure::{self, Failure, FailureKind};
use crate::place;

/// What whoever only looks is told of settings that nobody has trusted.
pub const NOT_USED: &str = "this project's aot.toml is not used: `aot trust` shows what it asks for";

/// Which settings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettingsFiles {
    Both,
    OnlyUser,
}

/// How many changed files one message lists.
const MAX_LISTED: usize = 10;

/// A project with its settings: what a run config, a checker or a team of agents is made from.
#[derive(Debug)]
pub struct Workspace {
    pub project: Project,
    pub guard: Guard,
    settings: Settings,
    judge: Option<CommandJudge>,
    jobs: Jobs,
    /// Found by trying, once.
    cage: OnceCell<cage::Kind>,
    /// Looked for once: for the superuser in the homes of all.
    hidden: OnceCell<Vec<PathBuf>>,
}

impl Workspace {
    /// For whoever is going to start what the state file names: a person has to have trusted it.
    pub fn open(state: &Path, jobs: Jobs) -> Result<Workspace, Failure> {
        Workspace::trusted(state, jobs, Scope::Everything)
    }

    /// For a clone on a host: what is in the repository opens no cage and names no agent there.
    #[cfg(feature = "restate")]
    pub fn on_host(state: &Path, jobs: Jobs) -> Result<Workspace, Failure> {
        Workspace::read(project(state)?, jobs, SettingsFiles::OnlyUser)
    }

    /// For an agreement that is being made: what stands in the state file is not run.
    pub fn for_agreement(state: &Path, jobs: Jobs) -> Result<Workspace, Failure> {
        Workspace::trusted(state, jobs, Scope::Settings)
    }

    fn trusted(state: &Path, jobs: Jobs, scope: Scope) -> Result<Workspace, Failure> {
        place::claim(state)?;
        let project = project(state)?;
        if place::checking().is_some_and(|checked| checked == project.state) {
            let message = "this is a check of the same state file; it cannot ask for itself";
            return Err(
                Failure::refused("within_check", message).with_hint("let the check look at the work itself")
            );
        }
        trust::require(&project, scope)?;
        Workspace::read(project, jobs, SettingsFiles::Both)
    }

    fn read(project: Project, jobs: Jobs, files: SettingsFiles) -> Result<Workspace, Failure> {
        let guard = Guard::new(place::this_program()?);
        let of_project = (files == SettingsFiles::Both).then_some(project.root.as_path());
        let read = settings::read(of_project, place::user_settings().as_deref()).map_err(bad_settings)?;
        for warning in &read.warnings {
            failure::complain(&format!("warning: {warning}"));
        }
        let settings = read.settings;
        let judge = settings.judge.clone();
        let judge = judge.command.map(|command| CommandJudge {
            command,
            time: judge.time.unwrap_or(judge::TIME),
            guard: guard.clone(),
        });
        Ok(Workspace {
            project,
            guard,
            settings,
            judge,
            jobs,
            cage: OnceCell::new(),
            hidden: OnceCell::new(),
        })
    }

    /// The workspace of a project, or of the folder we are in if it has no loop, for whoever only looks. Settings that
    /// nobody has trusted are left out.
    pub fn here(state: Option<&Path>) -> Result<Workspace, Failure> {
        let loop_less = place::here()?.join(place::STATE_FILE);
        let project = project(state.unwrap_or(&loop_less))?;
        let files = match trust::is_trusted(&project, Scope::Settings)? {
            true => SettingsFiles::Both,
            false => {
                failure::complain(&format!("warning: {NOT_USED}"));
                SettingsFiles::OnlyUser
            }
        };
        Workspace::read(project, Jobs::default(), files)
    }

    /// For whoever only counts: nothing is said, and settings that are not trusted are a failure.
    pub fn quiet(state: &Path) -> Result<Workspace, Failure> {
        let project = project(state)?;
        if !trust::is_trusted(&project, Scope::Settings)? {
            return Err(Failure::new(FailureKind::NeedsPerson, "not_trusted", NOT_USED));
        }
        let read = settings::read(Some(&project.root), place::user_settings().as_deref());
        let settings = read.map_err(bad_settings)?.settings;
        let guard = Guard::new(place::this_program()?);
        Ok(Workspace {
            project,
            guard,
            settings,
            judge: None,
            jobs: Jobs::default(),
            cage: OnceCell::new(),
            hidden: OnceCell::new(),
        })
    }

    /// What a run of the loop needs.
    pub fn run_config(&self, team: Team, on_refused_start: OnRefusedStart) -> Result<RunConfig, Failure> {
        let Settings { work, .. } = &self.settings;
        Home::of(&self.project.state)?.ready()?;
        let launcher = self.launcher()?;
        if !team.is_empty() {
            self.network_for(&launcher)?;
        }
        let judge = self
            .judge
            .as_ref()
            .map(|judge| JudgeCommand { command: judge.command.clone(), time: Some(judge.time) });
        Ok(RunConfig {
            project: self.project.clone(),
            guard: self.guard.clone(),
            judge,
            scores: ScoreSource::Nowhere,
            cage: self.caging()?,
            confinement: self.confinement()?,
            team,
            launcher,
            on_refused_start,
            environment: environment::allowed(std::env::vars_os(), &work.environment),
            idle: work.idle_timeout,
            agent_idle: work.agent_idle(),
        })
    }

    /// What confines workers.
    fn caging(&self) -> Result<Caging, Failure> {
        let Settings { cage: wanted, .. } = &self.settings;
        let writable = wanted.folders(place::home().as_deref());
        let network = wanted.network.clone();
        Ok(Caging { kind: self.cage_kind()?, writable, hidden: self.hidden(), network })
    }

    fn hidden(&self) -> Vec<PathBuf> {
        let look = || hidden(&self.settings.cage, &self.project.root, Some(&self.project));
        self.hidden.get_or_init(look).clone()
    }

    /// What confines checks, `setup` and judges' commands.
    fn confinement(&self) -> Result<Confinement, Failure> {
        let Settings { checks, work, .. } = &self.settings;
        match checks.cage {
            CheckCage::None => Ok(Confinement::None),
            CheckCage::AsWorkers => {
                let further: Vec<String> =
                    work.environment.iter().chain(&checks.environment).cloned().collect();
                let variables = environment::allowed(std::env::vars_os(), &further);
                Ok(Confinement::AsWorkers { caging: self.caging()?, variables })
            }
        }
    }

    /// Where the loop's base case is looked at: on the branch that it lands on, or in the project's own folder.
    pub fn look(&self, state: &State) -> Result<Look<'_>, Failure> {
        let tree = match state.control.branch {
            None => None,
            Some(_) => {
                let wanted = IsolationRequest::of(state, self.confinement()?);
                BranchTree::open(&self.project, wanted, &self.guard)?
            }
        };
        let judge = self.judge.as_ref().map(|judge| judge as &dyn Judge);
        Ok(Look { workspace: self, tree, judge })
    }

    /// A tree as a worker of the loop `of` would get it; `None` where workers have none.
    pub fn look_in_a_tree(&self, state: &State, of: &Project) -> Result<Option<Look<'_>>, Failure> {
        let wanted = IsolationRequest::of(state, self.confinement()?);
        let tree = BranchTree::of_head(of, &self.project, wanted, &self.guard)?;
        Ok(tree.map(|tree| Look { workspace: self, tree: Some(tree), judge: None }))
    }

    /// The judge that the settings name, if these checks need one: a command, or an agent.
    pub fn judge(&self, state: &State, checks: &Checks) -> Result<Option<Box<dyn Judge>>, Failure> {
        if let Some(judge) = &self.judge {
            let CommandJudge { command, time, guard } = judge;
            let judge = CommandJudge { command: command.clone(), time: *time, guard: guard.clone() };
            return Ok(Some(Box::new(judge)));
        }
        if checks.quality_items() == 0 {
            return Ok(None);
        }
        let team = self.team(&[], state, false)?;
        let Some(agent) = team.member(Role::Judge, None).cloned() else { return Ok(None) };
        let launcher = self.launcher()?;
        self.network_for(&launcher)?;
        let wall = Duration::from_secs(state.constraints().agent_timeout().seconds().max(1));
        let idle = self.agent_idle();
        Ok(Some(Box::new(LookingJudge { agent, launcher, wall, idle })))
    }

    /// What the loop has landed, to be taken back.
    pub fn undo(&self, state: &State, branch: Option<&str>) -> Result<Undo, Failure> {
        let wanted = IsolationRequest::of(state, self.confinement()?);
        let commits = state.bindings.values().filter_map(|binding| binding.commit.clone());
        Ok(Undo::open(&self.project, wanted, branch, &commits.collect::<Vec<_>>(), &self.guard)?)
    }

    /// The project's own folder, whatever branch the loop lands on.
    pub fn checkout(&self) -> Look<'_> {
        Look { workspace: self, tree: None, judge: self.judge.as_ref().map(|judge| judge as &dyn Judge) }
    }

    /// The best cage that holds here, of those that the settings want.
    fn cage_kind(&self) -> Result<cage::Kind, Failure> {
        if let Some(kind) = self.cage.get() {
            return Ok(*kind);
        }
        // A folder without a loop has no sidecar, and none is made only to try the cage.
        let scratch = place::Scratch::make()?;
        let there = self.project.sidecar.is_dir();
        let trial = if there { &self.project.sidecar } else { scratch.path() };
        let ladder = cage::find(&self.guard, self.settings.cage.choice, trial);
        if let Err(why) = ladder.as_wanted() {
            let hint = "`aot doctor` shows what holds here; `kind = \"auto\"` takes the best of it";
            return Err(Failure::input("the cage that aot.toml asks for", why, hint));
        }
        let kept = self.settings.cage.network.kept_by(ladder.kind);
        kept.map_err(|why| Failure::input("the network that aot.toml asks for", &why, why.hint()))?;
        Ok(*self.cage.get_or_init(|| ladder.kind))
    }

    /// Refuses to start agents whose network nobody could keep as the settings want it.
    fn network_for(&self, launcher: &AgentLauncher) -> Result<(), Failure> {
        let kept = launcher.network.kept_for_agents(launcher.cage);
        kept.map_err(|why| Failure::input("the network that aot.toml asks for", &why, why.hint()))
    }

    /// What the runs of agents need.
    pub fn launcher(&self) -> Result<AgentLauncher, Failure> {
        let Settings { cage: wanted, work, .. } = &self.settings;
        Ok(AgentLauncher {
            itself: place::program_file()?,
            guard: self.guard.clone(),
            cage: self.cage_kind()?,
            writable: wanted.folders(place::home().as_deref()),
            hidden: self.hidden(),
            network: wanted.network.clone(),
            variables: std::env::vars_os().collect(),
            further: work.environment.clone(),
            home: place::home(),
            sidecar: self.project.sidecar.clone(),
            project: self.project.root.clone(),
        })
    }

    /// The agents of each role.
    pub fn team(&self, flags: &[AgentFlag], state: &State, alone: bool) -> Result<Team, Failure> {
        let login = logins();
        let installed = Installed { find: &place::program, login: &login };
        let gathered = Team::choose(flags, &self.settings.agents, state, alone, &installed);
        gathered.map_err(no_such_agent)
    }

    /// The agents that hosts are to use: they need not be here.
    #[cfg(feature = "restate")]
    pub fn team_elsewhere(&self, flags: &[AgentFlag], state: &State) -> Result<Team, Failure> {
        let login = |_: &Profile| LoginState::Unknown;
        let find = |name: &str| Some(place::program(name).unwrap_or_else(|| PathBuf::from(name)));
        let installed = Installed { find: &find, login: &login };
        Team::choose(flags, &self.settings.agents, state, false, &installed).map_err(no_such_agent)
    }

    /// What a person should know of agents whose login is not found. They are tried all the same: it may be somewhere else.
    pub fn login_notes(&self, team: &Team) -> Vec<String> {
        let missing = team.without_login(&logins());
        let note = |(name, hint)| format!("no login of {name} is found; if it has none, {hint}");
        missing.into_iter().map(note).collect()
    }

    /// Refuses what a run would refuse before its first step.
    pub fn check_start(&self, state: &State, branch: Option<&str>) -> Result<(), Failure> {
        let mode = state.objective.isolation.as_ref().and_then(|isolation| isolation.mode);
        Ok(tree::check_start(&self.project, mode, branch, &self.guard)?)
    }

    /// How long an agent may print nothing.
    pub fn agent_idle(&self) -> Duration {
        self.settings.work.agent_idle()
    }

    /// Who is told what the loop comes to.
    pub fn notify(&self) -> &NotifySettings {
        &self.settings.notify
    }

    pub fn chosen(&self) -> &AgentSettings {
        &self.settings.agents
    }
}

/// An agent that cannot be asked. A file that nobody may execute looks as if it were not there.
pub fn no_such_agent(error: TeamError) -> Failure {
    let file = match &error {
        TeamError::NotFound { program, .. } => place::not_executable(program),
        _ => None,
    };
    let (message, hint) = match (&error, file) {
        (TeamError::NotFound { name, .. }, Some(file)) => (
            format!("agent `{name}` cannot be started: {} is not executable", file.display()),
            format!("type `chmod +x {}`", file.display()),
        ),
        _ => (error.to_string(), error.hint()),
    };
    match error {
        TeamError::NotFound { .. } => Failure::new(FailureKind::NotReady, "agent", message),
        error => Failure::new(FailureKind::NotReady, "agent", error),
    }
    .with_hint(hint)
}

/// Whether agents are logged in here.
fn logins() -> impl Fn(&Profile) -> LoginState {
    let (variables, home) = (std::env::vars_os().collect::<Vec<_>>(), place::home());
    move |profile| detect::login(profile, &variables, home.as_deref())
}

/// Where somebody looks, and how. A tree that was made for it is gone afterwards.
#[derive(Debug)]
pub struct Look<'w> {
    workspace: &'w Workspace,
    tree: Option<BranchTree>,
    judge: Option<&'w dyn Judge>,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.tree.take().map(BranchTree::close) {
            failure::complain(&format!("warning: {error}"));
        }
    }
}

impl<'w> Look<'w> {
    /// The same with this judge, or with none.
    pub fn with_judge(mut self, judge: Option<&'w dyn Judge>) -> Look<'w> {
        self.judge = judge;
        self
    }

    pub fn project(&self) -> &Project {
        self.tree.as_ref().map_or(&self.workspace.project, BranchTree::project)
    }

    /// The branch, where it is not the project's own folder that is looked at.
    pub fn branch(&self) -> Option<&str> {
        self.tree.as_ref().map(BranchTree::branch)
    }

    /// The cage and the variables of checks.
    pub fn confined(&self, state: &State) -> Result<Confined, Failure> {
        let (workspace, root) = (self.workspace, &self.project().root);
        let mode = state.objective.isolation.as_ref().and_then(|isolation| isolation.mode);
        let area = match mode {
            _ if self.tree.is_some() => Area::Tree(root),
            Some(IsolationMode::InPlace | IsolationMode::None) => Area::InPlace,
            Some(IsolationMode::Worktree) => Area::Checkout,
            None if is_in_repository(root) => Area::Checkout,
            None => Area::InPlace,
        };
        let confined = workspace.confinement()?.confine(&workspace.project, area);
        let confined =
            confined.map_err(|error| Failure::world("make a folder for temporary files", error))?;
        Ok(confined.with_variables(Ports::of(&workspace.project.key()).variables(0)))
    }

    pub fn checker<'c>(&'c self, confined: &'c Confined) -> Checker<'c> {
        Checker {
            project: self.project(),
            guard: &self.workspace.guard,
            judge: self.judge,
            jobs: self.workspace.jobs,
            confined,
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
        let confined = self.confined(state)?;
        let evaluation = self
            .checker(&confined)
            .evaluate(state, checks, whose, occasion, jiff::Timestamp::now(), on)
            .map_err(unreadable_project)?;
        if let Some(problem) = &evaluation.not_kept {
            failure::complain(&format!("warning: the evidence could not be kept: {problem}"));
        }
        Ok(evaluation)
    }

    pub fn tree(&self) -> Result<Tree, Failure> {
        Tree::of(self.project(), &self.workspace.guard).map_err(unreadable_project)
    }

    /// Refuses to go on if the agreement was changed since the alignment (D21). Writes no fingerprint: only an agreement does.
    pub fn untampered(&self, state: &State) -> Result<(), Failure> {
        let Some(agreed) = &state.control.fingerprint else { return Ok(()) };
        let now = Seal::of(&state.objective, &self.project().root).map_err(unreadable_project)?;
        let altered = now.altered(agreed, self.project());
        if altered.is_empty() { Ok(()) } else { Err(tampered(&altered)) }
    }
}

/// The keys and logins that no worker may read.
pub fn hidden(wanted: &CageSettings, root: &Path, project: Option<&Project>) -> Vec<PathBuf> {
    let home = place::home();
    // The keys by which other machines know this one.
    let mut hide = wanted.hide(home.as_deref());
    hide.extend(place::user_settings().map(|settings| settings.join("keys")));
    let own = project.map(|project| [project.state.clone(), project.sidecar.clone()]);
    let own: Vec<PathBuf> = [root.to_path_buf()].into_iter().chain(own.into_iter().flatten()).collect();
    keys::hidden(&keys::KeySearch {
        home: home.as_deref(),
        other_homes: &keys::other_homes(),
        variables: &std::env::vars_os().collect::<Vec<_>>(),
        hide: &hide,
        show: &wanted.show(home.as_deref()),
        project: &own,
    })
}

/// Where everything is, for a state file as it was named.
pub fn project(state: &Path) -> Result<Project, Failure> {
    Ok(project_of(&Home::of(state)?, place::project_root(state)))
}

/// The same where the home is known.
pub fn project_of(home: &Home, root: PathBuf) -> Project {
    let (state, sidecar) = (home.state().to_path_buf(), home.sidecar().to_path_buf());
    Project { root, state, sidecar, cache: place::user_cache(), repository: ProjectRepository::Searched }
}

pub fn bad_settings(fault: Fault) -> Failure {
    let place = format!("{}:{}:{}", fault.path.display(), fault.line, fault.column);
    Failure::input(place, fault.message, "correct the file; docs/reference/config.md has every key")
}

pub fn unreadable_project(error: std::io::Error) -> Failure {
    Failure::world("look at the project's files", error)
}

/// What was agreed on was changed (D21).
pub fn tampered(altered: &[Altered]) -> Failure {
    let listed = altered.iter().take(MAX_LISTED).map(|altered| format!("\n  {}", altered.describe()));
    let more = altered.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let message = format!(
        "what was agreed on at the alignment is no longer the same:{}{more}",
        listed.collect::<String>()
    );
    Failure::new(FailureKind::Tampered, "tampered", message)
        .with_hint("put it back; or, if a person meant it, accept it with `aot redirect --accept`")
        .with_detail("changed", altered)
}
