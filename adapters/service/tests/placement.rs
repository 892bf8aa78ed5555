//! The interface as clients use it.

mod common;

use std::time::Duration;

use common::{DIAMOND, Outcome, Service, event, finished, node, started, status, submit, tasks};
use hyper::Method;
use mdts_service::api::{
    Batch, Call, Extension, JobState, Node, NodeState, Place, PlacementState, Submitted, TaskState, What,
};
use mdts_service::client::{Client, Submission, blocking};
use mdts_service::{Listen, Options};

#[tokio::test]
async fn a_job_from_submission_to_its_end() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    assert_eq!(status(submit(&client, DIAMOND).await), 409, "there are no nodes yet");
    client.register("slow", &node(1.0)).await?;
    client.register("fast", &node(2.0)).await?;
    let job = client.submit(DIAMOND, &Submission::default()).await?;
    assert_eq!((job.tasks, job.ready), (4, vec!["a".to_owned()]));
    let job = job.id;

    let placed = client.place(&job, &Place::default()).await?;
    let a = &placed.placements[0];
    assert_eq!((a.state, a.node.as_deref(), a.attempt), (PlacementState::Start, Some("fast"), Some(1)));
    assert_eq!(a.expected_seconds, Some(0.5));
    assert_eq!(client.place(&job, &Place::default()).await?.placements, [], "nothing else is ready");
    assert_eq!(client.place(&job, &tasks(&["a"])).await?.placements, placed.placements, "asked again");
    client.events(&job, vec![event("a", 1, What::Started)]).await?;
    assert_eq!(client.place(&job, &tasks(&["a"])).await?.placements[0].state, PlacementState::Running);

    let answer = client.events(&job, vec![finished("a", 1)]).await?;
    assert!(answer.results[0].accepted);
    assert_eq!((answer.ready, answer.remaining), (vec!["b".to_owned(), "c".to_owned()], 3));
    let both = client.place(&job, &tasks(&["b", "c"])).await?.placements;
    assert_eq!(both[0].node.as_deref(), Some("slow"), "c is of higher rank and takes the fast one");
    assert_eq!(both[1].node.as_deref(), Some("fast"));

    let answer = client.events(&job, vec![event("b", 1, What::Failed), finished("c", 1)]).await?;
    assert_eq!(answer.ready, ["b"], "it may be repeated once");
    let again = client.place(&job, &tasks(&["b", "d"])).await?.placements;
    assert_eq!((again[0].state, again[0].attempt), (PlacementState::Start, Some(2)));
    assert_eq!(again[1].state, PlacementState::Waiting);
    assert_eq!(again[1].why.as_deref(), Some("waits for b"));
    client.events(&job, vec![finished("b", 2)]).await?;
    let grants = client.grants(&job, placed.after, 10.0).await?;
    assert_eq!(grants.grants.last().map(|g| (g.task.as_str(), g.start)), Some(("d", true)), "asked ahead");
    client.events(&job, vec![finished("d", 1)]).await?;
    let end = client.job(&job).await?;
    assert_eq!((end.state, end.done, end.granted), (JobState::Succeeded, 4, 5));
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn reports_count_once() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let job = submit(&client, DIAMOND).await?;
    let heard = client.events(&job, vec![finished("a", 1)]).await?.results;
    assert!(!heard[0].accepted && heard[0].why.as_deref().is_some_and(|why| why.contains("not granted")));
    client.place(&job, &Place::default()).await?;
    for _ in 0..3 {
        assert!(client.events(&job, vec![finished("a", 1)]).await?.results[0].accepted);
    }
    assert_eq!(client.job(&job).await?.done, 1);
    let heard = client.events(&job, vec![event("a", 1, What::Failed)]).await?.results;
    assert!(!heard[0].accepted, "it cannot fail when it has finished");
    assert_eq!(status(client.events(&job, vec![finished("zz", 1)]).await), 404);
    assert_eq!(status(client.events("j99", vec![finished("a", 1)]).await), 404);
    assert_eq!(status(client.place(&job, &tasks(&["zz"])).await), 404);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_repeated_request_has_one_effect_also_after_a_restart() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let how = Submission { key: Some("k1".into()), ..Submission::default() };
    let first = client.submit(DIAMOND, &how).await?;
    assert_eq!(client.submit(DIAMOND, &how).await?, first);
    assert_eq!(status(client.submit("tasks: [{name: x, work: 1}]", &how).await), 422);
    let placed = client.place(&first.id, &Place::default()).await?;
    let folder = service.stop().await?;

    let service = Service::with(folder, "mdts", Listen::default(), Options::default())?;
    let client = service.client();
    assert_eq!(client.submit(DIAMOND, &how).await?, first);
    assert_eq!(client.place(&first.id, &tasks(&["a"])).await?.placements, placed.placements);
    let grants = client.grants(&first.id, 0, 0.0).await?.grants;
    assert_eq!(started(&grants), [("a".to_owned(), 1, "m".to_owned(), true)]);
    client.events(&first.id, vec![finished("a", 1)]).await?;
    assert_eq!(client.job(&first.id).await?.done, 1);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_repeated_placement_is_answered_as_things_are_now() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let how = Submission { lease_seconds: Some(0.5), ..Submission::default() };
    let first = client.submit("tasks: [{name: a, work: 9}, {name: b, work: 9, after: [a]}]", &how).await?.id;
    let other = submit(&client, "tasks: [{name: x, work: 9}]").await?;
    let keyed = |body: &str| Call {
        method: "POST".into(),
        path: format!("/v1/jobs/{first}/place"),
        key: Some("k".into()),
        body: serde_json::from_str(body).ok(),
    };
    let again = async |body: &str| {
        let answer = client.batch(&Batch { calls: vec![keyed(body)] }).await;
        answer.map(|answer| answer.answers[0].clone())
    };
    let begun = again(r#"{"tasks": ["a"]}"#).await?;
    assert_eq!(begun.body["placements"][0]["state"], "start");
    client.place(&other, &Place::default()).await?;
    assert!(client.grants(&other, 0, 20.0).await?.grants[0].start, "the first client is silent for too long");
    let now = again(r#"{"tasks": ["a"]}"#).await?;
    assert_eq!(now.body["placements"][0]["state"], "queued", "the node is another's by now");
    assert_eq!(client.job(&first).await?.state, JobState::Open, "its client has spoken");
    assert_eq!(again(r#"{"tasks": ["b"]}"#).await?.status, 422, "the key was used for another request");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_key_is_remembered_when_nothing_changed() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let job = submit(&client, "tasks: [{name: a, work: 1}]").await?;
    let call = |events: &str| Call {
        method: "POST".into(),
        path: format!("/v1/jobs/{job}/events"),
        key: Some("k".into()),
        body: serde_json::from_str(events).ok(),
    };
    let batch = Batch {
        calls: vec![
            call(r#"{"events": []}"#),
            call(r#"{"events": [{"task": "a", "attempt": 1, "event": "started"}]}"#),
        ],
    };
    let statuses: Vec<u16> = client.batch(&batch).await?.answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 422]);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn nodes_are_lost_drained_changed_and_removed() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    let short = mdts_service::api::NodeSpec { lease_seconds: Some(0.6), ..node(4.0) };
    client.register("short", &short).await?;
    client.register("long", &node(1.0)).await?;
    let job = submit(&client, DIAMOND).await?;
    let placed = client.place(&job, &Place::default()).await?.placements;
    assert_eq!(placed[0].node.as_deref(), Some("short"));
    let grants = client.grants(&job, 1, 20.0).await?.grants;
    let expected =
        [("a".to_owned(), 1, "short".to_owned(), false), ("a".to_owned(), 2, "long".to_owned(), true)];
    assert_eq!(started(&grants), expected, "the lease is over, the task moves");
    assert!(!client.events(&job, vec![finished("a", 1)]).await?.results[0].accepted);
    let answer = client.heartbeats(vec!["short".into(), "long".into(), "none".into()]).await?;
    assert_eq!(answer.unknown, ["short", "none"]);

    let drained: Node = client.send(Method::POST, "/v1/nodes/long/drain", None::<&()>, None).await?;
    assert_eq!((drained.state, drained.running), (NodeState::Draining, 1));
    client.events(&job, vec![finished("a", 2)]).await?;
    let placed = client.place(&job, &tasks(&["b"])).await?.placements;
    assert_eq!(placed[0].state, PlacementState::Waiting);
    assert_eq!(placed[0].why.as_deref(), Some("no node that is there can run it"));
    let back: Node = client.send(Method::DELETE, "/v1/nodes/long/drain", None::<&()>, None).await?;
    assert_eq!((back.state, back.running), (NodeState::Ready, 1), "what waited begins");

    client.register("long", &node(3.0)).await?;
    let grants = client.grants(&job, 3, 0.0).await?.grants;
    let of_b = [(1, true), (1, false), (2, true)];
    assert_eq!(
        grants.iter().map(|g| (g.attempt, g.start)).collect::<Vec<_>>(),
        of_b,
        "it is another node now"
    );
    client.send::<mdts_service::api::Nodes>(Method::DELETE, "/v1/nodes/long", None::<&()>, None).await?;
    assert_eq!(client.nodes().await?.nodes.len(), 1);
    client.register("new", &node(1.0)).await?;
    let task = client.task(&job, "b").await?;
    assert_eq!((task.state, task.placement.node.as_deref()), (TaskState::Running, Some("new")));
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_silent_client_loses_its_nodes_within_its_lease() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let how = Submission { lease_seconds: Some(0.8), ..Submission::default() };
    let silent = client.submit(DIAMOND, &how).await?.id;
    client.place(&silent, &Place::default()).await?;
    let other = submit(&client, DIAMOND).await?;
    let begin = std::time::Instant::now();
    let waits = client.place(&other, &Place::default()).await?.placements;
    assert_eq!(waits[0].state, PlacementState::Queued);
    let grants = client.grants(&other, 0, 20.0).await?.grants;
    assert_eq!(started(&grants), [("a".to_owned(), 1, "m".to_owned(), true)]);
    assert!(begin.elapsed() >= Duration::from_millis(500), "not before the lease is over");
    let lost = client.grants(&silent, 1, 0.0).await?.grants;
    assert_eq!(started(&lost), [("a".to_owned(), 1, "m".to_owned(), false)]);
    client.events(&other, vec![finished("a", 1)]).await?;
    let again = client.place(&silent, &Place::default()).await?.placements;
    assert_eq!((again[0].state, again[0].attempt), (PlacementState::Start, Some(2)), "it speaks again");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn jobs_grow_and_are_cancelled() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let job = submit(&client, "tasks: [{name: a, work: 1}]").await?;
    client.place(&job, &Place::default()).await?;
    let task = serde_json::json!({"name": "b", "work": 1, "after": ["a"]});
    let more = Extension { tasks: vec![task], files: serde_json::Map::new() };
    assert_eq!(client.extend(&job, &more).await?.tasks, 2);
    assert_eq!(status(client.extend(&job, &more).await), 422, "the name is taken");
    assert_eq!(client.events(&job, vec![finished("a", 1)]).await?.ready, ["b"]);
    client.place(&job, &Place::default()).await?;
    client.events(&job, vec![finished("b", 1)]).await?;
    assert_eq!(client.job(&job).await?.state, JobState::Succeeded);
    let task = serde_json::json!({"name": "c", "work": 1, "after": ["b"]});
    let more = Extension { tasks: vec![task], files: serde_json::Map::new() };
    let grown = client.extend(&job, &more).await?;
    assert_eq!((grown.state, grown.ready), (JobState::Open, 1), "it begins anew");
    let placed = client.place(&job, &Place::default()).await?;
    assert_eq!(placed.placements[0].state, PlacementState::Start);

    assert_eq!(client.cancel(&job).await?.state, JobState::Cancelled);
    let grants = client.grants(&job, placed.after, 0.0).await?;
    assert_eq!(started(&grants.grants), [("c".to_owned(), 1, "m".to_owned(), false)]);
    assert!(grants.ended);
    assert_eq!(client.cancel(&job).await?.state, JobState::Cancelled, "sent again");
    assert_eq!(client.grants(&job, placed.after, 0.0).await?, grants, "its workers still hear of it");
    client.forget(&job).await?;
    assert_eq!(status(client.job(&job).await), 404, "an ended job is forgotten");
    let folder = service.stop().await?;
    let service = Service::with(folder, "eft", Listen::default(), Options::default())?;
    assert_eq!(status(service.client().job(&job).await), 404);
    assert_eq!(submit(&service.client(), DIAMOND).await?, "j1");
    service.stop().await?;
    Ok(())
}

const DAX: &str = r#"<adag name="d"><job id="a" name="a"/><job id="b" name="b" runtime="2"/>
    <child ref="b"><parent ref="a"/></child></adag>"#;
const WFFORMAT: &str = r#"{"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
    {"name": "a", "id": "a", "parents": [], "children": ["b"], "inputFiles": [], "outputFiles": []},
    {"name": "b", "id": "b", "parents": ["a"], "children": [], "inputFiles": [], "outputFiles": []}], "files": []}}}"#;

