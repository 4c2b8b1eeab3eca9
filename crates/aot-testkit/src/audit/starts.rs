//! What may start, beside what, and how much at once (D1, D2, D7, D8, D12, D26).

use aot_core::coordinator::{Coordinator, Dispatch, Event, Job, JobId, Task};
use aot_core::state::{AtomId, AtomStatus, LoopStatus, State};

use super::halts::fails_the_same;
use super::probes::StartKind;
use super::{Audit, Checked, children_resolved, ensure, failures, index, is_spent};
use crate::world::{Flight, Phase, World, is_agent};

impl Audit {
    pub(super) fn starts_only_what_is_ready(
        &mut self,
        state: &State,
        atom: &AtomId,
        attempt: Option<u32>,
    ) -> Checked {
        let index = index(state, atom)?;
        let parent_check = self.graph.is_decomposed(index);
        let ready = if parent_check {
            children_resolved(&self.graph, state, index) && state.atoms[index].status != AtomStatus::Resolved
        } else {
            self.graph.is_ready(state, index)
        };
        ensure(
            ready,
            "nothing starts before what it needs, nor dormant, decomposed or under a failed choice",
            "D1, D2, D3",
            || format!("{atom}"),
        )?;
        let control = &state.control;
        ensure(!control.redirect_requested, "nothing starts in a redirect", "D16", || format!("{atom}"))?;
        ensure(control.open.is_some(), "what starts, starts in an iteration", "D7", || format!("{atom}"))?;
        ensure(attempt == Some(control.iteration), "an attempt has the iteration's number", "D7", || {
            format!("{atom} {attempt:?} in {}", control.iteration)
        })?;
        let again = self.iteration.started.contains(atom);
        ensure(!again, "an atom starts at most once in an iteration", "D8", || format!("{atom}"))?;
        self.iteration.started.push(atom.clone());
        let at_the_limit = control.stall_count >= state.constraints().max_stall_count;
        ensure(
            !at_the_limit || failures(state, atom) < 2,
            "at the stall limit, only the hopeful are tried",
            "D11",
            || format!("{atom}"),
        )
    }

    pub(super) fn starts(&mut self, world: &World, job: &Job) -> Checked {
        let state = world.recorded();
        let id = &job.id;
        let name = || format!("{id:?}");
        let control = &state.control;
        let allowed = control.status == LoopStatus::Running && !control.redirect_requested;
        ensure(allowed && !control.stop_requested, "nothing starts after a stop", "D13", name)?;
        ensure(self.blocked.is_none(), "no agent starts after one could not be asked", "D12", name)?;
        ensure(!is_spent(state), "nothing starts when the budget is spent", "D12", name)?;
        self.probes.asks(job);
        let again = self.refused.remove(id);
        ensure(!self.jobs.contains_key(id) || again, "a job never comes again", "D7, D8", name)?;
        if again {
            return Ok(());
        }
        let by_agent = is_agent(state, &id.task);
        self.jobs.insert(id.clone(), u64::from(by_agent));
        self.runs += u64::from(by_agent);
        if let Task::Work(atom) = &id.task {
            self.runs_alone(world, atom)?;
            self.works_on_what_is_needed(state, atom)?;
        }
        let kind = self.probes.starts(state, &self.graph, job)?;
        if kind == StartKind::WorkAfterProbe {
            // The second half of an attempt belongs to the iteration in which it began.
            return Ok(());
        }
        self.current.asked |= by_agent;
        ensure(id.attempt == control.iteration, "an attempt has the iteration's number", "D7", name)?;
        ensure(control.open.is_some(), "what starts, starts in an iteration", "D7", name)?;
        self.iteration.parallel = self.iteration.parallel.max(state.constraints().max_parallel_agents);
        let most = 2 * self.iteration.parallel - 1;
        match &id.task {
            Task::Work(atom) => {
                self.iteration.attempts += 1;
                ensure(self.iteration.attempts <= most, "at most 2m-1 attempts in an iteration", "D8", name)?;
                let landed = world
                    .branch()
                    .iter()
                    .any(|commit| commit.atom == *atom && state.bindings.get(atom) == Some(&commit.binding));
                ensure(!landed, "nothing verified is redone", "D23", name)
            }
            Task::Probe(atom) => {
                self.iteration.attempts += 1;
                if kind == StartKind::ParallelProbe {
                    let again =
                        self.iteration.started.contains(atom) || self.iteration.probed_beside.contains(atom);
                    ensure(!again, "an atom starts at most once in an iteration", "D8", name)?;
                    self.iteration.probed_beside.push(atom.clone());
                }
                ensure(self.iteration.attempts <= most, "at most 2m-1 attempts in an iteration", "D8", name)
            }
            Task::Check(atom) => {
                let index = index(state, atom)?;
                self.iteration.attempts += 1;
                ensure(self.iteration.attempts <= most, "at most 2m-1 attempts in an iteration", "D8", name)?;
                let due = self.graph.is_decomposed(index) && children_resolved(&self.graph, state, index);
                ensure(due, "a parent is checked after its children", "D3", name)
            }
            Task::Replan => {
                self.iteration.replans += 1;
                let at_the_limit = control.stall_count >= state.constraints().max_stall_count;
                ensure(!at_the_limit, "no replan at the stall limit", "D11", name)?;
                ensure(self.iteration.replans <= 1, "at most one replan in an iteration", "D8", name)?;
                ensure(self.iteration.attempts == 0, "a replan is at the opening", "D8", name)
            }
        }
    }

