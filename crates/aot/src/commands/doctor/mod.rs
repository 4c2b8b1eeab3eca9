//! `aot doctor`: what is here, and what holds, proven by trying.

mod around;

use std::path::{Path, PathBuf};

use aot_core::contract::Severity;
use aot_runner::confinement::CheckCage;
use aot_runner::driver;
use aot_runner::notify::{self, NotifySettings};
use aot_runner::process::Guard;
use aot_runner::process::cage::{self, Choice, Expected, Holds, Kind, Ladder, Network, Trial};
use aot_runner::settings::{self, Settings, WorkSettings};
use aot_runner::shell;
use aot_runner::store::Store;
use aot_runner::survey;
use aot_runner::trust;
use clap::Args;
use serde_json::{Value, json};

use super::workspace::{NOT_USED, hidden};
use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::place;
use crate::print::Answer;
use crate::screens::clock;
use crate::screens::ink::{Ink, Paint};
use crate::terminal::{Stream, page_columns};
use crate::text;

/// Less than this on the disk is little.
const LITTLE_ROOM: u64 = 1 << 30;

/// Columns before what is said of a thing.
const INDENT: usize = 17;

/// Columns for what was tried in a cage.
const TRIED: usize = 47;

/// Check this machine by trying things: git, locks, processes, the workers' cage, agents, the plugin
///
/// Exits with 0 if nothing essential is missing, and 1 otherwise.
#[derive(Debug, Args)]
pub struct DoctorArgs {}

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    mark: Mark,
    said: String,
    remedy: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Good,
    /// Worth knowing, and nothing essential.
    Note,
    Problem,
}

fn good(what: &'static str, said: impl Into<String>) -> Finding {
    Finding { what, mark: Mark::Good, said: said.into(), remedy: None }
}

fn note(what: &'static str, said: impl Into<String>, remedy: &str) -> Finding {
    Finding { what, mark: Mark::Note, said: said.into(), remedy: Some(remedy.into()) }
}

fn problem(what: &'static str, said: impl Into<String>, remedy: &str) -> Finding {
    Finding { what, mark: Mark::Problem, said: said.into(), remedy: Some(remedy.into()) }
}

impl Verb for DoctorArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let guard = Guard::new(place::this_program()?);
        let scratch = place::Scratch::make()?;
        let state = invocation.path().ok();
        let folder = match &state {
            Some(state) => state.parent().map(Path::to_path_buf).unwrap_or_default(),
            None => place::here()?,
        };
        let folder = folder.canonicalize().unwrap_or(folder);
        let project = state.as_deref().map_or_else(|| folder.clone(), place::project_root);

        let mut found = vec![git(&guard), shell(&guard, scratch.path()), processes(&guard, scratch.path())];
        found.extend(disk(&folder));
        found.push(state.as_deref().map_or_else(no_state, state_file));
        let (settings, said) = read_settings(&project);
        found.extend(said);
        let ladder = cage::find(&guard, settings.cage.choice, scratch.path());
        let trials = match ladder.kind {
            Kind::None => Vec::new(),
            kind => cage::prove(&guard, kind, scratch.path(), &hidden(&settings.cage, &project, None)),
        };
        found.extend(caged(&ladder, &trials, &settings));
        found.push(silence(&settings.work));
        found.extend(notifications(&settings.notify));
        // A git that cannot be used has been complained of already.
        if found[0].mark == Mark::Good {
            found.extend(around::repository(state.as_deref(), &project, &guard)?);
        }
        let agents = around::agents(&settings, ladder.kind, &project, scratch.path(), &guard)?;
        found.extend(agents.found);
        found.extend(around::plugins(&project, scratch.path(), &guard));

        let is_well = found.iter().all(|finding| finding.mark != Mark::Problem);
        let mut lines: Vec<String> = found.iter().map(rendered).collect();
        if !trials.is_empty() {
            lines.push(String::new());
            lines.extend(wrapped(&format!("In the {} cage, tried on this machine, a worker", ladder.kind)));
            lines.extend(chapters(&trials));
        }
        lines.push(String::new());
        lines.extend(wrapped(match (is_well, agents.is_one_ready) {
            (true, true) => "Nothing essential is missing.",
            (true, false) => {
                "Nothing essential is missing, except an agent: without one, only atoms with a `run` command are solved."
            }
            (false, _) => "Something essential is missing; see the hints.",
        }));
        let json = json!({
            "healthy": is_well,
            "agent_ready": agents.is_one_ready,
            "findings": found.iter().map(object).collect::<Vec<_>>(),
            "cage": cage_object(&ladder, &trials, &settings.cage.network),
        });
        Ok(Answer::new(lines.join("\n"), json).with_exit(u8::from(!is_well)))
    }
}

