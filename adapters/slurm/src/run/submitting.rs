//! From attempts to jobs of Slurm: waves are written down, submitted, given their nodes and released.
//!
//! A wave is on disk before it is submitted, and its number is in the comment of its jobs. When it is not known whether Slurm
//! has a wave, its jobs are looked for by that comment before it is submitted again.

use std::sync::Arc;
use std::time::Duration;

use mdts_core::runner::{Assignment, Outcome, Report};
use mdts_dag::JobGraph;

use super::book::{Stage, Wanted};
use super::conductor::Conductor;
use super::script;
use super::wave::{Element, Group, Ticket, Wave, groups};
use crate::client::Array;
use crate::{Change, Error, JobId, JobRecord, Placement, Result, Selection, Submission};

/// Most elements of an array where Slurm does not tell.
const MOST_ELEMENTS: usize = 1000;

/// Time until what was submitted by a process that is dead should be seen in the queue.
const SETTLE: Duration = Duration::from_secs(1);

impl Conductor {
    /// Begins attempts: those that were submitted before are followed, the others become waves.
    pub(super) fn start(&mut self, batch: Vec<Assignment>) -> Result<()> {
        let mut fresh = Vec::new();
        for assignment in batch {
            if self.is_submitted(&assignment)? {
                let wanted = Wanted { assignment, is_started: false };
                self.book.wanted.insert(wanted.assignment.run, wanted);
            } else {
                fresh.push(assignment);
            }
        }
        if fresh.is_empty() {
            return self.settle();
        }
        let most = self.most_elements();
        for group in groups(fresh, &self.options, most) {
            self.add_wave(group)?;
        }
        self.hurry();
        self.settle()
    }

    /// Whether an attempt has been submitted, to the node that it is to run on, so that it may still run; if not, what was
    /// submitted will not run it.
    fn is_submitted(&mut self, assignment: &Assignment) -> Result<bool> {
        let Some(&seat) = self.book.seats.get(&assignment.run) else { return Ok(false) };
        if self.book.finished.contains(&seat.ticket) {
            return Ok(true);
        }
        let is_elsewhere = self.book.element(seat.wave, seat.element).node != assignment.node.get();
        let is_dead = self.book.waves[seat.wave].stage == Stage::Dropped
            || self.book.watch(seat.wave, seat.element).is_over();
        if !is_elsewhere && !is_dead {
            return Ok(true);
        }
        if !self.folder.claim(seat.ticket)? {
            return Ok(true); // it runs, or has run
        }
        self.end_if_unused(seat.wave, seat.element);
        Ok(false)
    }

    /// Writes down a wave, to be submitted as soon as possible.
    fn add_wave(&mut self, group: Group) -> Result<()> {
        let number = self.book.new_number();
        let mut elements = Vec::new();
        let mut scripts = Vec::new();
        for assignments in &group.elements {
            let tickets: Vec<Ticket> = assignments.iter().map(|of| self.book.ticket(of.run)).collect();
            match self.script(&tickets, assignments, &[]) {
                Ok(text) => {
                    let node = assignments.first().map_or(0, |first| first.node.get());
                    elements.push(Element { node, tickets, ..Element::default() });
                    scripts.push(text);
                }
                Err(error) => self.refuse(assignments, &error.to_string()),
            }
        }
        if elements.is_empty() {
            return Ok(());
        }
        let wave = Wave { number, name: group.name, shape: group.shape, elements };
        self.folder.write_wave(&wave, &scripts)?;
        let at = self.book.add(wave, Stage::New, None);
        for assignment in group.elements.into_iter().flatten() {
            self.book.wanted.insert(assignment.run, Wanted { assignment, is_started: false });
        }
        self.book.queue.push_back(at);
        self.summarize(|summary| summary.waves += 1);
        Ok(())
    }

    pub(super) fn script(
        &mut self,
        tickets: &[Ticket],
        assignments: &[Assignment],
        parents: &[Ticket],
    ) -> Result<String> {
        let Some(first) = assignments.first() else { return Ok(String::new()) };
        let produced = self.produced_by(&first.job);
        let tasks: Vec<(Ticket, &Assignment)> = tickets.iter().copied().zip(assignments).collect();
        script::element(&tasks, parents, &produced, &self.options)
    }

    /// Which files the tasks of a job write. O(tasks + files) for another job than before.
    fn produced_by(&mut self, job: &Arc<JobGraph>) -> Arc<[bool]> {
        if let Some((known, files)) = &self.produced
            && Arc::ptr_eq(known, job)
        {
            return files.clone();
        }
        let mut files = vec![false; job.files().len()];
        job.tasks().flat_map(|task| &task.outputs).for_each(|file| files[file.index()] = true);
        let files: Arc<[bool]> = files.into();
        self.produced = Some((job.clone(), files.clone()));
        files
    }

    /// Most elements of an array.
    pub(super) fn most_elements(&self) -> usize {
        self.most_elements.unwrap_or(MOST_ELEMENTS)
    }

