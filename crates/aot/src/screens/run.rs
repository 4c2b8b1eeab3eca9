//! A run as it happens: a line for each thing that people want to know, and at the bottom of a terminal one line that
//! says what goes on now. Speaks to no stream.

use std::time::{Duration, Instant};

use aot_core::coordinator::{Answer, Event, Feasibility, Forecast, JobId, JobOutcome, Task};
use aot_core::rules::Change;
use aot_core::rules::bound::Bound;
use aot_core::rules::certificate::{Certificate, RedCheck};
use aot_core::state::{AtomId, Graph, State, StopKind, headline};
use aot_core::verdict::Verdict;
use aot_core::view::{Counts, ResultProof, result_of};
use aot_runner::agents::{ROLES, Team};
use aot_runner::checks::seal::Altered;
use aot_runner::confinement::CheckCage;
use aot_runner::message::Notice;
use aot_runner::process::cage;
use aot_runner::tree::{LandedWork, TreeKind};

use super::clock;
use super::ink::{Ink, Paint};
use crate::text::{self, counted};

/// So many red checks, tried atoms and branches are told at a halt.
const TOLD: usize = 8;

/// So many lines of an output that showed a failure are told at a halt.
const OUTPUT_SHOWN: usize = 6;

/// Where the text beside a name begins.
pub const INDENT: usize = 9;

/// So many steps of a forecast are shown.
const STEPS: usize = 30;

/// What is drawn of a run, and what it needs to remember.
#[derive(Debug)]
pub struct RunScreen {
    ink: Ink,
    began: Instant,
    running: Vec<(JobId, Instant)>,
    /// What agents do now.
    doing: Vec<(JobId, String)>,
    parked: Option<(jiff::Timestamp, Option<String>)>,
    verifying: bool,
    resolved: usize,
    all: usize,
}

impl RunScreen {
    pub fn new(ink: Ink, began: Instant) -> RunScreen {
        RunScreen {
            ink,
            began,
            running: Vec::new(),
            doing: Vec::new(),
            parked: None,
            verifying: false,
            resolved: 0,
            all: 0,
        }
    }

    /// The lines that a notice is worth.
    pub fn lines(&mut self, notice: &Notice<'_>) -> Vec<String> {
        match notice {
            Notice::Recorded { changes, state } => {
                self.count(state);
                changes.iter().filter_map(|change| self.change(change, changes, state)).collect()
            }
            Notice::Ground { kind, branch, cage, checks } => {
                let open = (*checks == CheckCage::None).then(|| CHECKS_OPEN.to_owned());
                let work = ground(*kind, *branch, *cage);
                let work = text::beside("work", INDENT, &work, self.ink.columns);
                work.into_iter().chain(open).collect()
            }
            Notice::Edited { state } => self.edited(state).into_iter().collect(),
            Notice::Started { job, state } => {
                self.running.push(((*job).clone(), Instant::now()));
                self.started(job, state).into_iter().collect()
            }
            Notice::Doing { job, line } => {
                match self.doing.iter_mut().find(|(known, _)| known == job) {
                    Some((_, doing)) => doing.clone_from(line),
                    None => self.doing.push((job.clone(), line.clone())),
                }
                Vec::new()
            }
            Notice::Mends { job, reason } => {
                vec![self.row("↻", "@", Paint::Dim, &who(&job.task), &format!("mends it: {reason}"))]
            }
            Notice::AgentEnded { job, agent, used, took } => {
                self.doing.retain(|(known, _)| Some(known) != job.as_ref());
                let whose = job.as_ref().map_or_else(|| "judge".to_owned(), |job| who(&job.task));
                let cost = used.cost_usd.map(|cost| format!(", {cost:.4} USD")).unwrap_or_default();
                let text = format!("{agent} took {}, {} tokens{cost}", short(*took), used.tokens);
                vec![self.row("·", "-", Paint::Dim, &whose, &text)]
            }
            Notice::Killed { job } => {
                self.running.retain(|(running, _)| running != *job);
                self.doing.retain(|(known, _)| known != *job);
                vec![self.row("×", "x", Paint::Dim, &who(&job.task), "killed")]
            }
            Notice::Verifying { .. } => {
                self.verifying = true;
                Vec::new()
            }
            Notice::Event { event } => self.event(event).into_iter().collect(),
            Notice::ToolFailed { job, agent, line } => {
                vec![self.row(
                    "!",
                    "!",
                    Paint::Yellow,
                    &who(&job.task),
                    &format!("a tool of {agent} failed: {line}"),
                )]
            }
            Notice::Checked { .. }
            | Notice::Hosts { .. }
            | Notice::Tick
            | Notice::Bound { .. }
            | Notice::Halted { .. }
            | Notice::Notified { .. } => Vec::new(),
            Notice::Verified { verdict, red, untracked, took, .. } => {
                self.verifying = false;
                let mut lines = self.verified(*verdict, red, *took);
                if !untracked.is_empty() {
                    let named =
                        untracked.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
                    let text = format!("the checks could see files that no commit has: {named}");
                    lines.push(self.row("!", "!", Paint::Yellow, "note", &text));
                }
                lines
            }
            Notice::Tampered { altered } => {
                let told = altered.iter().take(TOLD).map(Altered::describe);
                told.map(|text| self.row("!", "!", Paint::Red, "tampered", &text)).collect()
            }
            Notice::Waiting { job, waiting } => {
                let text = match &waiting.paths[..] {
                    [] => format!("is done, and waits to land: {}", waiting.reason),
                    paths => format!("is done, and lands when you commit or undo {}", paths.join(", ")),
                };
                vec![self.row("…", "~", Paint::Yellow, &who(&job.task), &text)]
            }
            Notice::Note { text } => vec![self.row("!", "!", Paint::Yellow, "note", text)],
        }
    }