fn git(guard: &Guard) -> Finding {
    const REMEDY: &str = "install git 2.38 or later; workers get a tree of their own by it";
    match survey::git(guard) {
        Ok((version, numbers)) if numbers >= survey::GIT_NEEDED => good("git", version),
        Ok((version, _)) => problem("git", format!("{version} is too old"), REMEDY),
        Err(why) => problem("git", why, REMEDY),
    }
}

fn shell(guard: &Guard, folder: &Path) -> Finding {
    let (system, bash) = (shell::program(None, "true"), shell::program(None, "[[ -n x ]]"));
    let found = if system == bash { "no bash" } else { "bash for what only bash understands" };
    match survey::shell(guard, Path::new(&system), folder) {
        Ok(()) => good("shell", format!("{}, {found}", system.display())),
        Err(why) => problem("shell", why, "name another one by `shell` in the objective"),
    }
}

fn processes(guard: &Guard, scratch: &Path) -> Finding {
    let trial = cage::leaves_nobody(guard, scratch);
    match trial.holds {
        Holds::Yes => good("processes", "whatever a job starts dies with it, daemons too"),
        Holds::No | Holds::NotClaimed => problem(
            "processes",
            format!("to {}: {}", trial.what, trial.happened),
            "use Linux with /proc mounted; elsewhere only a job's own group is killed",
        ),
    }
}

fn disk(folder: &Path) -> Vec<Finding> {
    let place = folder.display();
    let local = "keep the project on a local disk";
    let locks = match survey::locks(folder) {
        Ok(()) => good("file locks", format!("hold in {place}")),
        Err(why) => problem("file locks", why, local),
    };
    let exchange = match survey::exchange(folder) {
        Ok(()) => good("exchange", "a file is replaced in one step, and what it replaced is seen"),
        Err(why) => note(
            "exchange",
            format!("{why}: a save by an editor in the same microseconds can be lost"),
            local,
        ),
    };
    let room = match survey::room(folder) {
        Ok(bytes) if bytes >= LITTLE_ROOM => good("disk", format!("{} left", size(bytes))),
        Ok(bytes) => {
            note("disk", format!("only {} left", size(bytes)), "make room: worktrees and builds need it")
        }
        Err(error) => note("disk", error.to_string(), "see the cause"),
    };
    vec![locks, exchange, room]
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 10 << 30 => format!("{} GiB", bytes >> 30),
        bytes => format!("{} MiB", bytes >> 20),
    }
}

fn no_state() -> Finding {
    let remedy = "go to the project, or name the file with `--state PATH`";
    note("state file", format!("there is no {} here or above", place::STATE_FILE), remedy)
}

fn state_file(path: &Path) -> Finding {
    let name = path.display();
    let mut store = match Store::open(path, &place::build_mark()) {
        Ok(store) => store,
        Err(error) => return problem("state file", error.to_string(), &error.hint()),
    };
    let driven = match driver::holder(store.file().home()) {
        None => "no driver".to_owned(),
        Some(who) => format!("driven by {who}"),
    };
    let answers = match store.answers() {
        Ok(answers) => answers,
        Err(error) => {
            let failure = Failure::from(error);
            return problem("state file", failure.message(), &failure.hint());
        }
    };
    let count = |severity: Severity| answers.findings.iter().filter(|f| f.severity == severity).count();
    let hint = "`aot validate` shows every place";
    match (count(Severity::Error), count(Severity::Incomplete), count(Severity::Warning)) {
        (0, 0, 0) => good("state file", format!("{name} is valid; {driven}")),
        (0, 0, odd) => note("state file", format!("{name} is valid, with warnings ({odd}); {driven}"), hint),
        (0, open, _) => note("state file", format!("{name} is not complete ({open} open); {driven}"), hint),
        (wrong, ..) => problem("state file", format!("{name} has mistakes ({wrong}); {driven}"), hint),
    }
}

fn read_settings(project: &Path) -> (Settings, Vec<Finding>) {
    let user = place::user_settings();
    let folders = user.iter().map(PathBuf::as_path).chain([project]);
    let files: Vec<PathBuf> =
        folders.map(|folder| folder.join(settings::FILE)).filter(|file| file.exists()).collect();
    let is_trusted = place::trusts(project)
        || settings::trust_items(project)
            .is_ok_and(|items| trust::lacking(&project.join(settings::FILE), items).is_empty());
    let read = match settings::read(is_trusted.then_some(project), user.as_deref()) {
        Ok(read) => read,
        Err(fault) => {
            let found = problem("settings", fault.to_string(), "correct the file; until then nothing starts");
            return (Settings::default(), vec![found]);
        }
    };
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let mut found = vec![match names.is_empty() {
        true => good("settings", format!("no {}: using defaults", settings::FILE)),
        false => good("settings", names.join(", ")),
    }];
    if !is_trusted {
        found.push(note("settings", NOT_USED, "type `aot trust`"));
    }
    for warning in &read.warnings {
        found.push(note("settings", warning.to_string(), "correct it, or take it away"));
    }
    let home = place::home();
    for folder in read.settings.cage.folders(home.as_deref()).iter().filter(|folder| !folder.exists()) {
        let said = format!("`cage.writable` names {}, which is not there", folder.display());
        found.push(problem("settings", said, "make the folder, or take it from the list"));
    }
    (read.settings, found)
}