#[tokio::test]
async fn jobs_grow_in_every_format() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let base = "tasks: [{name: a, work: 1, outputs: [x]}]\nfiles: {x: 1MB}";
    let texts = [
        ("json", r#"{"tasks": [{"name": "b", "work": 2, "after": ["a"]}]}"#),
        ("yaml", "tasks: [{name: b, work: 2, after: [a]}]"),
        ("toml", "[[tasks]]\nname = \"b\"\nwork = 2\nafter = [\"a\"]"),
        ("dot", "digraph { a -> b }"),
        ("dax", DAX),
        ("wfformat", WFFORMAT),
    ];
    for (format, text) in texts {
        for query in [format!("?format={format}"), String::new()] {
            let job = submit(&client, base).await?;
            let path = format!("/v1/jobs/{job}/extend{query}");
            let (status, answer) = client.exchange(&Method::POST, &path, text.into(), None).await?;
            assert_eq!(status, 200, "{format}: {}", String::from_utf8_lossy(&answer));
            let view = client.job(&job).await?;
            assert_eq!((view.tasks, view.ready, view.waiting), (2, 1, 1), "{format}");
            assert_eq!(client.task(&job, "b").await?.why, "waits for a", "{format}");
        }
    }
    let job = submit(&client, base).await?;
    let wrong = [
        ("dot", "digraph { a -> a2; a2 -> a }", 422),
        ("dot", "digraph { a }", 422),
        ("json", "{\"tasks\": 7}", 400),
        ("yaml", "tasks: [{name: b, after: [nowhere]}]", 422),
        ("word", "x", 415),
        ("yaml", "tasks: [{name: wide, work: 1, gang: 2}]", 422),
    ];
    for (format, text, status) in wrong {
        let path = format!("/v1/jobs/{job}/extend?format={format}");
        let (found, answer) = client.exchange(&Method::POST, &path, text.into(), None).await?;
        assert_eq!(found, status, "{format} {text}: {}", String::from_utf8_lossy(&answer));
    }
    let wide = submit(&client, "tasks: [{name: wide, work: 1, gang: 2}]").await;
    assert!(wide.is_err_and(|error| error.to_string().contains("wants 2 nodes at once")));
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn numbers_for_operators() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("a \"node\"", &node(1.0)).await?;
    let job = submit(&client, DIAMOND).await?;
    client.place(&job, &Place::default()).await?;
    client.events(&job, vec![finished("a", 1)]).await?;
    client.place(&job, &Place::default()).await?;
    let (_, text) = client.exchange(&Method::GET, "/metrics", bytes::Bytes::new(), None).await?;
    let text = String::from_utf8_lossy(&text).into_owned();
    for line in [
        "mdts_jobs_open 1",
        "mdts_grants_total 2",
        "mdts_decisions_total 3",
        "mdts_fallbacks_total 0",
        "mdts_tasks_running 1",
        "mdts_tasks_queued 1",
        "mdts_nodes{state=\"ready\"} 1",
        "mdts_nodes_busy 1",
        "mdts_node_running{node=\"a \\\"node\\\"\"} 1",
        "mdts_node_queued{node=\"a \\\"node\\\"\"} 1",
        "mdts_predictor_samples 1",
        "mdts_decision_steps_total 3",
        "mdts_decision_seconds_count 3",
        "mdts_requests_total{method=\"POST\",path=\"/v1/jobs/{job}/place\",status=\"200\"} 2",
        "mdts_request_seconds_count{method=\"POST\",path=\"/v1/jobs/{job}/place\"} 2",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    // Every number has its type, and no name stands twice.
    let names = |prefix: &'static str| {
        text.lines().filter_map(move |line| line.strip_prefix(prefix)?.split(' ').next())
    };
    let types: Vec<&str> = names("# TYPE ").collect();
    let mut unique = types.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!((types.len(), &types), (unique.len(), &names("# HELP ").collect()));
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn batches_and_explanations() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("slow", &node(1.0)).await?;
    client.register("fast", &node(2.0)).await?;
    let call = |method: &str, path: &str, body: Option<serde_json::Value>| Call {
        method: method.into(),
        path: path.into(),
        key: None,
        body,
    };
    let graph = serde_json::json!({"tasks": [{"name": "a/1", "work": 4}, {"name": "b", "after": ["a/1"], "work": 1}]});
    let calls = vec![
        call("POST", "/v1/jobs", Some(graph)),
        call("POST", "/v1/jobs/j0/place", None),
        call("GET", "/v1/jobs/j7", None),
        call("GET", "/v1/batch", None),
        call("NO SUCH", "/v1/jobs", None),
        call("GET", "/v1/jobs/j0/grants?wait=9", None),
    ];
    let answers = client.batch(&Batch { calls }).await?.answers;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [201, 200, 404, 404, 422, 422]);
    let job: Submitted = serde_json::from_value(answers[0].body.clone())?;
    let task = client.task(&job.id, "a/1").await?;
    assert_eq!(task.why, "fast was where it would be done first");
    let options: Vec<(&str, f64)> = task.options.iter().map(|o| (o.node.as_str(), o.done_in)).collect();
    assert_eq!(options, [("fast", 2.0), ("slow", 4.0)]);
    let task = client.task(&job.id, "b").await?;
    assert_eq!((task.state, task.why.as_str()), (TaskState::Waiting, "waits for a/1"));
    service.stop().await?;
    Ok(())
}