    /// What goes on now, for the bottom of a terminal: a line for each agent, and one for all.
    pub fn now(&self, columns: usize) -> Vec<String> {
        let mut lines = self.agents(columns);
        lines.push(self.all_in_one(columns));
        lines
    }

    fn all_in_one(&self, columns: usize) -> String {
        let mut parts = vec![format!("{} of {} resolved", self.resolved, self.all)];
        if self.verifying {
            parts.push("running the checks".into());
        }
        if let Some((until, why)) = &self.parked {
            let left = jiff::Timestamp::now().duration_until(*until);
            let left = Duration::try_from(left).unwrap_or_default();
            let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
            parts.push(format!("parked, tries again in {}{why}", short(left)));
        }
        let running: Vec<String> = self
            .running
            .iter()
            .map(|(job, since)| format!("{} {}", who(&job.task), short(since.elapsed())))
            .collect();
        if !running.is_empty() {
            parts.push(running.join(", "));
        }
        let text = format!("{:>7}  {}", short(self.began.elapsed()), parts.join("; "));
        self.ink.paint(Paint::Dim, &self.ink.fit(&text, columns))
    }

    /// What each agent does now.
    fn agents(&self, columns: usize) -> Vec<String> {
        let line = |(job, doing): &(JobId, String)| {
            let text = format!("{:>7}  {}: {doing}", "", who(&job.task));
            self.ink.paint(Paint::Dim, &self.ink.fit(&text, columns))
        };
        self.doing.iter().take(TOLD).map(line).collect()
    }

    fn count(&mut self, state: &State) {
        (self.resolved, self.all) = Counts::of(state).progress();
    }

    fn edited(&self, state: &State) -> Option<String> {
        let control = &state.control;
        let text = match (control.stop_requested, control.stop_now, control.redirect_requested) {
            (_, _, true) => "a redirect is under way: everything is interrupted".to_owned(),
            (true, true, false) => "stopping now: what runs is killed".to_owned(),
            (true, false, false) => "stopping: what runs finishes, nothing new starts".to_owned(),
            (false, _, false) => return None,
        };
        let reason = control.stop_reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        Some(self.row("■", "#", Paint::Yellow, "stop", &format!("{text}{reason}")))
    }

    fn started(&self, job: &JobId, state: &State) -> Option<String> {
        let atom = job.task.atom()?;
        let description = state.atoms.get(atom).map_or("", |atom| &atom.description);
        let text = match &job.task {
            Task::Work(_) => format!("starts: {description}"),
            Task::Probe(_) => format!("is probed first: {description}"),
            Task::Check(_) => format!("is checked: {description}"),
            Task::Replan => return None,
        };
        Some(self.row("▸", ">", Paint::Cyan, atom.as_str(), &text))
    }

