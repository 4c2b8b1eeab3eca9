//! `aot run`: gate, lint, bound, then the loop to a halt.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aot_core::brief::Role;
use aot_core::coordinator::{Agents, Dispatch, OnRefusedStart, Presence, Settings, Trees, forecast};
use aot_core::rules::bound;
use aot_core::rules::certificate::{Certificate, StopKind};
use aot_core::rules::gate::{Aligned, gate};
use aot_core::rules::{Ledger, Refusal, converge, plan};
use aot_core::state::{Graph, IsolationMode, LoopStatus, State};
use aot_core::verdict::{self, Jobs};
use aot_runner::agents::{AgentFlag, AgentLauncher, Team, TeamError, trial};
use aot_runner::answers::TypedAnswers;
use aot_runner::checks::facts;
use aot_runner::checks::steered::steered;
use aot_runner::detach::OwnLog;
use aot_runner::driver::{self, RunEnd, RunOptions, WorkPlace};
use aot_runner::durations::Learnt;
use aot_runner::live;
use aot_runner::message::{Message, Notice};
use aot_runner::process::{Guard, Interrupt};
use aot_runner::store::home::Home;
use aot_runner::store::{ExistingFile, Store};
use aot_runner::tree::{checked_out, default_branch, is_branch_name, is_outside_git};
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::align::{self, NewLoopArgs, Purpose, on_page};
use super::detach::{self, Detached, Head};
#[cfg(feature = "restate")]
use super::remote::RemoteArgs;
#[cfg(feature = "watch")]
use super::watch;
use super::workspace::Workspace;
use super::{Invocation, Verb, confirm, lint, not_aligned, session};
use crate::failure::{Failure, FailureKind};
use crate::print::{self, Answer, OutputFormat};
use crate::screens::clock;
use crate::screens::ink::Ink;
use crate::screens::run as screen;
use crate::terminal::{self, Stream, Typed};
use crate::text;
use crate::{failure, place};

/// How often the line at the bottom of a terminal is drawn anew.
const TICK: Duration = Duration::from_secs(1);

/// How many findings of the linter are shown.
const ADVICE: usize = 5;

/// The exit code after an interrupt.
pub const INTERRUPTED: u8 = 130;

/// Run the loop until the goal is proven done, or say exactly why not
///
/// `aot run "GOAL" --check "COMMAND"` agrees on a new loop and runs it; without a goal, it continues the existing loop.
///
/// Exits with 0 if it is done; 3 not aligned or no agent; 10 stopped; 11 stalled; 12 iteration limit; 13 no
/// alternative left; 14 deadlock; 15 budget; 16 tampered; 17 needs a person; 130 interrupted.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    new: NewLoopArgs,
    /// Show the plan, the agents and the bound; start nothing
    #[arg(long)]
    dry_run: bool,
    /// Land the work on this branch, and leave the checkout alone; it is made if it does not exist
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The agent to use: claude, codex, gemini, opencode, a name from aot.toml, or acp:COMMAND; ROLE=NAME for one role
    /// (worker, probe, judge, coordinator). Default: what aot.toml says, or the only one that is found
    #[arg(long, value_name = "NAME", value_parser = AgentFlag::read)]
    agent: Vec<AgentFlag>,
    /// Stop when an agent's limit is reached, instead of waiting until it lifts
    #[arg(long)]
    no_park: bool,
    /// Go on without this terminal: questions first, then the loop runs in the background, with a log in the sidecar
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// The same, shown on this terminal's whole screen: `q` leaves, and the loop goes on
    #[cfg(feature = "watch")]
    #[arg(long, conflicts_with_all = ["dry_run", "detach", "session"])]
    watch: bool,
    /// This process is such a run.
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
    /// Let a host's session drive the loop, step by step: the session with this id, or the current one
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["dry_run", "branch", "agent", "no_park", "detach"])]
    session: Option<String>,
    #[command(flatten)]
    enter: EnterArgs,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args, Deserialize, JsonSchema)]
#[schemars(description = "Take the loop for this session, and say what to do first")]
pub struct EnterArgs {
    /// Take the loop over from a session that is gone
    #[arg(long)]
    #[serde(default)]
    take_over: bool,
}

impl Verb for EnterArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        session::begin(invocation, "", self.take_over)
    }
}