fn caged(ladder: &Ladder, trials: &[Trial], settings: &Settings) -> Vec<Finding> {
    const REMEDY: &str =
        "install bubblewrap (`apt install bubblewrap`), or use a kernel with landlock (5.13)";
    let refused = |(kind, why): &(Kind, String)| format!("{kind} does not hold here: {why}");
    let mut found: Vec<Finding> = Vec::new();
    let broken: Vec<&str> =
        trials.iter().filter(|trial| trial.holds == Holds::No).map(|trial| trial.what.as_str()).collect();
    match (ladder.as_wanted(), settings.cage.choice) {
        (Err(why), _) => {
            let wanted = ladder.refused.first().map_or(Kind::None, |(kind, _)| *kind);
            let remedy = format!("set `cage.kind` to \"auto\"; or {REMEDY}");
            found.push(problem(
                "cage",
                format!("{wanted} is asked for and does not hold here: {why}"),
                &remedy,
            ));
        }
        (Ok(Kind::None), Choice::Auto) => {
            found.push(note("cage", "none holds here: a worker can write whatever you can", REMEDY));
            found.extend(ladder.refused.iter().map(|rung| note("", refused(rung), "see the cause")));
        }
        (Ok(Kind::None), Choice::Only(_)) => {
            let remedy = "take `cage.kind` from the settings";
            found.push(note(
                "cage",
                "none, as the settings say: a worker can write whatever you can",
                remedy,
            ));
        }
        (Ok(kind), _) if broken.is_empty() => {
            found.push(good("cage", format!("{kind}: a worker writes only what is its own")));
            found.extend(ladder.refused.iter().map(|rung| {
                note(
                    "",
                    refused(rung),
                    "install bubblewrap, or let it make namespaces: it is the better cage",
                )
            }));
        }
        (Ok(kind), _) => {
            let said = format!("{kind} does not hold all that it should: {}", broken.join("; "));
            found.push(problem("cage", said, "set `cage.kind` to another one, and please report this"));
        }
    }
    if settings.checks.cage == CheckCage::None {
        let said = "no cage, and every variable of yours, as the settings say: what a worker wrote can do what you can";
        found.push(note("checks", said, "take `checks.cage` from the settings"));
    }
    found.push(network(&settings.cage.network, ladder.kind));
    found
}

/// Who is told, if anybody is, and whether what tells them is here.
fn notifications(settings: &NotifySettings) -> Vec<Finding> {
    if *settings == NotifySettings::default() {
        return Vec::new();
    }
    let commands = settings.commands.keys().map(|event| event.key().to_owned());
    let webhook = settings.webhook.iter().map(|webhook| format!("the webhook at {}", webhook.host()));
    let others = [(settings.desktop, "the desktop"), (settings.bell, "the bell")];
    let others = others.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.to_owned());
    let all: Vec<String> = commands.chain(webhook).chain(others).collect();
    let mut found = vec![good("notify", all.join(", "))];
    if settings.webhook.is_some() && place::program(notify::CURL).is_none() {
        let said = "`notify.webhook` needs curl, which is not installed";
        found.push(problem("", said, "install curl, or take the key from the settings"));
    }
    if settings.desktop && place::program(notify::DESKTOP).is_none() {
        let said = format!("`notify.desktop` shows nothing here: {} is not installed", notify::DESKTOP);
        found.push(note("", said, "install it, where there is a desktop"));
    }
    found
}

fn silence(work: &WorkSettings) -> Finding {
    let span = clock::span(work.agent_idle().as_secs());
    good("silence", format!("an agent that prints nothing for {span} is ended ([work] idle_timeout)"))
}