    /// What an agent came back with that no change tells.
    fn event(&self, event: &Event) -> Option<String> {
        if let Event::Replanned { answer: Answer::Failed { reason }, .. } = event {
            let text = format!("no new plan: {}", headline(reason));
            return Some(self.row("!", "!", Paint::Yellow, "plan", &text));
        }
        let Event::Ended { job, outcome, .. } = event else { return None };
        let (paint, text) = match (outcome, &job.task) {
            (JobOutcome::Probed { feasible: Feasibility::Feasible, findings, .. }, _) => {
                (Paint::Cyan, format!("is feasible: {}", headline(findings)))
            }
            (JobOutcome::Probed { feasible: Feasibility::Infeasible, findings, .. }, _) => {
                (Paint::Yellow, format!("is not feasible as described: {}", headline(findings)))
            }
            (JobOutcome::Failed { reason } | JobOutcome::TooLarge { reason }, Task::Probe(_)) => {
                (Paint::Yellow, format!("the probe failed: {}", headline(reason)))
            }
            (
                JobOutcome::Done { .. }
                | JobOutcome::Failed { .. }
                | JobOutcome::TooLarge { .. }
                | JobOutcome::Refused { .. }
                | JobOutcome::Unable { .. }
                | JobOutcome::NotStarted { .. }
                | JobOutcome::Lost { .. },
                _,
            ) => return None,
        };
        Some(self.row("?", "?", paint, &who(&job.task), &text))
    }

    fn change(&mut self, change: &Change, beside: &[Change], state: &State) -> Option<String> {
        match change {
            Change::AtomResolved { atom, binding } => {
                let since = self.ends(atom);
                let commit =
                    binding.commit.as_deref().map(|commit| format!(" [{}]", &commit[..commit.len().min(7)]));
                let nothing = if binding.unchanged { " (no file changed)" } else { "" };
                let graph = Graph::new(state);
                let index = state.atoms.get_index_of(atom)?;
                let result = result_of(&graph, state, index);
                let text = format!("{result}{nothing}{}{since}", commit.unwrap_or_default());
                Some(match ResultProof::of(&graph, state, index) {
                    ResultProof::Proven => self.row("✓", "+", Paint::Green, atom.as_str(), &text),
                    ResultProof::Claimed => self.row("~", "~", Paint::Yellow, atom.as_str(), &text),
                })
            }
            Change::FailureNoted { atom, reason } => {
                let since = self.ends(atom);
                Some(self.row(
                    "✗",
                    "x",
                    Paint::Red,
                    atom.as_str(),
                    &format!("failed: {}{since}", headline(reason)),
                ))
            }
            Change::AtomReturned { atom, reason } => {
                self.ends(atom);
                Some(self.row(
                    "↩",
                    "<",
                    Paint::Yellow,
                    atom.as_str(),
                    &format!("returned to the queue (no failure): {reason}"),
                ))
            }
            Change::AtomNotStarted { atom, reason } => {
                self.ends(atom);
                let text = format!("could not be started: {reason}");
                Some(self.row("↩", "<", Paint::Yellow, atom.as_str(), &text))
            }
            Change::AtomReset { atom } => {
                self.ends(atom);
                None
            }
            Change::ChoiceFailed { choice, .. } => {
                let since = self.ends(choice);
                let text = format!("{}{since}", super::words::why_failed(choice, beside));
                Some(self.row("✗", "x", Paint::Red, choice.as_str(), &text))
            }
            Change::ChoiceSelected { group, choice, reason, cause } => {
                // Why the one before failed stands in the line above.
                let by_failure = cause.as_ref().is_some_and(|cause| cause.failure().is_some());
                let why = if by_failure { String::new() } else { format!(": {reason}") };
                let text = format!("switches to {choice}{why}");
                Some(self.row("↻", "@", Paint::Yellow, group.as_str(), &text))
            }
            Change::IterationOpened => {
                let (number, most) = (state.control.iteration, state.constraints().max_iterations);
                let text = format!("iteration {number} of at most {most}");
                Some(self.ink.paint(Paint::Dim, &format!("{:>7}  {text}", short(self.began.elapsed()))))
            }
            Change::IterationClosed { stall_count, .. } if *stall_count > 0 => {
                let most = state.constraints().max_stall_count;
                Some(self.row(
                    "!",
                    "!",
                    Paint::Yellow,
                    "stall",
                    &format!(
                        "no progress for {} (limit {most})",
                        counted((*stall_count).into(), "iteration")
                    ),
                ))
            }
            Change::PlanRefused { reason } => {
                let text = format!("refused: {}", headline(reason));
                Some(self.row("!", "!", Paint::Yellow, "plan", &text))
            }
            Change::AtomStarted { .. }
            | Change::IterationClosed { .. }
            | Change::ResultCounted
            | Change::LoopStarted
            | Change::Stopped { .. }
            | Change::Completed
            | Change::StopRequested { .. } => None,
            other => {
                match other {
                    Change::Parked { until, reason } => self.parked = Some((until.at(), reason.clone())),
                    Change::Unparked => self.parked = None,
                    _ => {}
                }
                let text = super::words::sentence(other, beside)?;
                Some(self.row("·", "-", Paint::Dim, "", &text))
            }
        }
    }

