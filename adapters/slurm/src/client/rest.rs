//! Slurm through its REST daemon, slurmrestd, over a Unix socket or TCP with a token.
//!
//! Version 0.0.38 of its interface, which Slurm 21.08 to 23.02 have. What it cannot do: it does not tell the configuration, nor
//! take options of `sbatch` that it has no key for. Changes and cancellations are one call per job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::commands::is_cleared;
use super::{
    Change, JobId, JobRecord, JobState, NodeRecord, PartitionRecord, Selection, Slurm, Submission, parse,
};
use crate::{Error, Result};

/// Where slurmrestd listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestAddress {
    /// A socket, whose owner is trusted (`rest_auth/local`).
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

/// How slurmrestd is called.
#[derive(Clone)]
pub struct RestOptions {
    /// Where it listens.
    pub address: RestAddress,
    /// The user, and the token that `scontrol token` gives (without `SLURM_JWT=`); needed over TCP.
    pub token: Option<(String, String)>,
    /// Whose jobs are [`Selection::Own`]: the name of the user.
    pub user: String,
    /// How long a call may take.
    pub limit: Duration,
}

impl std::fmt::Debug for RestOptions {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestOptions")
            .field("address", &self.address)
            .field("user", &self.user)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Slurm through slurmrestd. Needs a tokio runtime with timers and input/output.
#[derive(Debug, Clone)]
pub struct Rest {
    options: RestOptions,
}

const PREFIX: &str = "/slurm/v0.0.38";
/// Most bytes of an answer.
const MOST: usize = 256 << 20;
/// Error numbers of Slurm that say that a job is not there, or has ended.
const GONE: [u64; 2] = [2017, 2021];

impl Rest {
    /// With these options.
    pub fn new(options: RestOptions) -> Self {
        Self { options }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let what = format!("slurmrestd: {method} {path}");
        let limit = self.options.limit;
        let answer = tokio::time::timeout(limit, self.exchange(method, path, body, &what)).await;
        answer.map_err(|_| Error::Timeout { what, limit })?
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&Value>, what: &str) -> Result<Value> {
        let unreachable = |error: &dyn std::fmt::Display| Error::Unreachable {
            what: what.to_owned(),
            message: error.to_string(),
        };
        let strange = |error: &dyn std::fmt::Display| Error::Strange {
            what: what.to_owned(),
            message: error.to_string(),
        };
        let text = body.map(ToString::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(format!("{PREFIX}{path}"));
        request = request.header(HOST, "slurm").header(CONTENT_TYPE, "application/json");
        if let Some((user, token)) = &self.options.token {
            request = request.header("X-SLURM-USER-NAME", user).header("X-SLURM-USER-TOKEN", token);
        }
        let request = request.body(Full::new(Bytes::from(text))).map_err(|error| strange(&error))?;
        let response = match &self.options.address {
            RestAddress::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| unreachable(&error))?;
                send(stream, request).await
            }
            RestAddress::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
                send(stream, request).await
            }
        };
        let (status, bytes) = response.map_err(|error| unreachable(&error))?;
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            let message = "it does not know the user by this token; scontrol token gives one".to_owned();
            return Err(Error::Refused { what: what.to_owned(), message });
        }
        serde_json::from_slice(&bytes).map_err(|error| strange(&format!("{status}: {error}")))
    }

    /// An answer that must not speak of errors.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let what = format!("slurmrestd: {method} {path}");
        let answer = self.call(method, path, body).await?;
        match complaint(&answer) {
            None => Ok(answer),
            Some((_, message)) if super::commands::is_outage(&message) => {
                Err(Error::Unreachable { what, message })
            }
            Some((_, message)) => Err(Error::Refused { what, message }),
        }
    }

    async fn change(&self, change: &Change) -> Result<Option<String>> {
        let Some(job) = change.job else { return Ok(None) };
        let mut body = serde_json::Map::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(key.to_owned(), value);
            }
        };
        set("nodelist", change.nodes.clone().map(Value::from));
        set("constraints", change.features.clone().map(Value::from));
        set("partition", change.partition.clone().map(Value::from));
        set("dependency", change.dependency.clone().map(Value::from));
        set("comment", change.comment.clone().map(Value::from));
        set("admin_comment", change.admin_comment.clone().map(Value::from));
        set("nice", change.nice.map(|nice| nice.to_string().into()));
        set("priority", change.priority.map(Value::from));
        set("time_limit", change.minutes.map(Value::from));
        let mut refused = None;
        if !body.is_empty() {
            refused = self.tell(job, Value::Object(body)).await?;
        }
        if let Some(held) = change.held {
            refused = refused.or(self.tell(job, json!({ "hold": held })).await?);
        }
        Ok(refused)
    }

    async fn tell(&self, job: JobId, body: Value) -> Result<Option<String>> {
        let answer = self.call(Method::POST, &format!("/job/{job}"), Some(&body)).await?;
        Ok(complaint(&answer).map(|(_, message)| message))
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> hyper::Result<(StatusCode, Bytes)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = http_body_util::Limited::new(response.into_body(), MOST).collect().await;
    connection.abort();
    Ok((status, body.map(http_body_util::Collected::to_bytes).unwrap_or_default()))
}