/// All calls under /v1 but the batch itself, with those of the interface's document that they stand for.
#[tokio::test]
async fn every_call_can_be_made_in_a_batch() -> Outcome {
    let service = Service::start()?;
    let graph = serde_json::json!({"tasks": [{"name": "a", "work": 1}]});
    let more = serde_json::json!({"tasks": [{"name": "b", "work": 1, "after": ["a"]}]});
    let done = serde_json::json!({"events": [{"task": "a", "attempt": 1, "event": "finished"}]});
    let nodes = serde_json::json!({"nodes": {"m1": {}, "m2": {}}});
    let calls = [
        ("put", "/v1/nodes/m0", Some(serde_json::json!({"speed": 2}))),
        ("post", "/v1/nodes", Some(nodes)),
        ("get", "/v1/nodes", None),
        ("get", "/v1/nodes/m0", None),
        ("post", "/v1/nodes/m0/heartbeat", None),
        ("post", "/v1/heartbeats", Some(serde_json::json!({"nodes": ["m0"]}))),
        ("post", "/v1/nodes/m1/drain", None),
        ("delete", "/v1/nodes/m1/drain", None),
        ("delete", "/v1/nodes/m2", None),
        ("post", "/v1/jobs", Some(graph)),
        ("get", "/v1/jobs", None),
        ("get", "/v1/jobs/j0", None),
        ("post", "/v1/jobs/j0/extend", Some(more)),
        ("post", "/v1/jobs/j0/place", None),
        ("get", "/v1/jobs/j0/grants?after=0", None),
        ("post", "/v1/jobs/j0/events", Some(done)),
        ("get", "/v1/jobs/j0/tasks", None),
        ("get", "/v1/jobs/j0/tasks/a", None),
        ("delete", "/v1/jobs/j0", None),
    ];
    let document = mdts_service::openapi();
    let paths = document["paths"].as_object().ok_or("no paths")?.iter();
    let all = paths.flat_map(|(path, methods)| {
        methods
            .as_object()
            .into_iter()
            .flat_map(move |methods| methods.keys().map(move |m| (m.as_str(), path.as_str())))
    });
    for (method, pattern) in all.filter(|(_, path)| path.starts_with("/v1/") && *path != "/v1/batch") {
        let is_it = |path: &str| {
            let path = path.split('?').next().unwrap_or_default();
            let (one, other): (Vec<&str>, Vec<&str>) =
                (pattern.split('/').collect(), path.split('/').collect());
            one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| a.starts_with('{') || a == b)
        };
        assert!(
            calls.iter().any(|(m, path, _)| *m == method && is_it(path)),
            "{method} {pattern} is missing"
        );
    }
    let call = |(method, path, body): &(&str, &str, Option<serde_json::Value>)| Call {
        method: method.to_uppercase(),
        path: (*path).to_owned(),
        key: None,
        body: body.clone(),
    };
    let answers = service.client().batch(&Batch { calls: calls.iter().map(call).collect() }).await?.answers;
    for ((method, path, _), answer) in calls.iter().zip(&answers) {
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
    }
    assert_eq!(answers[13].body["placements"][0]["state"], "start");
    assert_eq!(answers[15].body["ready"], serde_json::json!(["b"]));
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn jobs_of_higher_priority_come_first() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let ahead = Place { ahead: true, ..Place::default() };
    let two = "tasks: [{name: a, work: 1}, {name: b, work: 1}]";
    let low = submit(&client, two).await?;
    client.place(&low, &ahead).await?;
    let how = Submission { priority: 5, ..Submission::default() };
    let high = client.submit(two, &how).await?.id;
    client.place(&high, &ahead).await?;
    client.events(&low, vec![finished("a", 1)]).await?;
    for task in ["a", "b"] {
        let why = client.task(&low, "b").await?.why;
        assert!(why.contains("m is not free yet"), "{why}");
        client.events(&high, vec![finished(task, 1)]).await?;
    }
    let grants = client.grants(&low, 1, 0.0).await?.grants;
    assert_eq!(started(&grants), [("b".to_owned(), 1, "m".to_owned(), true)]);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn run_times_are_learnt() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let job = submit(&client, "tasks: [{name: align_1, work: 1}]").await?;
    client.place(&job, &Place::default()).await?;
    let report = mdts_service::api::TaskEvent { seconds: Some(40.0), ..finished("align_1", 1) };
    client.events(&job, vec![report]).await?;
    assert_eq!(client.task(&job, "align_1").await?.seconds.map(f64::round), Some(40.0));
    let job = submit(&client, "tasks: [{name: align_2}]").await?;
    let placed = client.place(&job, &Place::default()).await?.placements;
    assert!(placed[0].expected_seconds.is_some_and(|s| (s - 40.0).abs() < 1.0), "{placed:?}");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn many_formats_are_read() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let formats = [
        ("yaml", "tasks: [{name: a, work: 1}]"),
        ("json", r#"{"tasks": [{"name": "a", "work": 1}]}"#),
        ("toml", "[[tasks]]\nname = \"a\"\nwork = 1"),
        ("dot", "digraph { a -> b }"),
        ("dax", DAX),
        ("wfformat", WFFORMAT),
        ("stg", "1\n0 0 0\n1 5 1 0\n2 0 1 1\n"),
    ];
    for (format, text) in formats {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, text.as_bytes())?;
        let packed = packed.finish()?;
        for named in [None, Some(format.to_owned())] {
            let how = Submission { format: named, ..Submission::default() };
            let plain = client.submit(text, &how).await?;
            assert!(plain.tasks > 0, "{format}");
            assert_eq!(client.submit(packed.clone(), &how).await?.tasks, plain.tasks, "{format}, packed");
        }
    }
    let unknown = Submission { format: Some("word".into()), ..Submission::default() };
    assert_eq!(status(client.submit("x", &unknown).await), 415);
    assert_eq!(status(client.submit("?", &Submission::default()).await), 415);
    assert_eq!(status(client.submit("tasks: [{name: a, after: [b]}]", &Submission::default()).await), 422);
    assert_eq!(
        status(client.submit("tasks: [{name: a, gpus: 3, work: 1}]", &Submission::default()).await),
        422
    );
    service.stop().await?;
    Ok(())
}