    /// The attempt on an atom is over; how long it took, if that is worth telling.
    fn ends(&mut self, atom: &AtomId) -> String {
        let at = self.running.iter().position(|(job, _)| job.task.atom() == Some(atom));
        let since = at.map(|at| self.running.remove(at).1.elapsed());
        since
            .filter(|since| since.as_secs() >= 1)
            .map(|since| format!(" ({})", short(since)))
            .unwrap_or_default()
    }

    fn verified(&self, verdict: Verdict, red: &[RedCheck], took: Duration) -> Vec<String> {
        let (unicode, ascii, paint, text) = match verdict {
            Verdict::Passed => ("✓", "+", Paint::Green, "pass"),
            Verdict::Failed => ("○", "o", Paint::Yellow, "not passing yet"),
            Verdict::Error => ("!", "!", Paint::Yellow, "inconclusive"),
            Verdict::Pending => ("?", "?", Paint::Yellow, "waiting for a person"),
        };
        let text = match red.len() {
            0 => format!("{text} ({})", short(took)),
            1 => format!("{text}: {}", red[0].item),
            many => format!("{text}: {} and {} more", red[0].item, many - 1),
        };
        vec![self.row(unicode, ascii, paint, "checks", &text)]
    }

    fn row(&self, unicode: &'static str, ascii: &'static str, paint: Paint, who: &str, text: &str) -> String {
        let at = short(self.began.elapsed());
        let sign = self.ink.paint(paint, self.ink.sign(unicode, ascii));
        let who = format!("{who:<5}");
        let room = self.ink.columns.saturating_sub(7 + 2 + 1 + 1 + text::width(&who) + 1);
        let text = self.ink.fit(text, room);
        format!("{}  {sign} {who} {text}", self.ink.paint(Paint::Dim, &format!("{at:>7}")))
            .trim_end()
            .to_owned()
    }
}

fn who(task: &Task) -> String {
    match task {
        Task::Probe(atom) => format!("{atom}?"),
        Task::Work(atom) | Task::Check(atom) => atom.to_string(),
        Task::Replan => "plan".into(),
    }
}

const CHECKS_OPEN: &str = "checks   no cage, and every variable of yours, as `[checks] cage` says";

fn ground(kind: TreeKind, branch: Option<&str>, cage: cage::Kind) -> String {
    let place = match (kind, branch) {
        (TreeKind::Worktrees, Some(branch)) => format!("a worktree each, landing on {branch}"),
        (TreeKind::Worktrees, None) => "a worktree each".to_owned(),
        (TreeKind::InPlace, _) => "in place, one at a time; failures are rolled back".to_owned(),
        (TreeKind::Unisolated, _) => "in place, side by side; nothing is rolled back".to_owned(),
    };
    let cage = match cage {
        cage::Kind::Bwrap => "caged by bwrap",
        cage::Kind::Landlock => "caged by landlock",
        cage::Kind::None => "no cage holds workers in (aot doctor)",
    };
    format!("{place}; {cage}")
}

