//! Events, effects and plans as short lines, for traces.

use std::fmt::Write;

use aot_core::coordinator::{Answer, Effect, Evaluation, Event, Job, JobId, JobOutcome, Task, Usage};
use aot_core::rules::Change;
use aot_core::state::State;

pub fn event_line(event: &Event) -> String {
    match event {
        Event::Begun { unrecorded: found, redirect, .. } => {
            let found: Vec<String> = found.iter().map(|found| found.atom.to_string()).collect();
            format!("begun found {found:?} redirect held by {redirect:?}")
        }
        Event::Ended { job, outcome, usage } => {
            format!("{} {}{}", job_name(job), outcome_text(outcome), usage_text(usage))
        }
        Event::Landed { job, usage, .. } => format!("{} landed{}", job_name(job), usage_text(usage)),
        Event::Conflict { job, usage, .. } => format!("{} conflict{}", job_name(job), usage_text(usage)),
        Event::NotLanded { job, usage, .. } => format!("{} not landed{}", job_name(job), usage_text(usage)),
        Event::Verified { number, evaluation, usage } => {
            let evaluation = match evaluation {
                Evaluation::Passed => "passed".to_owned(),
                Evaluation::Failed { red } => format!("{} red", red.len()),
                Evaluation::Pending { .. } => "pending".to_owned(),
                Evaluation::Error { .. } => "error".to_owned(),
                Evaluation::Prevented { .. } => "prevented".to_owned(),
                Evaluation::Lost { .. } => "lost".to_owned(),
            };
            format!("evaluation {number}: {evaluation}{}", usage_text(usage))
        }
        Event::Replanned { job, answer, .. } => match answer {
            Answer::Plan(plan) => format!("{} {plan:?}", job_name(job)),
            Answer::Failed { .. } => format!("{} failed", job_name(job)),
            Answer::Refused { .. } => format!("{} refused", job_name(job)),
            Answer::Unable { .. } => format!("{} unable", job_name(job)),
            Answer::NotStarted { .. } => format!("{} not started", job_name(job)),
        },
        Event::Spent { usage } => format!("spent {:.1} USD and {} tokens", usage.cost_usd, usage.tokens),
        Event::AgentRan { run } => format!("{} of {} ended", run.role, run.agent),
        Event::Edited { state } => format!("edited to {}", plan_text(state)),
        Event::Redirected { state } => format!("redirected to {}", plan_text(state)),
        Event::Tampered { .. } => "tampered".to_owned(),
        Event::StopAsked { how, .. } => format!("stop asked: {how:?}"),
        Event::RedirectAsked => "redirect asked".to_owned(),
        Event::RedirectAbandoned => "redirect abandoned".to_owned(),
        Event::Woke => "woke".to_owned(),
        Event::StartAsked { atom } => format!("start of {atom} asked"),
        Event::TurnEnded => "turn ended".to_owned(),
    }
}

pub fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::Record(changes) => {
            let changes: Vec<String> = changes.iter().filter_map(change_text).collect();
            format!("record {}", changes.join(", "))
        }
        Effect::Start(Job { id, why, .. }) if why.is_empty() => format!("start {}", job_name(id)),
        Effect::Start(Job { id, why, .. }) => format!("start {} for {why:?}", job_name(id)),
        Effect::Kill(id) => format!("kill {}", job_name(id)),
        Effect::Land(id) => format!("land {}", job_name(id)),
        Effect::Verify { number } => format!("verify {number}"),
        Effect::Revert { atom, commit } => format!("revert {commit} of {atom}"),
        Effect::WakeAt(at) => format!("wake at {}s", at.as_second()),
        Effect::Refuse(refusal) => format!("refuse: {refusal}"),
        Effect::Halt(certificate) => format!("HALT {:?}", certificate.verdict),
    }
}

pub fn job_name(id: &JobId) -> String {
    let number = id.attempt;
    match &id.task {
        Task::Probe(atom) => format!("probe {atom}#{number}"),
        Task::Work(atom) => format!("work {atom}#{number}"),
        Task::Check(atom) => format!("check {atom}#{number}"),
        Task::Replan => format!("replan #{number}"),
    }
}

fn outcome_text(outcome: &JobOutcome) -> String {
    match outcome {
        JobOutcome::Done { check, .. } => format!("done, check {check:?}"),
        JobOutcome::Failed { reason } => format!("failed: {reason}"),
        JobOutcome::TooLarge { .. } => "too large".to_owned(),
        JobOutcome::Probed { feasible, cost, .. } => format!("probed, feasible {feasible:?}, cost {cost:?}"),
        JobOutcome::Refused { .. } => "refused".to_owned(),
        JobOutcome::Unable { .. } => "unable".to_owned(),
        JobOutcome::NotStarted { .. } => "not started".to_owned(),
        JobOutcome::Lost { .. } => "lost".to_owned(),
    }
}

fn usage_text(usage: &Usage) -> String {
    if usage.agent_runs == 0 { String::new() } else { format!(" by {} judges", usage.agent_runs) }
}

fn change_text(change: &Change) -> Option<String> {
    match change {
        Change::SpentSoFar { .. } => None,
        Change::AtomStarted { atom, .. } => Some(format!("{atom} started")),
        Change::AtomResolved { atom, .. } => Some(format!("{atom} resolved")),
        Change::AtomReset { atom } => Some(format!("{atom} reset")),
        Change::AtomReturned { atom, .. } => Some(format!("{atom} returned")),
        Change::AtomNotStarted { atom, .. } => Some(format!("{atom} not started")),
        Change::FailureNoted { atom, .. } => Some(format!("{atom} failed")),
        Change::ReplanNoted { atom, .. } => Some(format!("{atom} replanned")),
        Change::AtomAdded { atom } => Some(format!("{} added <- {:?}", atom.id, atom.depends_on)),
        _ => Some(format!("{change:?}")),
    }
}

/// A plan in a few lines.
pub fn plan_text(state: &State) -> String {
    let limits = state.constraints();
    let mut text = format!(
        "m={} N={} stalls={} wall={} verify={:?} iteration {}",
        limits.max_parallel_agents,
        limits.max_iterations,
        limits.max_stall_count,
        limits.max_wall_time(),
        state.objective.verify,
        state.control.iteration
    );
    for atom in state.atoms.values() {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n  {} {}", atom.id, atom.status.word());
        if !atom.depends_on.is_empty() {
            let _ = write!(text, " <- {:?}", atom.depends_on);
        }
        for (name, there) in [
            (" check", atom.check.is_some()),
            (" run", atom.run.is_some()),
            (" probe", atom.probe == Some(true)),
        ] {
            text += if there { name } else { "" };
        }
        if !atom.writes.is_empty() {
            let _ = write!(text, " writes {:?}", atom.writes);
        }
        if let Some(resource) = &atom.resource {
            let _ = write!(text, " resource {resource}");
        }
    }
    for decomposition in &state.decompositions {
        let _ = write!(text, "\n  {} -> {:?}", decomposition.parent, decomposition.children);
    }
    for (name, group) in &state.or_groups {
        let race = if group.is_speculative() { " race" } else { "" };
        let _ = write!(
            text,
            "\n  {name} = {:?} selected {} failed {:?}{race}",
            group.choices, group.selected, group.failed
        );
    }
    text
}