#[test]
fn the_blocking_client_does_the_same() -> Outcome {
    let (told, hear) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let service = Service::start().expect("a service");
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            told.send((service.socket.clone(), stop)).expect("the test waits");
            stopped.await.ok();
            service.stop().await.expect("a clean end");
        });
    });
    let (socket, stop) = hear.recv_timeout(common::DEADLINE)?;
    let client = blocking::Client::new(Client::unix(&socket))?;
    client.register("m", &node(1.0))?;
    let job = client.submit(DIAMOND, &Submission::default())?.id;
    client.place(&job, &Place { ahead: true, ..Place::default() })?;
    let mut after = 0;
    loop {
        let grants = client.grants(&job, after, 10.0)?;
        after = grants.after;
        for grant in &grants.grants {
            client.events(&job, vec![finished(&grant.task, grant.attempt)])?;
        }
        if grants.ended {
            break;
        }
    }
    assert_eq!(client.job(&job)?.done, 4);
    stop.send(()).ok();
    server.join().map_err(|_| "the service had a fault")?;
    assert!(!socket.exists(), "it takes its socket away");
    Ok(())
}

#[tokio::test]
async fn what_no_client_could_use_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let long = Listen { socket: Some(folder.path().join("s".repeat(120))), ..Listen::default() };
    let address = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let token = Some("two words\nand a line".to_owned());
    for listen in [long, Listen { address, token, ..Listen::default() }] {
        let desk = mdts_service::Desk::open(&Options::default(), mdts_policies::find("eft")?.placer(0))?;
        let refused = mdts_service::Server::bind(desk, listen);
        assert!(matches!(refused, Err(mdts_service::Error::Setting(_))), "{refused:?}");
    }
    Ok(())
}