/// A span of time in few characters.
pub fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{}.{}s", seconds, time.subsec_millis() / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The most that can happen, in words.
pub fn bound(bound: &Bound) -> String {
    let time = clock::span(bound.seconds);
    let money = bound.cost_usd.map(|usd| format!(", {usd:.2} USD")).unwrap_or_default();
    let tokens = bound.tokens.map(|tokens| format!(", {tokens} tokens")).unwrap_or_default();
    match bound.agent_runs {
        0 => format!("no agent run, at most {time}{money}{tokens}"),
        runs => format!("at most {}, {time}{money}{tokens}", counted(runs, "agent run")),
    }
}

/// The same beside the least that success needs, for a loop that is about to run.
pub fn range(least: u64, most: &Bound) -> String {
    match least.min(most.agent_runs) {
        0 => bound(most),
        least => format!("at least {least}, {}", bound(most)),
    }
}

/// The order in which atoms would start.
pub fn plan(ink: Ink, forecast: &Forecast) -> Vec<String> {
    let mut lines = text::wrapped("order, if each succeeds at once and all take equally long:", ink.columns);
    for (number, atoms) in forecast.steps.iter().enumerate().take(STEPS) {
        let named: Vec<&str> = atoms.iter().map(AtomId::as_str).collect();
        lines.push(ink.fit(&format!("{:>5}  {}", number + 1, named.join("  ")), ink.columns));
    }
    if forecast.steps.len() > STEPS {
        lines.push(format!("       and {} more steps", forecast.steps.len() - STEPS));
    }
    lines
}

/// What the loop has landed, and how to take it back; nothing if it has landed nothing.
fn landed(work: &LandedWork) -> Option<String> {
    let LandedWork { branch, commits, files, insertions, deletions } = work;
    let size = format!("{}, +{insertions} -{deletions} lines", counted(*files as u64, "file"));
    match (commits, branch) {
        (0, _) => None,
        (commits, Some(branch)) => {
            let commits = counted(*commits as u64, "commit");
            Some(format!("{commits} on {branch}: {size}; aot undo takes it all back"))
        }
        (commits, None) => {
            let changes = counted(*commits as u64, "change");
            Some(format!("{changes} in place: {size}; aot undo takes it all back"))
        }
    }
}

/// How a halt is called, and in which colour.
pub fn verdict_word(verdict: &StopKind) -> (Paint, &'static str) {
    match verdict {
        StopKind::Completed => (Paint::Green, "DONE"),
        StopKind::StoppedByHand | StopKind::RedirectInterrupted => (Paint::Yellow, "STOPPED"),
        StopKind::Tampered => (Paint::Red, "TAMPERED"),
        StopKind::Exhausted { .. } => (Paint::Red, "NO ALTERNATIVE LEFT"),
        StopKind::Stalled => (Paint::Red, "STALLED"),
        StopKind::IterationLimit => (Paint::Red, "ITERATION LIMIT"),
        StopKind::Budget { .. } => (Paint::Red, "BUDGET SPENT"),
        StopKind::Deadlock { .. } => (Paint::Red, "DEADLOCK"),
        StopKind::NeedsPerson => (Paint::Yellow, "WAITING FOR YOU"),
        StopKind::NoAgent { .. } => (Paint::Red, "NO AGENT"),
    }
}

/// Of a loop whose checks passed before any work.
const NOTHING_DONE: &str = "the checks passed before any work was done, so nothing was started; if there is work to do, they prove \
                            too little";

const WITH_ANOTHER_CHECK: &str = "aot run \"GOAL\" --check \"COMMAND\", with a command that fails now";

