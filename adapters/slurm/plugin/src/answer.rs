//! What the sidecar answers, and what becomes of the job.

use crate::escape::unescape;
use crate::job::Job;
use crate::layout::{ADMIN_COMMENT, NICE, NICE_OFFSET, PARTITION, PREFER, REQ_NODES};
use crate::slurm::Allocator;

/// By this the sidecar knows the job again, and moves it should it have to wait after all.
const MARK: &str = "mdts:placed";
/// Priorities are never lowered further.
const MOST_NICE: u32 = 1_000_000;

/// Changes the job as the answer says; why it is refused, if it is.
pub(crate) fn apply(answer: &str, job: &mut Job<'_>, allocator: Allocator) -> Result<(), String> {
    for (key, value) in answer.lines().filter_map(|line| line.split_once('=')) {
        let value = unescape(value);
        match key {
            "reject" => return Err(format!("mdts: {value}")),
            "nodelist" => {
                job.set_text(REQ_NODES, &value, allocator);
                if !job.has_text(ADMIN_COMMENT) {
                    job.set_text(ADMIN_COMMENT, MARK, allocator);
                }
            }
            "prefer" => job.set_text(PREFER, &value, allocator),
            "partition" => job.set_text(PARTITION, &value, allocator),
            "nice" => {
                if let Ok(nice) = value.parse::<u32>() {
                    job.set_number(NICE, NICE_OFFSET + nice.min(MOST_NICE));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{allocator, job, memory};

    #[test]
    fn answers_change_the_job() {
        let mut memory = memory();
        let mut job = job(&mut memory);
        let answer = "nodelist=a%2Cb\nnice=7\npartition=p\nprefer=fast\nnote=x\nnonsense\nlater=1";
        assert_eq!(apply(answer, &mut job, allocator()), Ok(()));
        let texts = [REQ_NODES, PARTITION, PREFER, ADMIN_COMMENT].map(|field| job.text(field).unwrap());
        assert_eq!(texts, ["a,b", "p", "fast", MARK]);
        assert_eq!(job.number(NICE), Some(0x8000_0007));
        assert_eq!(apply("reject=no%0Away", &mut job, allocator()), Err("mdts: no\nway".into()));
        assert_eq!(apply("nice=-1\n\u{0}=", &mut job, allocator()), Ok(()));
    }
}