impl RunArgs {
    /// The words behind `run` for the process that goes on.
    fn words_detached(&self, branch: Option<&str>) -> Vec<OsString> {
        let branch = branch.map(|branch| format!("--branch={branch}"));
        let agents = self.agent.iter().map(|agent| format!("--agent={}", agent.word()));
        let no_park = self.no_park.then(|| "--no-park".to_owned());
        ["--detached".to_owned()]
            .into_iter()
            .chain(branch)
            .chain(agents)
            .chain(no_park)
            .chain(self.words_elsewhere())
            .map(OsString::from)
            .collect()
    }

    #[cfg(feature = "restate")]
    fn words_elsewhere(&self) -> Vec<String> {
        self.remote.words()
    }

    #[cfg(not(feature = "restate"))]
    fn words_elsewhere(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether hosts do the jobs, with their own agents.
    #[cfg(feature = "restate")]
    fn is_elsewhere(&self) -> bool {
        self.remote.is_given()
    }

    #[cfg(not(feature = "restate"))]
    fn is_elsewhere(&self) -> bool {
        false
    }

    #[cfg(feature = "restate")]
    fn place(&self, team: &Team) -> Result<WorkPlace, Failure> {
        let remote = self.remote.config(team)?;
        Ok(remote.map_or(WorkPlace::Here, |remote| WorkPlace::Hosts(Box::new(remote))))
    }

    #[cfg(not(feature = "restate"))]
    fn place(&self, _team: &Team) -> Result<WorkPlace, Failure> {
        Ok(WorkPlace::Here)
    }

    #[cfg(feature = "watch")]
    fn is_watched(&self) -> bool {
        self.watch
    }

    #[cfg(not(feature = "watch"))]
    fn is_watched(&self) -> bool {
        false
    }

    fn on_refused_start(&self) -> OnRefusedStart {
        if self.no_park { OnRefusedStart::Stop } else { OnRefusedStart::Park }
    }
}

impl Verb for RunArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        if let Some(session) = &self.session {
            return session::begin(invocation, session, self.enter.take_over);
        }
        #[cfg(feature = "watch")]
        if self.watch {
            watch::require_terminal(invocation)?;
        }
        let is_new = self.new.is_given();
        if self.branch.is_some() {
            require_repository(&if is_new {
                align::new_loop_file(invocation)?
            } else {
                invocation.path()?
            })?;
        }
        let branch = match is_new.then(|| self.begin(invocation)).transpose()? {
            Some(Begun::Over(answer)) => return Ok(answer),
            Some(Begun::Agreed { branch }) => branch,
            None => self.branch.clone(),
        };
        self.new.refuse_without_goal()?;
        let mut store = invocation.store()?;
        if !self.dry_run {
            session::release(&mut store, self.enter.take_over)?;
        }
        let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
        let state = store.load()?.1.clone();
        let aligned = match gate(state.clone()) {
            Ok(aligned) => aligned,
            Err(lacking) => return Ok(not_aligned(&lacking.missing, json!({"type": "not_aligned"}))),
        };
        let team = team(self, &workspace, &state);
        if self.dry_run {
            return Ok(dry_run(aligned, &state, team.ok().as_ref(), &Learnt::of(&store, &state)));
        }
        let team = team?;
        if self.detach || self.is_watched() {
            let head = if is_new { Head::Known } else { Head::Wanted };
            let words = self.words_detached(branch.as_deref());
            return match detach::start(invocation, &workspace.project, &words, head)? {
                #[cfg(feature = "watch")]
                Detached::Begun(_) if self.watch => watch::to_the_end(invocation),
                Detached::Begun(answer) | Detached::Ended(answer) => Ok(answer),
            };
        }
        let mut log = self.detached.then(|| OwnLog::leave_terminal(&workspace.project.sidecar));
        // Of a new loop the person has just seen the page.
        if invocation.format == OutputFormat::Text && !is_new {
            let logins = if self.is_elsewhere() { Vec::new() } else { workspace.login_notes(&team) };
            head(&state, &workspace, &team, &logins);
        }
        log.iter_mut().for_each(OwnLog::end_of_head);
        let interrupts = listen()?;
        loop {
            let options = (self, branch.as_deref());
            let ran = match drive(invocation, store, (&workspace, &team), options, (&interrupts, &mut log)) {
                // It was interrupted before the loop could begin.
                Err(failure) if workspace.guard.interrupt().is_asked() => {
                    failure::complain(&failure.message());
                    return Ok(Answer::printed().with_exit(INTERRUPTED));
                }
                ran => ran?,
            };
            if ran.interrupted {
                return Ok(Answer::printed().with_exit(INTERRUPTED));
            }
            store = invocation.store()?;
            // A person at the terminal can be asked right away; then the loop goes on.
            let asked = ran.certificate.verdict == StopKind::NeedsPerson
                && invocation.format == OutputFormat::Text
                && terminal::is_interactive()
                && confirm::ask(&workspace, &mut store)? == confirm::Asked::Confirmed;
            if !asked {
                return Ok(Answer::printed().with_exit(ran.certificate.exit));
            }
        }
    }
}