/// The first error in an answer; those without a number are said of every change of an element of an array.
fn complaint(answer: &Value) -> Option<(u64, String)> {
    let number = |error: &Value| {
        ["error_number", "error_code"].iter().find_map(|key| error[*key].as_u64()).unwrap_or_default()
    };
    let error = answer["errors"].as_array()?.iter().find(|error| number(error) != 0)?;
    let texts = ["error", "description"].iter().filter_map(|key| error[*key].as_str());
    Some((number(error), texts.collect::<Vec<_>>().join("; ")))
}

#[async_trait]
impl Slurm for Rest {
    async fn submit(&self, submission: &Submission) -> Result<u32> {
        let body = json!({ "script": submission.script, "job": job(submission)? });
        let answer = self.call(Method::POST, "/job/submit", Some(&body)).await?;
        // That a job is held is told as an error.
        if let Some(job) =
            answer["job_id"].as_u64().and_then(|job| u32::try_from(job).ok()).filter(|job| *job > 0)
        {
            return Ok(job);
        }
        let what = "slurmrestd: POST /job/submit".to_owned();
        let (_, message) = complaint(&answer).unwrap_or_else(|| (0, answer.to_string()));
        Err(if super::commands::is_outage(&message) {
            Error::Unreachable { what, message }
        } else {
            Error::Refused { what, message }
        })
    }

    async fn jobs(&self, which: &Selection) -> Result<Vec<JobRecord>> {
        let answer = self.ask(Method::GET, "/jobs", None).await?;
        let records = answer["jobs"].as_array().into_iter().flatten().flat_map(records);
        let is_asked_for = |job: &JobRecord| match which {
            Selection::All => true,
            Selection::Own => job.user == self.options.user,
            Selection::Jobs(jobs) => jobs.contains(&job.id) || jobs.contains(&JobId::whole(job.id.job)),
        };
        Ok(records.filter(is_asked_for).collect())
    }

