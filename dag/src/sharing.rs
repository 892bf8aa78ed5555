//! Which files a dependency carries: those that the parent writes and the child reads.

use crate::{FileId, Task, TaskId};

/// The tasks that write each file.
pub(crate) struct Writers {
    start: Vec<usize>,
    tasks: Vec<TaskId>,
}

impl Writers {
    /// O(files + outputs of all tasks).
    pub(crate) fn new<'a>(files: usize, tasks: impl Iterator<Item = &'a Task> + Clone) -> Self {
        let mut start = vec![0; files + 1];
        for_each_write(files, tasks.clone(), |_, file| start[file.index() + 1] += 1);
        for i in 0..files {
            start[i + 1] += start[i];
        }
        let mut next = start.clone();
        let mut writers = vec![TaskId::default(); start[files]];
        for_each_write(files, tasks, |task, file| {
            writers[next[file.index()]] = task;
            next[file.index()] += 1;
        });
        Self { start, tasks: writers }
    }

    /// The tasks that write `file`, ascending, each once.
    pub(crate) fn of(&self, file: FileId) -> &[TaskId] {
        &self.tasks[self.start[file.index()]..self.start[file.index() + 1]]
    }
}

/// Reports every task with every file that it writes, each pair once.
fn for_each_write<'a>(
    files: usize,
    tasks: impl Iterator<Item = &'a Task>,
    mut report: impl FnMut(TaskId, FileId),
) {
    let mut last_writer = vec![0; files]; // 1 + its id
    for (i, task) in tasks.enumerate() {
        let mark = i as u32 + 1;
        for &file in &task.outputs {
            if std::mem::replace(&mut last_writer[file.index()], mark) != mark {
                report(TaskId::new(i), file);
            }
        }
    }
}

/// Finds the files on the dependencies of one child after the other.
pub(crate) struct SharedFiles {
    writers: Writers,
    /// Per task: 1 + the last child that it was a parent of, and its position among that child's parents.
    position: Vec<(u32, u32)>,
    /// Per file: 1 + the last child that was seen to read it.
    reader: Vec<u32>,
}

impl SharedFiles {
    pub(crate) fn new<'a>(files: usize, tasks: impl ExactSizeIterator<Item = &'a Task> + Clone) -> Self {
        let position = vec![(0, 0); tasks.len()];
        Self { writers: Writers::new(files, tasks), position, reader: vec![0; files] }
    }

    /// Reports (position among `parents`, file) for every file that a parent writes and the child reads, each pair
    /// once, in the order of the child's inputs. To be called once per child.
    ///
    /// O(parents + inputs) where files have one writer. A file of w writers costs min(w, parents * log w).
    pub(crate) fn of_child(
        &mut self,
        child: TaskId,
        inputs: &[FileId],
        parents: &[TaskId],
        mut report: impl FnMut(usize, FileId),
    ) {
        let mark = child.get() + 1;
        for (at, parent) in (0..).zip(parents) {
            self.position[parent.index()] = (mark, at);
        }
        for &file in inputs {
            if std::mem::replace(&mut self.reader[file.index()], mark) == mark {
                continue;
            }
            let writers = self.writers.of(file);
            if writers.len() > parents.len() {
                let writing = parents.iter().enumerate().filter(|(_, p)| writers.binary_search(p).is_ok());
                writing.for_each(|(at, _)| report(at, file));
                continue;
            }
            for writer in writers {
                let (child, at) = self.position[writer.index()];
                if child == mark {
                    report(at as usize, file);
                }
            }
        }
    }
}