/// A branch makes no sense elsewhere, and the work would land in place.
fn require_repository(state: &Path) -> Result<(), Failure> {
    let root = place::project_root(state);
    if !is_outside_git(&root, &Guard::new(place::this_program()?)) {
        return Ok(());
    }
    let message = format!("`--branch` needs a git repository, and {} is in none", root.display());
    Err(Failure::new(FailureKind::Usage, "no_repository", message)
        .with_hint("leave `--branch` out, or type `git init && git add -A && git commit -m start`"))
}

/// What came of a new loop.
enum Begun {
    /// That was all.
    Over(Answer),
    /// It is written, and lands on this branch instead of the one that is checked out.
    Agreed { branch: Option<String> },
}

impl Begun {
    fn left() -> Begun {
        print::line(align::LEFT);
        Begun::Over(Answer::printed().with_exit(1))
    }
}

/// Where a person wants the work to land.
enum BranchAnswer {
    /// On this branch, or on the one that is checked out.
    LandOn(Option<String>),
    Left,
}

/// Under this name it is kept that a person was asked.
const LANDING: &str = "the branch to land on";

/// How often a branch is asked for whose name makes no sense.
const ASKED_AGAIN: usize = 5;

impl RunArgs {
    /// Agrees on the loop that the flags describe. What prevents a start is said before any check runs.
    fn begin(&self, invocation: &Invocation) -> Result<Begun, Failure> {
        let path = align::new_loop_file(invocation)?;
        let over = match self.dry_run {
            true => None,
            false => Some(self.replaces(invocation, &path)?),
        };
        let purpose = if self.dry_run { Purpose::Look } else { Purpose::Agree };
        let unseen = align::read(invocation, &self.new, (&path, None), purpose)?;
        let workspace = Workspace::for_agreement(&path, Jobs::default())?;
        let state = unseen.state.clone();
        let team = team(self, &workspace, &state);
        let start = workspace.check_start(&state, self.branch.as_deref());
        let Some(over) = over else {
            align::propose(invocation, &path, unseen, false)?;
            let aligned = gate(state.clone()).expect("what is not whole was refused before");
            if invocation.format == OutputFormat::Text {
                self.show_flight(&workspace, &team, start, &state);
            }
            let learnt = Home::of(&path).map(|home| Learnt::of_earlier(&home)).unwrap_or_default();
            return Ok(Begun::Over(dry_run(aligned, &state, team.ok().as_ref(), &learnt)));
        };
        let team = team?;
        require_agents(&team, &state)?;
        start?;
        let proposal = align::propose(invocation, &path, unseen, false)?;
        if invocation.format == OutputFormat::Text {
            self.show_start(&workspace, &team, &state);
        }
        let asks = invocation.format == OutputFormat::Text && !self.new.is_agreed();
        let branch = match asks {
            true => self.ask_branch(&workspace),
            false => BranchAnswer::LandOn(self.branch.clone()),
        };
        let BranchAnswer::LandOn(branch) = branch else { return Ok(Begun::left()) };
        if asks && !terminal::says_yes("\nStart?") {
            return Ok(Begun::left());
        }
        let agreed = align::accept(&path, proposal, over)?;
        agreed.warnings.iter().for_each(|warning| failure::complain(warning));
        Ok(Begun::Agreed { branch })
    }