fn network(network: &Network, kind: Kind) -> Finding {
    if let Err(why) = network.kept_by(kind) {
        return problem("network", why.to_string(), why.hint());
    }
    match (network, kind) {
        (Network::On, _) => good("network", "on: a worker reaches whatever you can"),
        (Network::Off, Kind::Bwrap) => good("network", "off; each agent reaches its models and nothing else"),
        (Network::Off, Kind::Landlock) => {
            let hint = "install bubblewrap: its cage leaves an agent its models and nothing else";
            note("network", "off; no agent is started, because landlock knows ports and not hosts", hint)
        }
        (Network::Off, Kind::None) => {
            let gap = kind.gaps(network).last().copied().unwrap_or_default();
            note("network", gap, "install bubblewrap: its cage has no network at all")
        }
        (Network::Hosts(hosts), _) => {
            let listed = if hosts.words().is_empty() { "none".to_owned() } else { hosts.words().join(", ") };
            good("network", format!("only these hosts: {listed}; and each agent those of its models"))
        }
    }
}

fn object(finding: &Finding) -> Value {
    let mark = match finding.mark {
        Mark::Good => "good",
        Mark::Note => "note",
        Mark::Problem => "problem",
    };
    json!({"what": finding.what, "status": mark, "message": finding.said, "hint": finding.remedy})
}

fn cage_object(ladder: &Ladder, trials: &[Trial], network: &Network) -> Value {
    let trials = trials.iter().map(|trial| {
        json!({
            "what": trial.what,
            "wanted": match trial.wanted {
                Expected::Works => "works",
                Expected::Refused => "refused",
                Expected::Known => "known",
            },
            "happened": trial.happened,
            "holds": match trial.holds {
                Holds::Yes => "yes",
                Holds::NotClaimed => "not_claimed",
                Holds::No => "no",
            },
        })
    });
    let refused = ladder.refused.iter().map(|(kind, why)| json!({"kind": kind.to_string(), "why": why}));
    json!({
        "kind": ladder.kind.to_string(),
        "refused": refused.collect::<Vec<_>>(),
        "trials": trials.collect::<Vec<_>>(),
        "gaps": ladder.kind.gaps(network),
    })
}

/// A finding in a few lines: a mark, its name, what is so, and the remedy.
fn rendered(finding: &Finding) -> String {
    let (mark, paint) = match finding.mark {
        Mark::Good => ("✓", Paint::Green),
        Mark::Note => ("!", Paint::Yellow),
        Mark::Problem => ("✗", Paint::Red),
    };
    let mut said = text::wrapped(&finding.said, page_columns() - INDENT);
    if let Some(remedy) = &finding.remedy {
        said.extend(text::wrapped(&format!("hint: {remedy}"), page_columns() - INDENT));
    }
    let lines = said.iter().enumerate().map(|(place, line)| match place {
        0 => format!(
            "{} {:<width$}{line}",
            Ink::of(Stream::Out).paint(paint, mark),
            finding.what,
            width = INDENT - 2
        ),
        _ => format!("{:INDENT$}{line}", ""),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn wrapped(text: &str) -> Vec<String> {
    text::wrapped(text, page_columns())
}

/// The trials by what they show.
fn chapters(trials: &[Trial]) -> Vec<String> {
    let chapter = |head: &str, belongs: &dyn Fn(&Trial) -> bool| {
        let lines: Vec<String> = trials.iter().filter(|trial| belongs(trial)).map(tried).collect();
        let head = if lines.is_empty() { Vec::new() } else { wrapped(head) };
        head.into_iter().chain(lines).collect::<Vec<_>>()
    };
    let is_claimed = |trial: &Trial| trial.holds != Holds::NotClaimed;
    [
        chapter("can", &|trial| trial.wanted == Expected::Works),
        chapter("cannot", &|trial| trial.wanted == Expected::Refused && is_claimed(trial)),
        chapter("is not kept from this, as docs/guide/isolation.md says:", &|trial| !is_claimed(trial)),
        chapter("costs", &|trial| trial.wanted == Expected::Known),
    ]
    .concat()
}

fn tried(trial: &Trial) -> String {
    let (mark, paint) = match trial.holds {
        Holds::Yes => ("✓", Paint::Green),
        Holds::NotClaimed => ("–", Paint::Yellow),
        Holds::No => ("✗", Paint::Red),
    };
    let happened = match trial.holds {
        Holds::NotClaimed => "",
        Holds::Yes if trial.wanted == Expected::Works => "",
        Holds::Yes | Holds::No => plain(&trial.happened),
    };
    let what = match place::home() {
        Some(home) => trial.what.replace(&format!(" {}/", home.display()), " ~/"),
        None => trial.what.clone(),
    };
    let line = format!("{:<TRIED$}{happened}", text::fit(&what, TRIED - 1));
    format!(
        "  {} {}",
        Ink::of(Stream::Out).paint(paint, mark),
        text::fit(line.trim_end(), page_columns() - 4)
    )
}

/// What the system said, without its number.
fn plain(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}
