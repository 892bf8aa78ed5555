//! What is known of the waves of a run and of the attempts in them.

use std::collections::VecDeque;

use mdts_core::engine::TaskRun;
use mdts_core::runner::Assignment;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

use super::folder::{Kept, RunFolder};
use super::wave::{Element, Ticket, Wave};
use crate::{JobId, JobRecord, Result};

/// How far the submission of a wave is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was not submitted.
    New,
    /// It may have been.
    Uncertain,
    /// Slurm has it, held.
    Held,
    /// Slurm has it, and nothing is left to do.
    Released,
    /// Slurm does not want it, or nobody wants it any more.
    Dropped,
}

/// A wave and how it stands.
#[derive(Debug)]
pub(super) struct WaveState {
    pub(super) wave: Wave,
    pub(super) stage: Stage,
    pub(super) job: Option<u32>,
    /// How often Slurm had been out of reach when its jobs were released.
    pub(super) outages: u32,
    pub(super) elements: Vec<Watch>,
}

/// How the job of an element stands.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// As Slurm said the last time that it knew of it.
    pub(super) record: Option<JobRecord>,
    /// Since when Slurm does not know of it.
    pub(super) missing_since: Option<Instant>,
    /// Since when it is over.
    pub(super) over_since: Option<Instant>,
    /// Since when it waits without need.
    pub(super) waits_since: Option<Instant>,
    /// Since when a command in it is known to be killed, perhaps by Slurm.
    pub(super) killed_since: Option<Instant>,
    /// Since when it runs without having begun anything, or all that it runs has ended and it has not.
    pub(super) odd_since: Option<Instant>,
    /// Whether it has run.
    pub(super) has_run: bool,
    /// Whether it may run on any node.
    pub(super) is_free: bool,
    /// Whether it is being cancelled.
    pub(super) is_ending: bool,
}

impl Watch {
    pub(super) fn is_over(&self) -> bool {
        self.over_since.is_some()
    }
}

/// Where an attempt is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) wave: usize,
    pub(super) element: usize,
    pub(super) ticket: Ticket,
}

/// An attempt of whose end the runner wants to hear.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) assignment: Assignment,
    pub(super) is_started: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) waves: Vec<WaveState>,
    /// Index of every wave by its number.
    numbers: FxHashMap<u32, usize>,
    /// The latest ticket of every attempt.
    pub(super) seats: FxHashMap<TaskRun, Seat>,
    pub(super) wanted: FxHashMap<TaskRun, Wanted>,
    /// Of whose end there is word.
    pub(super) finished: FxHashSet<Ticket>,
    /// Waves to be submitted, in this order.
    pub(super) queue: VecDeque<usize>,
    next_wave: u32,
}

impl Book {
    /// What an earlier process has left.
    pub(super) fn read(folder: &RunFolder) -> Result<Self> {
        let mut book = Self { next_wave: folder.next_wave()?, ..Self::default() };
        for Kept { wave, job, is_released } in folder.waves()? {
            let stage = match (job, is_released) {
                (None, _) => Stage::Uncertain,
                (Some(_), false) => Stage::Held,
                (Some(_), true) => Stage::Released,
            };
            let at = book.add(wave, stage, job);
            if stage != Stage::Released {
                book.queue.push_back(at);
            }
        }
        book.finished.extend(folder.ended()?);
        Ok(book)
    }

    /// The number of the next wave.
    pub(super) fn new_number(&mut self) -> u32 {
        self.next_wave += 1;
        self.next_wave - 1
    }

    pub(super) fn add(&mut self, wave: Wave, stage: Stage, job: Option<u32>) -> usize {
        let at = self.waves.len();
        for (element, of) in wave.elements.iter().enumerate() {
            for ticket in &of.tickets {
                self.seats.insert(ticket.run(), Seat { wave: at, element, ticket: *ticket });
            }
        }
        self.numbers.insert(wave.number, at);
        let elements = wave.elements.iter().map(|_| Watch::default()).collect();
        self.waves.push(WaveState { wave, stage, job, outages: 0, elements });
        at
    }

    /// The ticket that an attempt gets next.
    pub(super) fn ticket(&self, run: TaskRun) -> Ticket {
        match self.seats.get(&run) {
            None => Ticket::first(run),
            Some(seat) => Ticket { again: seat.ticket.again + 1, ..seat.ticket },
        }
    }

    pub(super) fn wave_at(&self, number: u32) -> Option<usize> {
        self.numbers.get(&number).copied()
    }

    pub(super) fn element(&self, wave: usize, element: usize) -> &Element {
        &self.waves[wave].wave.elements[element]
    }

    pub(super) fn watch(&mut self, wave: usize, element: usize) -> &mut Watch {
        &mut self.waves[wave].elements[element]
    }

    /// The job of an element, once Slurm has it.
    pub(super) fn job(&self, wave: usize, element: usize) -> Option<JobId> {
        let of = &self.waves[wave];
        let job = of.job?;
        Some(if of.wave.elements.len() > 1 { JobId::element(job, element as u32) } else { JobId::whole(job) })
    }

    /// The tickets of an element whose ends are wanted and not known.
    pub(super) fn open(&self, wave: usize, element: usize) -> Vec<Ticket> {
        let is_open = |ticket: &&Ticket| {
            let is_current = self.seats.get(&ticket.run()).is_some_and(|seat| seat.ticket == **ticket);
            is_current && self.wanted.contains_key(&ticket.run()) && !self.finished.contains(*ticket)
        };
        self.element(wave, element).tickets.iter().filter(is_open).copied().collect()
    }

    /// The elements that have attempts whose ends are wanted, each once.
    pub(super) fn open_elements(&self) -> Vec<(usize, usize)> {
        let seats = self.wanted.keys().filter_map(|run| self.seats.get(run));
        let mut elements: Vec<(usize, usize)> = seats.map(|seat| (seat.wave, seat.element)).collect();
        elements.sort_unstable();
        elements.dedup();
        elements
    }
}
