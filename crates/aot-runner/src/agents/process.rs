//! A running agent, for async code: what it prints comes in chunks through a bounded queue. While the queue is full
//! the agent's pipes are not read, so an agent that prints without end has to wait and costs no memory.

use std::io;
use std::sync::Arc;

use tokio::select;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::{JoinHandle, spawn_blocking};

use super::events::in_one_line;
use crate::process::{Captured, Ended, Guard, Job, Stream, Switch};

/// Chunks in the queue. A chunk has 64 KiB at most, so one MiB waits for us.
const QUEUED: usize = 16;

#[derive(Debug)]
pub(super) struct AgentProcess {
    output: Receiver<(Stream, Vec<u8>)>,
    running: JoinHandle<io::Result<Ended>>,
    ended: Option<io::Result<Ended>>,
    switch: Switch,
}

#[derive(Debug)]
pub(super) enum AgentStep {
    Printed(Stream, Vec<u8>),
    Ended(io::Result<Ended>),
}

impl AgentProcess {
    /// Starts the job on a thread of the runtime.
    pub fn start(guard: &Guard, job: Job) -> AgentProcess {
        let switch = Switch::default();
        let guard = guard.under(&switch);
        let (queue, output) = mpsc::channel(QUEUED);
        let tap = move |stream, chunk: &[u8]| {
            // Blocks the thread that reads the pipe. Fails only after the agent process was dropped.
            let _ = queue.blocking_send((stream, chunk.to_vec()));
        };
        let running = spawn_blocking(move || guard.run_heard(&job, Arc::new(tap)));
        AgentProcess { output, running, ended: None, switch }
    }

    /// Turned off, it kills the agent and everything that the agent started.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The next chunk, and after the last one how the program ended. Cancel safe.
    pub async fn next(&mut self) -> AgentStep {
        loop {
            if self.ended.is_some() {
                // A process that cannot be killed may hold the stream open: its end is not waited for.
                if let Ok((stream, chunk)) = self.output.try_recv() {
                    return AgentStep::Printed(stream, chunk);
                }
                if let Some(ended) = self.ended.take() {
                    return AgentStep::Ended(ended);
                }
            }
            select! {
                Some((stream, chunk)) = self.output.recv() => return AgentStep::Printed(stream, chunk),
                ended = &mut self.running => {
                    self.ended = Some(ended.unwrap_or_else(|error| Err(io::Error::other(error))));
                }
            }
        }
    }
}

/// Beginning and end of a stream, as text.
pub(super) fn text(output: &Captured) -> String {
    let (head, tail) = output.parts();
    format!("{}\n{}", String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail))
}

pub(super) fn last_line(output: &Captured) -> Option<String> {
    text(output).lines().rev().map(in_one_line).find(|line| !line.is_empty())
}