    pub(super) fn works_on_what_is_needed(&self, state: &State, atom: &AtomId) -> Checked {
        let index = index(state, atom)?;
        let graph = &self.graph;
        let fit = state.atoms[index].status == AtomStatus::InProgress
            && !graph.is_decomposed(index)
            && !graph.is_dormant(state, index)
            && !graph.under_failed_choice(state, index)
            && graph.waits_on(state, index).is_none();
        ensure(fit, "work is done on what is ready", "D1, D2, D3", || format!("{atom}"))
    }

    pub(super) fn runs_alone(&self, world: &World, atom: &AtomId) -> Checked {
        let state = world.recorded();
        let mine = &state.atoms[atom];
        for flight in world.flights() {
            let Task::Work(other) = &flight.job.id.task else { continue };
            let Some(theirs) = state.atoms.get(other).filter(|theirs| theirs.id != mine.id) else { continue };
            let same = mine.resource.is_some() && mine.resource == theirs.resource;
            let overlap = mine.writes.iter().any(|a| theirs.writes.iter().any(|b| overlap(a, b)));
            ensure(!same && !overlap, "what would collide does not run together", "D26", || {
                format!("{atom} beside {other}")
            })?;
        }
        Ok(())
    }

    /// Whoever lowers `m` does not end what runs; but nothing new begins above it.
    pub(super) fn runs_at_most_the_allowed(&mut self, world: &World, event: &Event) -> Checked {
        let running = world.flights().iter().filter(|flight| match flight.job.id.task {
            Task::Work(_) | Task::Probe(_) | Task::Replan => true,
            Task::Check(_) => false,
        });
        let (running, most) = (running.count(), world.recorded().constraints().max_parallel_agents as usize);
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            self.above = self.above.max(running);
        }
        self.above = self.above.min(running);
        ensure(running <= most.max(self.above), "at most m run", "D7, D8", || format!("{running} of {most}"))
    }

    /// Out of money or tokens, all that runs is killed; and before that, nobody is asked beside others whose share would
    /// go beyond the limit.
    pub(super) fn keeps_the_budget(&self, world: &World) -> Checked {
        let state = world.recorded();
        let left = world.flights().iter().find(|flight| flight.phase != Phase::Landing);
        // A host's workers are no processes of ours: they end with the turn.
        let ends_all = is_spent(state) && self.dispatch == Dispatch::Rolling;
        ensure(!ends_all || left.is_none(), "what has run out ends all that runs", "D12", || {
            format!("{:?}", left.map(|flight| &flight.job.id))
        })?;
        let running = agents(world);
        let fits = !self.current.asked || running == 1 || fit(state, running, running);
        ensure(fits, "no agent starts whose share of the budget is not there", "D12", || {
            format!("{running} run after {:?}", state.control.spent)
        })
    }

    /// While nothing speaks against it, whatever is ready runs. Conflicts, waiting checks, stalls and replans all may
    /// speak against it; a loop without them leaves no slot free.
    pub(super) fn fills_its_slots(&self, world: &World, coordinator: &Coordinator) -> Checked {
        let state = world.recorded();
        let control = &state.control;
        let Some(open) = &control.open else { return Ok(()) };
        let hindered = world.halted().is_some()
            || control.status != LoopStatus::Running
            || control.stop_requested
            || control.redirect_requested
            || control.parked_until.is_some()
            || control.stall_count >= state.constraints().max_stall_count
            || self.passed
            || self.tampered
            || self.blocked.is_some()
            || is_spent(state)
            || !self.affords_one_more(world)
            || coordinator.verifying().is_some()
            || coordinator.awaits_person()
            || world.flights().iter().any(|flight| flight.job.id.task == Task::Replan)
            || state
                .or_groups
                .values()
                .any(|group| group.next_choice().is_none() && !group.failed.is_empty())
            || state.atoms.values().any(|atom| !atom.writes.is_empty() || atom.resource.is_some());
        if hindered || self.one_tree || !self.has_slot(world) {
            return Ok(());
        }
        let ready = self.graph.ready(state);
        let had_its_turn =
            |id: &AtomId| open.started.contains(id) || self.iteration.probed_beside.contains(id);
        // What fails twice in the same way may be given up (D34).
        let waits = |id: &&AtomId| !had_its_turn(id) && !fails_the_same(state, id);
        let idle = ready.iter().map(|index| &state.atoms[*index].id).find(waits);
        ensure(idle.is_none(), "no slot stays free while something is ready", "D7", || format!("{idle:?}"))
    }

    pub(super) fn affords_one_more(&self, world: &World) -> bool {
        let running = agents(world);
        running == 0 || fit(world.recorded(), running + 1, running)
    }

    /// Whether one more can start in the open iteration. An attempt that waits for parallel probes keeps its slot.
    pub(super) fn has_slot(&self, world: &World) -> bool {
        let state = world.recorded();
        let m = state.constraints().max_parallel_agents as usize;
        let probing = |atom: &AtomId, attempt: u32| {
            world.flight(&JobId { task: Task::Probe(atom.clone()), attempt }).is_some()
        };
        let waiting = self.probes.awaited().filter(|(atom, attempt)| !probing(atom, *attempt)).count();
        let started = state.control.open.as_ref().map_or(0, |open| open.started.len());
        world.flights().len() + waiting < m && started + self.iteration.probed_beside.len() < 2 * m - 1
    }

    /// Whether one more look would fit.
    pub(super) fn has_room(&self, world: &World) -> bool {
        let running = world.recorded().control.open.is_some() && world.halted().is_none();
        running && !self.one_tree && self.has_slot(world) && self.affords_one_more(world)
    }
}