/// What a halt says.
pub fn halt(
    ink: Ink,
    certificate: &Certificate,
    state: &State,
    work: Option<&LandedWork>,
    took: Duration,
) -> Vec<String> {
    let (paint, word) = verdict_word(&certificate.verdict);
    let reason = certificate.verdict.below_headline(&certificate.reason);
    let mut told = text::wrapped(&format!("{word}  {}", text::plain(reason)), ink.columns);
    told[0] = told[0].replacen(word, &ink.paint(paint, word), 1);
    let mut lines = vec![String::new()];
    lines.extend(told);
    let counts = Counts::of(state);
    let proof = if counts.resolved > 0 { format!(" ({})", counts.proof()) } else { String::new() };
    let spent = state.control.spent.clone().unwrap_or_default();
    let mends = if spent.mends > 0 { format!(" ({} of them mends)", spent.mends) } else { String::new() };
    let (resolved, all) = counts.progress();
    let mut figures = vec![
        format!("{resolved} of {} resolved{proof}", counted(all as u64, "atom")),
        counted(u64::from(certificate.iterations), "iteration"),
        format!("{}{mends}", counted(certificate.agent_runs, "agent run")),
    ];
    if spent.tokens > 0 {
        figures.push(format!("{} tokens", spent.tokens));
    }
    if spent.cost_usd > 0.0 {
        figures.push(format!("{:.2} USD", spent.cost_usd));
    }
    figures.push(short(took));
    lines.extend(text::wrapped(&figures.join(", "), ink.columns));
    let landed = work.and_then(landed);
    lines.extend(landed.into_iter().flat_map(|told| text::beside("landed", INDENT, &told, ink.columns)));
    if let (Some(branch), Some(_)) = (&state.control.branch, work.filter(|work| work.commits > 0)) {
        lines.push(format!("merge    git merge {branch}"));
    }
    let is_untouched = resolved == 0 && certificate.iterations == 0;
    if certificate.verdict == StopKind::Completed && is_untouched && certificate.agent_runs == 0 {
        lines.extend(text::beside("note", INDENT, NOTHING_DONE, ink.columns));
        lines.extend(text::beside("  next", INDENT, WITH_ANOTHER_CHECK, ink.columns));
    }
    if certificate.exit == 0 {
        return lines;
    }
    let more = |lines: &mut Vec<String>, all: usize| {
        if all > TOLD {
            lines.push(format!("         and {} more", all - TOLD));
        }
    };
    for red in certificate.red.iter().take(TOLD) {
        lines.push(ink.fit(&format!("  red    {}: {}", red.item, headline(&red.reason)), ink.columns));
        lines.extend(ending(ink, &red.reason));
    }
    more(&mut lines, certificate.red.len());
    for tried in certificate.tried.iter().take(TOLD) {
        let last = tried.reasons.last().map_or("", String::as_str);
        let times = text::times(tried.attempts);
        lines.push(ink.fit(&format!("  tried  {} {times}: {}", tried.atom, headline(last)), ink.columns));
        lines.extend(ending(ink, last));
    }
    more(&mut lines, certificate.tried.len());
    for branch in certificate.branches.iter().take(TOLD) {
        let choices: Vec<&str> = branch.choices.iter().map(AtomId::as_str).collect();
        lines.push(ink.fit(&format!("  left   {}: {}", branch.group, choices.join(", ")), ink.columns));
    }
    more(&mut lines, certificate.branches.len());
    let next = certificate.next.iter();
    lines.extend(next.flat_map(|next| text::beside("  next", INDENT, next, ink.columns)));
    lines
}

/// The end of the output that showed a failure.
fn ending(ink: Ink, reason: &str) -> Vec<String> {
    let lines: Vec<&str> = reason.lines().skip(1).collect();
    let shown = &lines[lines.len().saturating_sub(OUTPUT_SHOWN)..];
    shown
        .iter()
        .map(|line| ink.paint(Paint::Dim, &ink.fit(&format!("         | {line}"), ink.columns)))
        .collect()
}

/// Who is asked in which role, in one line.
pub fn team(team: &Team) -> String {
    let seats = ROLES.into_iter().map(|role| {
        let name = team.member(role, None).map_or("no agent", |agent| agent.name.as_str());
        (role.word(), name)
    });
    let seats: Vec<(&str, &str)> = seats.collect();
    match seats.iter().all(|(_, name)| *name == seats[0].1) {
        true => format!("{} in every role", seats[0].1),
        false => seats.iter().map(|(role, name)| format!("{role} {name}")).collect::<Vec<_>>().join(", "),
    }
}
