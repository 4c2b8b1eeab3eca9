//! The bound on agent runs: shown, kept, never rising (D8).

use aot_core::coordinator::{Coordinator, Event};
use aot_core::rules::bound;
use aot_core::rules::plan::Agents;
use aot_core::state::State;

use super::{Audit, Checked, ensure};
use crate::describe;
use crate::world::World;

impl Audit {
    /// In a host's session each command is a process of its own, so the figure is the one that the file alone tells. It
    /// cannot know whether the evaluation between two iterations has been made, and counts it until the next opens.
    pub(super) fn written_bound_falls(&mut self, world: &World, event: &Event) -> Checked {
        let state = world.recorded();
        let bound = bound::written(state, Agents::ALL).agent_runs;
        let by_a_person =
            matches!(event, Event::Edited { .. } | Event::Redirected { .. } | Event::Begun { .. });
        let most = self.bound.saturating_add(self.current.given_back);
        ensure(by_a_person || bound <= most, "the bound never rises", "D8", || {
            format!("{} to {bound} at {}", self.bound, describe::event_line(event))
        })?;
        let ceiling = match (self.ceiling, event) {
            (None, _) => self.runs + bound + unproven(world),
            (Some(ceiling), Event::Edited { .. } | Event::Redirected { .. }) => {
                ceiling.max(self.runs + bound + unproven(world))
            }
            (Some(ceiling), Event::Begun { .. }) => ceiling + evaluation(state),
            (Some(ceiling), _) => ceiling,
        };
        self.ceiling = Some(ceiling);
        ensure(self.runs <= ceiling, "agent runs stay within the bound shown", "D8", || {
            format!("{} done, {ceiling} shown, at {}", self.runs, describe::event_line(event))
        })?;
        if by_a_person {
            (self.bound_at_opening, self.bound_at_last_opening) = (u64::MAX, u64::MAX);
        }
        if self.current.opened {
            ensure(
                bound < self.bound_at_opening.max(1),
                "the bound falls with every iteration",
                "D8",
                || format!("{} to {bound}", self.bound_at_opening),
            )?;
            self.bound_at_last_opening = std::mem::replace(&mut self.bound_at_opening, bound);
        }
        self.bound = bound;
        Ok(())
    }

    pub(super) fn bound_falls(
        &mut self,
        world: &World,
        coordinator: &mut Coordinator,
        event: &Event,
    ) -> Checked {
        let bound = coordinator.bound().agent_runs;
        let ceiling = match (self.ceiling, event) {
            (None, _) => {
                let most = promised(coordinator.state());
                ensure(bound <= most, "the bound shown is the one promised", "D8", || {
                    format!("{bound}, {most}")
                })?;
                self.runs + bound + unproven(world)
            }
            (Some(ceiling), Event::Edited { .. } | Event::Redirected { .. }) => {
                (self.bound_at_opening, self.bound_at_last_opening) = (u64::MAX, u64::MAX);
                ceiling.max(self.runs + bound + unproven(world))
            }
            // What was broken off is evaluated again.
            (Some(ceiling), Event::Begun { .. } | Event::RedirectAsked) => {
                let more = bound.saturating_sub(self.bound);
                ensure(
                    more <= evaluation(coordinator.state()),
                    "a new process or a redirect adds one evaluation at most",
                    "D8",
                    || format!("{} to {bound}", self.bound),
                )?;
                ceiling + evaluation(coordinator.state())
            }
            (Some(ceiling), _) => {
                let most = self.bound.saturating_add(self.current.given_back);
                ensure(bound <= most, "the bound never rises", "D8", || {
                    format!("{} to {bound} at {}", self.bound, describe::event_line(event))
                })?;
                ceiling
            }
        };
        self.ceiling = Some(ceiling);
        ensure(self.runs + bound <= ceiling, "agent runs stay within the bound shown", "D8", || {
            format!(
                "{} done and {bound} to come, {ceiling} shown, at {}",
                self.runs,
                describe::event_line(event)
            )
        })?;
        if self.current.opened {
            ensure(
                bound < self.bound_at_opening.max(1),
                "the bound falls with every iteration",
                "D8",
                || format!("{} to {bound}", self.bound_at_opening),
            )?;
            self.bound_at_last_opening = std::mem::replace(&mut self.bound_at_opening, bound);
        }
        self.bound = bound;
        Ok(())
    }
}

/// The most judges of one evaluation of the base case.
pub(super) fn evaluation(state: &State) -> u64 {
    state.objective.base_case.as_ref().map_or(0, |checks| 2 * checks.quality_items() as u64)
}

/// What has just been asked for may come back unstarted: what its start took from the figure, beside its own run, was
/// shown to the user before.
fn unproven(world: &World) -> u64 {
    let state = world.recorded();
    let opening = state.control.open.as_ref().map_or(0, |_| 1 + evaluation(state));
    4 * world.flights().len() as u64 + opening
}

/// The most agent runs of one attempt: a probe, the work and two mends, and after each of the three its judges.
pub(super) fn attempt(state: &State) -> u64 {
    let checks = state.atoms.values().filter_map(|atom| atom.check.as_ref());
    4 + 6 * checks.map(|check| check.quality_items() as u64).max().unwrap_or(0)
}

/// The most agent runs of one iteration.
pub(super) fn iteration(state: &State) -> u64 {
    let attempts = 2 * u64::from(state.constraints().max_parallel_agents) - 1;
    attempts * attempt(state) + 1 + evaluation(state)
}

/// The figure before the first start: `2Q + N((2m-1)(4+6q) + 1 + 2Q)`.
pub(super) fn promised(state: &State) -> u64 {
    evaluation(state) + u64::from(state.constraints().max_iterations) * iteration(state)
}