    async fn update(&self, changes: &[Change]) -> Result<Vec<(usize, String)>> {
        let mut refused = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            refused.extend(self.change(change).await?.map(|message| (at, message)));
        }
        Ok(refused)
    }

    async fn cancel(&self, jobs: &[JobId]) -> Result<()> {
        for job in jobs {
            let path = format!("/job/{job}");
            let answer = self.call(Method::DELETE, &path, None).await?;
            match complaint(&answer) {
                Some((number, message)) if !GONE.contains(&number) => {
                    return Err(Error::Refused { what: format!("slurmrestd: DELETE {path}"), message });
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>> {
        let answer = self.ask(Method::GET, "/nodes", None).await?;
        Ok(answer["nodes"].as_array().into_iter().flatten().map(node).collect())
    }

    async fn partitions(&self) -> Result<Vec<PartitionRecord>> {
        let answer = self.ask(Method::GET, "/partitions", None).await?;
        Ok(answer["partitions"].as_array().into_iter().flatten().map(partition).collect())
    }

    /// Empty: it is not told.
    async fn config(&self) -> Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }
}

/// Options of sbatch that slurmrestd has a key for.
const OPTIONS: [(&str, &str); 8] = [
    ("--account", "account"),
    ("--qos", "qos"),
    ("--reservation", "reservation"),
    ("--licenses", "licenses"),
    ("--mail-user", "mail_user"),
    ("--wckey", "wckey"),
    ("--signal", "signal"),
    ("--begin", "begin_time"),
];

fn job(of: &Submission) -> Result<Value> {
    let variables = std::env::vars().filter(|(name, _)| !is_cleared(&name.into()));
    let environment: serde_json::Map<String, Value> =
        variables.map(|(name, value)| (name, value.into())).collect();
    let path = |path: &PathBuf| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Error::Usage(format!("{}: slurmrestd only takes paths that are UTF-8", path.display()))
        })
    };
    let mut job = json!({
        "name": of.name, "comment": of.comment, "current_working_directory": path(&of.directory)?, "environment": environment,
        "hold": of.held, "nodes": 1, "tasks": 1, "kill_on_invalid_dependency": true,
    });
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            job[key] = value;
        }
    };
    set("standard_output", of.output.as_ref().map(path).transpose()?.map(Value::from));
    let range = |array: super::Array| {
        let throttle = array.throttle.map_or_else(String::new, |most| format!("%{most}"));
        format!("0-{}{throttle}", array.count.saturating_sub(1))
    };
    set("array", of.array.map(|array| range(array).into()));
    set("cpus_per_task", of.cpus.map(Value::from));
    set("memory_per_node", of.memory_mib.map(Value::from));
    let gres: Vec<String> = of.gres.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    set("gres", (!gres.is_empty()).then(|| gres.join(",").into()));
    set("time_limit", of.minutes.map(Value::from));
    set("nice", of.nice.map(|nice| nice.to_string().into()));
    set("partition", of.partition.clone().map(Value::from));
    set("nodelist", of.node.clone().map(Value::from));
    set("constraints", of.features.clone().map(Value::from));
    set("prefer", of.prefer.clone().map(Value::from));
    set("dependency", of.dependency.clone().map(Value::from));
    for option in &of.options {
        let known = option.split_once('=').and_then(|(name, value)| {
            let (_, key) = OPTIONS.iter().find(|(known, _)| *known == name)?;
            Some((*key, value))
        });
        let Some((key, value)) = known else {
            return Err(Error::Usage(format!(
                "slurmrestd has no key for {option}; it has keys for {}",
                OPTIONS.map(|(name, _)| format!("{name}=...")).join(", ")
            )));
        };
        set(key, Some(value.into()));
    }
    Ok(job)
}

fn text(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_default().to_owned()
}

/// A time; 0 says that there is none.
fn time(of: &Value, key: &str) -> Option<u64> {
    of[key].as_u64().filter(|time| *time > 0)
}

/// A job; the elements of an array that wait together are told as one.
fn records(of: &Value) -> Vec<JobRecord> {
    let job_number = of["job_id"].as_u64().unwrap_or_default() as u32;
    let array = of["array_job_id"].as_u64().filter(|array| *array > 0).map(|array| array as u32);
    let ids: Vec<JobId> = match (array, of["array_task_id"].as_u64()) {
        (None, _) => vec![JobId::whole(job_number)],
        (Some(array), Some(element)) => vec![JobId::element(array, element as u32)],
        (Some(array), None) => parse::elements(&text(of, "array_task_string"))
            .map(|element| JobId::element(array, element))
            .collect(),
    };
    let status = of["exit_code"].as_i64().unwrap_or_default() as i32;
    let (memory_mib, is_memory_per_cpu) = match of["memory_per_cpu"].as_u64() {
        Some(mib) => (mib, true),
        None => (of["memory_per_node"].as_u64().unwrap_or_default(), false),
    };
    let reason = text(of, "state_reason");
    let record = |id| JobRecord {
        name: text(of, "name"),
        user: text(of, "user_name"),
        partition: text(of, "partition"),
        state: JobState::of(of["job_state"].as_str().unwrap_or_default()),
        reason: if reason == "None" { String::new() } else { reason.clone() },
        comment: text(of, "comment"),
        command: text(of, "command"),
        directory: text(of, "current_working_directory"),
        nodes: text(of, "nodes"),
        required_nodes: text(of, "required_nodes"),
        features: text(of, "features"),
        dependency: text(of, "dependency"),
        exit: (status >> 8 & 0xff, status & 0x7f),
        cpus: of["cpus"].as_u64().unwrap_or_default() as u32,
        memory_mib,
        is_memory_per_cpu,
        gres: text(of, "tres_per_node"),
        limit_seconds: of["time_limit"].as_u64().map(|minutes| minutes * 60),
        priority: of["priority"].as_u64().unwrap_or_default(),
        nice: of["nice"].as_i64().unwrap_or_default(),
        submitted: time(of, "submit_time"),
        began: time(of, "start_time"),
        ended: time(of, "end_time"),
        node_count: of["node_count"].as_u64().unwrap_or_default() as u32,
        admin_comment: text(of, "admin_comment"),
        is_component: of["het_job_id"].as_u64().is_some_and(|leader| leader > 0),
        ..JobRecord::empty(id)
    };
    ids.into_iter().map(record).collect()
}