    /// Asks once in a project whether the work may land on the branch that others begin at.
    fn ask_branch(&self, workspace: &Workspace) -> BranchAnswer {
        let (root, guard) = (&workspace.project.root, &workspace.guard);
        let default =
            default_branch(root, guard).filter(|name| checked_out(root, guard).as_ref() == Some(name));
        let (None, Some(default)) = (&self.branch, default) else {
            return BranchAnswer::LandOn(self.branch.clone());
        };
        let mut known = TypedAnswers::of(&workspace.project.state, LANDING);
        if known.take(LANDING).as_ref() == Some(&default) {
            return BranchAnswer::LandOn(None);
        }
        let question = format!(
            "\nThe work lands on {default}, the default branch. Enter for yes, or the name of another branch: "
        );
        for _ in 0..ASKED_AGAIN {
            let Typed::Line(line) = terminal::read_line(&question) else { return BranchAnswer::Left };
            match line.to_ascii_lowercase().as_str() {
                "" | "y" | "yes" => {
                    // If it cannot be kept, it is asked again the next time.
                    let _ = known.keep(LANDING, &default);
                    return BranchAnswer::LandOn(None);
                }
                "n" | "no" => print::line("Name another branch; it is made if it does not exist."),
                _ if is_branch_name(root, &line, guard) => return BranchAnswer::LandOn(Some(line)),
                _ => print::line(&format!("`{line}` cannot be the name of a branch")),
            }
        }
        BranchAnswer::Left
    }

    /// A loop that is completed, or in which nothing was done, makes room for the next one; any other needs `--force`, or a
    /// yes. The old one is kept as a backup in any case.
    fn replaces(&self, invocation: &Invocation, path: &Path) -> Result<ExistingFile, Failure> {
        let is_over = || {
            let mut store = Store::open(path, &place::build_mark()).ok()?;
            let state = store.load::<Refusal>().ok()?.1;
            let is_untouched = state.control.iteration == 0 && state.bindings.is_empty();
            Some(state.control.status == LoopStatus::Completed || is_untouched)
        };
        if path.exists() && is_over() == Some(true) {
            return Ok(ExistingFile::BackUp);
        }
        let asks =
            invocation.format == OutputFormat::Text && terminal::is_interactive() && !self.new.is_agreed();
        match align::existing(&self.new, path) {
            Err(_) if asks && terminal::says_yes(&format!("{} exists. Replace it?", path.display())) => {
                Ok(ExistingFile::BackUp)
            }
            existing => existing,
        }
    }

    /// The same for a run that is only tried: what is missing is said, and refuses nothing.
    fn show_flight(
        &self,
        workspace: &Workspace,
        team: &Result<Team, Failure>,
        start: Result<(), Failure>,
        state: &State,
    ) {
        let missing = match team {
            Ok(team) => {
                self.show_start(workspace, team, state);
                require_agents(team, state).err()
            }
            Err(_) => None,
        };
        if let Some(failure) = missing.as_ref().or(team.as_ref().err()) {
            on_page("agents", &format!("missing: {} ({})", failure.message(), failure.hint()));
        }
        if let Err(failure) = start {
            on_page("start", &format!("not yet: {} ({})", failure.message(), failure.hint()));
        }
    }

    /// What the page of an agreement does not know: who works, and where the work lands.
    fn show_start(&self, workspace: &Workspace, team: &Team, state: &State) {
        if !team.is_empty() {
            on_page("agents", &agents_line(team));
        }
        if !self.is_elsewhere() {
            workspace.login_notes(team).iter().for_each(|note| on_page("note", note));
        }
        untried_alternatives(team, state).iter().for_each(|note| on_page("note", note));
        let checked_out = checked_out(&workspace.project.root, &workspace.guard);
        match (&self.branch, checked_out) {
            (Some(branch), _) => on_page("branch", branch),
            (None, Some(branch)) => {
                let default = default_branch(&workspace.project.root, &workspace.guard);
                let which = match default.as_ref() == Some(&branch) {
                    true => "the default branch",
                    false => "which is checked out",
                };
                on_page("branch", &format!("{branch}, {which} (--branch NAME for another)"));
            }
            (None, None) => {}
        }
    }
}