/// The agents that run, those among them whose start was refused.
pub(super) fn agents(world: &World) -> usize {
    let runs = |flight: &&Flight| {
        matches!(flight.phase, Phase::Working | Phase::Parked)
            && is_agent(world.recorded(), &flight.job.id.task)
    };
    world.flights().iter().filter(runs).count()
}

/// Whether so many agents fit beside what is spent, if each needs what one did on average; `running` are not through.
pub(super) fn fit(state: &State, agents: usize, running: usize) -> bool {
    let (limits, spent) = (state.constraints(), state.control.spent.clone().unwrap_or_default());
    let ended = spent.agent_runs - running as u64;
    let fits = |limit: Option<f64>, spent: f64| {
        limit.is_none_or(|limit| spent + spent * agents as f64 / ended as f64 <= limit + 1e-6)
    };
    ended == 0
        || (fits(limits.max_cost_usd, spent.cost_usd)
            && fits(limits.max_tokens.map(|limit| limit as f64), spent.tokens as f64))
}

/// Whether two of the globs that `plans` draws can name one path: one's fixed beginning begins the other's.
pub(super) fn overlap(a: &str, b: &str) -> bool {
    let fixed = |glob: &str| glob.split('*').next().unwrap_or_default().to_owned();
    let (a, b) = (fixed(a), fixed(b));
    a.starts_with(&b) || b.starts_with(&a)
}