fn node(of: &Value) -> NodeRecord {
    let flags = of["state_flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let state: Vec<String> = std::iter::once(text(of, "state"))
        .chain(flags.map(str::to_owned))
        .map(|word| word.to_uppercase())
        .collect();
    let features = text(of, "active_features");
    let partitions = of["partitions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    NodeRecord {
        name: text(of, "name"),
        state: state.join("+"),
        reason: text(of, "reason"),
        cpus: of["cpus"].as_u64().unwrap_or_default() as u32,
        memory_mib: of["real_memory"].as_u64().unwrap_or_default(),
        features: features.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect(),
        gres: parse::gres(&text(of, "gres")),
        partitions: partitions.map(str::to_owned).collect(),
        weight: of["weight"].as_u64().unwrap_or_default(),
        cpus_held: of["alloc_cpus"].as_u64().unwrap_or_default() as u32,
    }
}

fn partition(of: &Value) -> PartitionRecord {
    let flags = || of["flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    PartitionRecord {
        name: text(of, "name"),
        is_default: flags().any(|flag| flag.eq_ignore_ascii_case("default")),
        is_up: of["state"] == "UP",
        limit_seconds: of["max_time_limit"].as_u64().map(|minutes| minutes * 60),
        memory_per_cpu_mib: of["default_memory_per_cpu"].as_u64(),
        memory_per_node_mib: of["default_memory_per_node"].as_u64(),
        default_seconds: of["default_time_limit"].as_u64().map(|minutes| minutes * 60),
        most_nodes: of["maximum_nodes_per_job"].as_u64(),
        is_open: text(of, "allowed_groups").is_empty() && text(of, "allowed_accounts").is_empty(),
        is_exclusive: false, // it is not told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_wait_together_are_told_one_by_one() {
        let told = json!({"job_id": 7, "array_job_id": 7, "array_task_id": null, "array_task_string": "0-1,3%2",
            "job_state": "PENDING", "state_reason": "JobHeldUser", "memory_per_cpu": null, "memory_per_node": 100});
        let ids: Vec<String> = records(&told).iter().map(|job| job.id.to_string()).collect();
        assert_eq!(ids, ["7_0", "7_1", "7_3"]);
        let one = json!({"job_id": 9, "array_job_id": 7, "array_task_id": 2, "job_state": "FAILED", "exit_code": 768});
        let job = &records(&one)[0];
        assert_eq!((job.id, job.exit, job.state), (JobId::element(7, 2), (3, 0), JobState::Failed));
        assert_eq!(records(&json!({"job_id": 9, "array_job_id": 0}))[0].id, JobId::whole(9));
    }

    #[test]
    fn errors_without_a_number_are_none() {
        let table = [
            (json!({"errors": []}), None),
            (json!({"errors": [{"description": "job array update failed"}]}), None),
            (json!({"errors": [{"error_number": 2017, "error": "Invalid job id"}]}), Some(2017)),
            (json!({"errors": [{"error": "odd"}, {"error_code": 9001}]}), Some(9001)),
        ];
        for (answer, expected) in table {
            assert_eq!(complaint(&answer).map(|(number, _)| number), expected, "{answer}");
        }
    }

    #[test]
    fn a_node_of_rest_is_one_of_slurm() {
        let told = json!({"name": "a", "state": "idle", "state_flags": ["DRAIN"], "active_features": "x,y",
            "gres": "gpu:2", "partitions": ["main"], "cpus": 4, "real_memory": 100});
        let found = node(&told);
        assert_eq!((found.state.as_str(), found.is_usable()), ("IDLE+DRAIN", false));
        assert_eq!(found.gres, [("gpu".to_owned(), String::new(), 2)]);
    }

    #[test]
    fn unknown_options_are_refused() {
        let with = |option: &str| job(&Submission { options: vec![option.into()], ..Submission::default() });
        assert_eq!(with("--account=x").map(|job| job["account"].clone()).ok(), Some(json!("x")));
        assert!(with("--exclusive").is_err());
    }
}