/// The agents of a run. One that nobody named is looked for if an atom needs one; without it the loop begins all the same
/// if only alternatives do that are not selected.
fn team(args: &RunArgs, workspace: &Workspace, state: &State) -> Result<Team, Failure> {
    let ledger = Ledger::open(state.clone(), jiff::Timestamp::now());
    let needs = !plan::lacking_ever(&ledger, Agents::NONE).is_empty();
    #[cfg(feature = "restate")]
    if args.is_elsewhere() {
        return workspace.team_elsewhere(&args.agent, state);
    }
    let team = workspace.team(&args.agent, state, needs);
    let can_begin = plan::lacking(&ledger, Agents::NONE).is_empty();
    match team {
        Err(failure) if can_begin && args.agent.is_empty() && is_undecided(&failure) => Ok(Team::default()),
        team => team,
    }
}

/// Whether agents are there, and none of them is taken.
fn is_undecided(failure: &Failure) -> bool {
    matches!(failure.error(), Some(TeamError::Several(_) | TeamError::NoneLoggedIn(_)))
}

/// What a person should know of alternatives that cannot be tried.
fn untried_alternatives(team: &Team, state: &State) -> Option<String> {
    let ledger = Ledger::open(state.clone(), jiff::Timestamp::now());
    let agents = driver::available_agents(team, state);
    let now = plan::lacking(&ledger, agents);
    let later = plan::lacking_ever(&ledger, agents).into_iter().filter(|id| !now.contains(id));
    let later: Vec<String> = later.map(|id| id.to_string()).collect();
    let need = if later.len() == 1 { "needs" } else { "need" };
    (!later.is_empty()).then(|| {
        let named = later.join(", ");
        format!(
            "{named} {need} an agent, and there is none: the loop halts if it comes to that (--agent NAME)"
        )
    })
}

/// Refuses to agree on work that nobody is there for. The loop would halt with the same words, and leave its file behind.
fn require_agents(team: &Team, state: &State) -> Result<(), Failure> {
    let ledger = Ledger::open(state.clone(), jiff::Timestamp::now());
    let lacking = plan::lacking(&ledger, driver::available_agents(team, state));
    if lacking.is_empty() {
        return Ok(());
    }
    let stop = converge::no_agent(lacking.clone());
    Err(Failure::new(FailureKind::NotReady, "no_agent", stop.reason)
        .with_hint("`aot agents` lists the agents that are known; install one, or name another: --agent NAME")
        .with_detail("atoms", lacking))
}

/// How a run ended that was told.
struct Halted {
    certificate: Certificate,
    interrupted: bool,
}

/// One run of the loop, shown as it happens.
fn drive(
    invocation: &Invocation,
    store: Store,
    (workspace, team): (&Workspace, &Team),
    (args, branch): (&RunArgs, Option<&str>),
    (interrupts, log): (&Interrupts, &mut Option<OwnLog>),
) -> Result<Halted, Failure> {
    let lock = driver::acquire(store.file().home())?;
    let began = Instant::now();
    let (sender, inbox) = channel();
    let interrupt = workspace.guard.interrupt().clone();
    *interrupts.lock().unwrap_or_else(PoisonError::into_inner) = Some((sender.clone(), interrupt));
    let run_config = workspace.run_config(team.clone(), args.on_refused_start())?;
    let besides = match args.is_elsewhere() {
        true => String::new(),
        false => untried(team, &run_config.launcher),
    };
    let place = args.place(team)?;
    let live = invocation.format == OutputFormat::Text && terminal::draws_live();
    let options = RunOptions {
        branch: branch.map(str::to_owned),
        ticks: live.then_some(TICK),
        notify: workspace.notify().clone(),
    };
    let mut screen = screen::RunScreen::new(Ink::of(Stream::Out), began);
    let mut bound_told = false;
    let least = store.state().map_or(0, |state| bound::least(state, &Graph::new(state)));
    let mut show = |notice: &Notice<'_>| match invocation.format {
        OutputFormat::Json => live::objects(notice).iter().for_each(print::json),
        OutputFormat::Text => {
            let lines = screen.lines(notice);
            if live && !lines.is_empty() {
                terminal::live(&[]);
            }
            lines.iter().for_each(|line| print::line(line));
            if let Notice::Bound { bound } = notice
                && !bound_told
            {
                say("bound", &format!("{}{besides}", screen::range(least, bound)));
                bound_told = true;
            }
            if live {
                terminal::live(&screen.now(terminal::live_columns()));
            }
        }
    };
    let mut tell = |notice: Notice<'_>| {
        ring(&notice);
        show(&notice);
        log.iter_mut().for_each(|log| keep_log(log, &notice, interrupts));
    };
    let ran = driver::run(store, lock, run_config, &options, place, (sender, inbox), &mut tell);
    if live {
        terminal::live(&[]);
    }
    interrupts.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ran = ran?;
    let mut store = invocation.store()?;
    halt_answer(&ran, store.load()?.1, began.elapsed()).print(invocation.format);
    // The end is told when it is known; cleaning up comes after it (D38).
    for problem in ran.cleanup.finish() {
        failure::complain(&format!("warning: {problem}"));
    }
    Ok(Halted { certificate: ran.certificate, interrupted: ran.interrupted })
}