    /// Attempts that cannot even be written down.
    fn refuse(&self, assignments: &[Assignment], reason: &str) {
        for assignment in assignments {
            self.tell(Report::Ended(assignment.run, Outcome::Final(reason.to_owned())));
        }
    }

    /// Submits what waits for it, as far as Slurm takes it.
    ///
    /// # Errors
    /// An outage; what was not done stays to be done.
    pub(super) async fn submit_waves(&mut self) -> Result<()> {
        while let Some(&at) = self.book.queue.front() {
            match self.submit(at).await {
                Ok(()) => {}
                Err(Error::Refused { what, message }) if is_full(&message) => {
                    // As good as an outage: it passes when jobs end, and is tried again later and later.
                    return Err(Error::Unreachable { what, message });
                }
                Err(Error::Refused { what, message }) => self.drop_wave(at, &format!("{what}: {message}")),
                Err(error) => return Err(error),
            }
            self.book.queue.pop_front();
            self.hurry();
        }
        if let Some(reply) = self.graph_reply.take() {
            reply.send(self.graph_outcome()).ok(); // whoever asked may have given up
        }
        Ok(())
    }

    /// Brings a wave as far as it goes.
    async fn submit(&mut self, at: usize) -> Result<()> {
        if self.book.waves[at].stage == Stage::Uncertain && !self.find(at).await? {
            self.book.waves[at].stage = Stage::New;
        }
        if self.book.waves[at].stage == Stage::New {
            self.hand_over(at).await?;
        }
        if self.book.waves[at].stage == Stage::Held {
            self.release(at).await?;
        }
        Ok(())
    }