/// The bell, where the settings want one.
fn ring(notice: &Notice<'_>) {
    if let Notice::Notified { rings: true, .. } = notice {
        terminal::ring();
    }
}

/// What may come besides the bound: a small task for each agent that is new on this machine.
fn untried(team: &Team, launcher: &AgentLauncher) -> String {
    let new = team.all().filter(|agent| agent.profile.try_first && !trial::is_known(launcher, agent));
    let names: BTreeSet<&str> = new.map(|agent| agent.name.as_str()).collect();
    match names.is_empty() {
        true => String::new(),
        false => {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            format!("; and once on this machine a small task to try {names}")
        }
    }
}

/// Where a signal is sent: to the run that goes on, if there is one.
type Interrupts = Arc<Mutex<Option<(Sender<Message>, Interrupt)>>>;

/// Ctrl-C once: stop now, state kept. Twice, or while nothing runs: at once; guards clear what runs.
fn listen() -> Result<Interrupts, Failure> {
    let interrupts = Interrupts::default();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::world("listen to signals", error))?;
    let hearing = Arc::clone(&interrupts);
    let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if !is_interrupted(&hearing) {
                std::process::exit(INTERRUPTED.into());
            }
            failure::complain("\nstopping: what runs is killed, the state is kept (again: at once)");
        }
    });
    thread.map_err(|error| Failure::world("start a thread", error))?;
    Ok(interrupts)
}

/// Whether there was a run to interrupt.
fn is_interrupted(interrupts: &Interrupts) -> bool {
    let run = interrupts.lock().unwrap_or_else(PoisonError::into_inner).take();
    run.is_some_and(|(sender, interrupt)| {
        // Before the loop begins, nobody reads messages.
        interrupt.ask();
        sender.send(Message::Interrupt).is_ok()
    })
}

/// What a detached run does beside showing a notice.
fn keep_log(log: &mut OwnLog, notice: &Notice<'_>, interrupts: &Interrupts) {
    log.keep_short();
    // The bound stands above it. Whoever left before the loop had begun does not want it.
    if matches!(notice, Notice::Ground { .. }) && log.tell_begun().is_err() {
        let _ = is_interrupted(interrupts);
    }
}

fn head(state: &State, workspace: &Workspace, team: &Team, logins: &[String]) {
    let goal = text::fit(&state.objective.goal, terminal::page_columns() - 9);
    print::line(&format!("goal     {goal}"));
    let constraints = state.constraints();
    let plan = format!(
        "{}, {} at a time, at most {}",
        text::counted(state.atoms.len() as u64, "atom"),
        constraints.max_parallel_agents,
        text::counted(constraints.max_iterations.into(), "iteration")
    );
    say("plan", &plan);
    if !team.is_empty() {
        print::line(&format!("agents   {}", agents_line(team)));
    }
    logins.iter().for_each(|note| say("note", note));
    untried_alternatives(team, state).iter().for_each(|note| say("note", note));
    let facts = facts::still(state, &workspace.project, &place::search_path());
    let advice = verdict::lint_loop(state, &facts);
    for advice in advice.iter().take(ADVICE) {
        print::line(&format!("lint     {}", text::fit(&lint::lines(advice), terminal::page_columns() - 9)));
    }
    if advice.len() > ADVICE {
        print::line(&format!("         and {} more: aot lint", advice.len() - ADVICE));
    }
    let counts = aot_core::view::View::of(state).counts;
    let unresolved = counts.pending + counts.in_progress;
    if bound::too_tight(state, unresolved) {
        say("warning", "there are more atoms than the iterations left can work off");
    }
}

/// A line of a run, or several in a narrow window.
pub(super) fn say(name: &str, text: &str) {
    let lines = text::beside(name, screen::INDENT, text, terminal::page_columns());
    lines.iter().for_each(|line| print::line(line));
}

fn agents_line(team: &Team) -> String {
    let why = team.choice().map(|why| format!(", {why}")).unwrap_or_default();
    text::fit(&format!("{}{why}", screen::team(team)), terminal::page_columns() - 11)
}

/// The order and the bound, which are the same without an agent.
fn dry_run(aligned: Aligned, state: &State, team: Option<&Team>, learnt: &Learnt) -> Answer {
    let mode = state.objective.isolation.as_ref().and_then(|isolation| isolation.mode);
    let trees = match mode {
        Some(IsolationMode::InPlace) => Trees::Shared,
        Some(IsolationMode::Worktree | IsolationMode::None) | None => Trees::Separate,
    };
    let agents = team.map_or(Agents::NONE, |team| driver::available_agents(team, state));
    let settings =
        Settings { agents, dispatch: Dispatch::Rolling, trees, on_refused_start: OnRefusedStart::Park };
    let ahead = forecast(aligned, settings, jiff::Timestamp::now());
    let least = bound::least(state, &Graph::new(state));
    // A loop that needs agents runs only when there are some.
    let lacks_agents = agents.worker == Presence::Absent && least > 0;
    let total = bound::written(state, if lacks_agents { Agents::ALL } else { agents });
    let parallel = state.constraints().max_parallel_agents;
    let widest = ahead.steps.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = screen::plan(Ink::of(Stream::Out), &ahead);
    let columns = terminal::page_columns();
    let used = format!("up to {parallel} at a time; this plan can use {widest}");
    lines.extend(text::beside("parallel", screen::INDENT, &used, columns));
    lines.extend(text::beside("bound", screen::INDENT, &screen::range(least, &total), columns));
    let worker = team.and_then(|team| team.member(Role::Worker, None)).map(|agent| agent.name.as_str());
    let estimate = learnt.estimate(state, worker, jiff::Timestamp::now());
    if let Some(estimate) = &estimate {
        lines.extend(text::beside("estimate", screen::INDENT, &clock::estimate(estimate), columns));
    }
    let mut object = live::bound_object(&total);
    object["type"] = json!("plan");
    object["least_agent_runs"] = json!(least);
    object["steps"] = json!(ahead.steps);
    object["parallel"] = json!(parallel);
    object["widest"] = json!(widest);
    object["estimate"] = json!(estimate);
    Answer::new(lines.join("\n"), object)
}

fn halt_answer(ran: &RunEnd, state: &State, took: Duration) -> Answer {
    let RunEnd { certificate, interrupted, altered, landed, cleanup: _ } = ran;
    let mut object = json!(certificate);
    object["type"] = json!("halted");
    let counts = aot_core::view::View::of(state).counts;
    object["proven"] = json!(counts.resolved - counts.claimed);
    object["claimed"] = json!(counts.claimed);
    object["mends"] = json!(state.control.spent.as_ref().map_or(0, |spent| spent.mends));
    object["status"] = json!(state.control.status);
    object["interrupted"] = json!(interrupted);
    object["milliseconds"] = json!(took.as_millis() as u64);
    if *interrupted {
        object["exit"] = json!(INTERRUPTED);
    }
    if !altered.is_empty() {
        object["changed"] = json!(altered);
    }
    object["landed"] = json!(landed);
    object["cost_usd"] = json!(state.control.spent.as_ref().map_or(0.0, |spent| spent.cost_usd));
    object["undo"] = json!(landed.as_ref().filter(|work| work.commits > 0).map(|_| "aot undo"));
    if let Some(branch) = &state.control.branch {
        object["branch"] = json!(branch);
    }
    let mut lines = screen::halt(Ink::of(Stream::Out), certificate, state, landed.as_ref(), took);
    if certificate.verdict == StopKind::Completed {
        let steered = steered(state);
        lines.extend(
            steered
                .iter()
                .map(|one| text::fit(&format!("note     {}", one.describe()), terminal::page_columns())),
        );
        object["steered"] = json!(steered);
    }
    Answer::new(lines.join("\n"), object)
}