    /// Looks for the jobs of a wave by their comment, once no program of an earlier process may submit it any more.
    async fn find(&mut self, at: usize) -> Result<bool> {
        let number = self.book.waves[at].wave.number;
        if self.folder.is_being_submitted(number) {
            let message = "an earlier process is dead, and its sbatch has not ended".to_owned();
            return Err(Error::Unreachable { what: "sbatch".to_owned(), message });
        }
        for pause in [Duration::ZERO, SETTLE] {
            tokio::time::sleep(pause).await;
            let jobs = self.slurm.jobs(&Selection::Own).await?;
            let mut own = jobs.iter().filter(|job| self.folder.wave_of(&job.comment) == Some(number));
            if let Some(job) = own.next() {
                self.folder.write_job(number, job.id.job)?;
                let wave = &mut self.book.waves[at];
                (wave.job, wave.stage) = (Some(job.id.job), Stage::Held);
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn hand_over(&mut self, at: usize) -> Result<()> {
        if self.most_elements.is_none() {
            let most =
                self.slurm.config().await?.get("MaxArraySize").and_then(|most| most.parse::<usize>().ok());
            self.most_elements = Some(most.map_or(MOST_ELEMENTS, |most| most.saturating_sub(1).max(1)));
        }
        let submission = self.submission(at)?;
        // From here on it may be submitted, whatever becomes of this process.
        self.book.waves[at].stage = Stage::Uncertain;
        self.summarize(|summary| summary.submissions += 1);
        let job = match self.slurm.submit(&submission).await {
            Ok(job) => job,
            Err(error) => {
                if !error.is_outage() {
                    self.book.waves[at].stage = Stage::New;
                }
                return Err(error);
            }
        };
        let wave = &mut self.book.waves[at];
        (wave.job, wave.stage) = (Some(job), Stage::Held);
        let number = wave.wave.number;
        tracing::debug!(wave = number, job, elements = wave.wave.elements.len(), "submitted");
        self.folder.write_job(number, job)?;
        if !submission.held {
            self.folder.write_released(number)?;
            self.book.waves[at].stage = Stage::Released;
        }
        Ok(())
    }

    /// Whether the elements of a wave differ in more than their number.
    fn is_varied(&self, at: usize) -> bool {
        let elements = &self.book.waves[at].wave.elements;
        elements.iter().any(|other| {
            let first = &elements[0];
            (other.node != first.node && self.options.placement != Placement::None)
                || other.after != first.after
                || other.nice != first.nice
        })
    }

    fn submission(&self, at: usize) -> Result<Submission> {
        let wave = &self.book.waves[at].wave;
        let folder = self.folder.wave_folder(wave.number);
        let is_array = wave.elements.len() > 1;
        let is_varied = self.is_varied(at);
        let first = &wave.elements[0];
        let dependency = self.dependency(first);
        let node = &self.cluster.node(first.node.into()).name;
        let is_pinned = self.options.placement != Placement::None && !is_varied;
        Ok(Submission {
            script: script::batch(&self.folder, wave.number)?,
            spool: Some(self.folder.spool(wave.number)),
            name: wave.name.clone(),
            comment: self.folder.tag(wave.number),
            directory: self.options.working_directory.clone(),
            output: Some(output(&folder, is_array)),
            array: is_array
                .then_some(Array { count: wave.elements.len() as u32, throttle: self.options.throttle }),
            held: is_varied,
            cpus: Some(wave.shape.cpus),
            memory_mib: wave.shape.memory_mib,
            gres: wave.shape.gres.clone(),
            minutes: wave.shape.minutes,
            partition: self.options.partition.clone(),
            node: is_pinned.then(|| node.clone()),
            dependency: (!is_varied && !dependency.is_empty()).then_some(dependency),
            nice: (!is_varied && first.nice != 0).then_some(first.nice),
            options: self.options.submit_options.clone(),
            ..Submission::default()
        })
    }

    /// What an element waits for, in Slurm's syntax.
    fn dependency(&self, element: &Element) -> String {
        let jobs = element
            .after
            .iter()
            .filter_map(|(wave, element)| self.book.job(self.book.wave_at(*wave)?, *element as usize));
        let jobs: Vec<String> = jobs.map(|job| format!(":{job}")).collect();
        if jobs.is_empty() { String::new() } else { format!("afterok{}", jobs.concat()) }
    }

    /// Gives the elements of a held wave their nodes and what they wait for, and lets them go.
    async fn release(&mut self, at: usize) -> Result<()> {
        let wave = &self.book.waves[at].wave;
        let (number, job) = (wave.number, self.book.waves[at].job);
        let Some(job) = job else { return Ok(()) };
        let mut changes = Vec::new();
        if self.is_varied(at) {
            for (element, of) in wave.elements.iter().enumerate() {
                let Some(id) = self.book.job(at, element) else { continue };
                let node = &self.cluster.node(of.node.into()).name;
                let dependency = Some(self.dependency(of)).filter(|dependency| !dependency.is_empty());
                changes.push(Change {
                    nodes: (self.options.placement != Placement::None).then(|| node.clone()),
                    dependency,
                    ..Change::of(id)
                });
            }
        }
        changes.push(Change { held: Some(false), ..Change::of(JobId::whole(job)) });
        // To release a job is to give it a new priority.
        for (element, of) in wave.elements.iter().enumerate().filter(|(_, of)| of.nice != 0) {
            let id = self.book.job(at, element);
            changes.push(Change { job: id, nice: Some(of.nice), ..Change::default() });
        }
        let refused = self.slurm.update(&changes).await?;
        for (change, reason) in refused {
            self.take_refusal(at, change, &reason);
        }
        self.folder.write_released(number)?;
        let wave = &mut self.book.waves[at];
        (wave.stage, wave.outages) = (Stage::Released, self.outages);
        Ok(())
    }

    /// Whether a job is held because the controller has forgotten that it was released, as one that was killed does; not
    /// because somebody holds it.
    pub(super) fn is_release_forgotten(&self, at: usize, job: &JobRecord) -> bool {
        let wave = &self.book.waves[at];
        let element = job.id.element.unwrap_or_default() as usize;
        if wave.stage != Stage::Released || job.reason != "JobHeldUser" || !self.is_varied(at) {
            return false;
        }
        let (Some(of), Some(watch)) = (wave.wave.elements.get(element), wave.elements.get(element)) else {
            return false;
        };
        let is_pinned = self.options.placement != Placement::None && !watch.is_free;
        let node = &self.cluster.node(of.node.into()).name;
        (is_pinned && job.required_nodes != *node) || wave.outages < self.outages
    }

    /// Slurm does not want to give an element what it should have.
    fn take_refusal(&mut self, at: usize, element: usize, reason: &str) {
        // It has begun before, or ended.
        const TOO_LATE: [&str; 3] =
            ["no longer pending", "already completing or completed", "Job/step already"];
        if element >= self.book.waves[at].elements.len() || TOO_LATE.iter().any(|late| reason.contains(late))
        {
            return;
        }
        self.book.watch(at, element).is_free = true;
        let tasks: Vec<Ticket> = self.book.element(at, element).tickets.clone();
        for ticket in tasks {
            if let Some(wanted) = self.book.wanted.get(&ticket.run()) {
                let name = &wanted.assignment.task().name;
                let node = &self.cluster.node(wanted.assignment.node).name;
                let text = format!("'{name}' may run anywhere, not on {node} alone: {reason}");
                tracing::warn!("{text}");
                self.summarize(|summary| summary.moved.push(text));
            }
        }
    }

    /// Slurm does not want a wave.
    fn drop_wave(&mut self, at: usize, reason: &str) {
        self.book.waves[at].stage = Stage::Dropped;
        for element in 0..self.book.waves[at].elements.len() {
            for ticket in self.book.open(at, element) {
                self.book.wanted.remove(&ticket.run());
                self.tell(Report::Ended(ticket.run(), Outcome::Failure(reason.to_owned())));
            }
        }
        tracing::warn!("{reason}");
    }
}

/// Whether Slurm takes no more jobs for the moment.
fn is_full(message: &str) -> bool {
    const FULL: [&str; 4] =
        ["job submit limit", "temporarily unable to accept job", "MaxSubmitJob", "MaxJobCount"];
    FULL.iter().any(|word| message.contains(word))
}

/// Where the batch script's own output goes.
fn output(folder: &std::path::Path, is_array: bool) -> std::path::PathBuf {
    let file = if is_array { "%a.log" } else { "0.log" };
    match folder.to_str() {
        Some(folder) => format!("{}/{file}", folder.replace('%', "%%")).into(),
        None => folder.join(file),
    }
}
