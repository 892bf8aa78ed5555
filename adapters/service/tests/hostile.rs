//! Clients that do what no client should.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use common::{DEADLINE, DIAMOND, Outcome, Service, node, status, submit};
use hyper::Method;
use mdts_service::api::{Batch, BatchAnswer, Call, Place, TaskEvent, What};
use mdts_service::client::{Client, Submission, blocking};
use mdts_service::{Desk, Error, Listen, Options, Server, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

const TOKEN: &str = "correct-horse-battery";

/// Sends bytes and returns what comes back until the connection is closed.
async fn raw(socket: &Path, bytes: &[u8]) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(bytes).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn expect(answer: &str, status: u16, what: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
    assert!(answer.contains("application/problem+json"), "{what}: {answer}");
}

#[tokio::test]
async fn requests_that_make_no_sense() -> Outcome {
    let service = Service::start()?;
    service.client().register("m", &node(1.0)).await?;
    let job = submit(&service.client(), DIAMOND).await?;
    let (place, events) = (format!("/v1/jobs/{job}/place"), format!("/v1/jobs/{job}/events"));
    let deep = "[".repeat(100_000);
    let bodies: [(&str, &str, u16); 16] = [
        (&place, "[]", 400),
        ("/v1/nodes", "{\"nodes\": {\"x\": [5]}}", 400),
        ("/v1/batch", "{\"calls\": [[\"GET\", \"/v1/jobs\", null, null]]}", 400),
        (&events, "{\"events\": [[\"a\", 1, \"finished\", null, null]]}", 400),
        (&place, "{", 400),
        (&place, "{\"tasks\": 7}", 400),
        (&place, "{\"task\": [\"a\"]}", 400),
        (&place, &deep, 400),
        (&place, "\u{0}\u{1}", 400),
        ("/v1/jobs/j4294967296/place", "{}", 404),
        ("/v1/jobs/jj/place", "{}", 404),
        ("/v1/jobs/%ff/place", "{}", 400),
        ("/v1/nothing", "{}", 404),
        ("/v1/jobs?priority=x", DIAMOND, 400),
        ("/v1/jobs?share=NaN", DIAMOND, 422),
        ("/v1/jobs?color=red", DIAMOND, 400),
    ];
    for (path, body, status) in bodies {
        let shown = body.chars().take(40).collect::<String>();
        expect(&raw(&service.socket, &post(path, body)).await?, status, &format!("{path} {shown}"));
    }
    for node in ["{\"speed\": 0}", "{\"speed\": -1}", "{\"speed\": 1e300}", "{\"memory\": 0, \"cores\": -3}"]
    {
        let body = format!("{{\"nodes\": {{\"x\": {node}}}}}");
        expect(&raw(&service.socket, &post("/v1/nodes", &body)).await?, 422, node);
    }
    let unknown = b"BREW / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(raw(&service.socket, unknown).await?.starts_with("HTTP/1.1 404"));
    let wrong = b"PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    expect(&raw(&service.socket, wrong).await?, 405, "PUT");
    assert!(raw(&service.socket, b"garbage\r\n\r\n").await?.starts_with("HTTP/1.1 400"));
    let mut stream = UnixStream::connect(&service.socket).await?;
    let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    _ = stream.write_all(head.as_bytes()).await; // the service hangs up, perhaps before all is sent
    let mut answer = [0; 12];
    tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await??;
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 431");
    assert_eq!(service.client().job(&job).await?.tasks, 4, "it still answers");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn bodies_that_are_too_large_or_too_slow() -> Outcome {
    let listen = Listen {
        patience: Duration::from_millis(300),
        idle: Duration::from_millis(600),
        largest_graph: 2 << 20,
        ..Listen::default()
    };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let head = |length: usize| {
        format!("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
    };
    expect(&raw(&service.socket, head(1 << 40).as_bytes()).await?, 413, "told beforehand");
    let chunk = "x".repeat(1 << 16);
    let mut chunked =
        b"POST /v1/batch HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
    for _ in 0..40 {
        chunked.extend(format!("10000\r\n{chunk}\r\n").bytes());
    }
    let mut stream = UnixStream::connect(&service.socket).await?;
    _ = stream.write_all(&chunked).await; // the service may hang up before all is sent
    let mut answer = vec![0; 12];
    tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await??;
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
    expect(&raw(&service.socket, head(100).as_bytes()).await?, 408, "nothing follows");
    assert_eq!(
        raw(&service.socket, b"GET /v1/jobs HT").await?.find("200 OK"),
        None,
        "half a head is given up"
    );
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn tcp_needs_the_token() -> Outcome {
    let address = Some("127.0.0.1:0".parse()?);
    let refused = |token: Option<&str>| {
        let desk = Desk::open(&Options::default(), mdts_policies::find("eft")?.placer(0))?;
        let listen = Listen { address, token: token.map(str::to_owned), ..Listen::default() };
        Ok::<_, Box<dyn std::error::Error>>(matches!(Server::bind(desk, listen), Err(Error::Setting(_))))
    };
    assert!(refused(None)? && refused(Some("short"))?);
    let listen = Listen { address, token: Some(TOKEN.into()), ..Listen::default() };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let at = service.address.map(|a| a.to_string()).unwrap_or_default();
    for wrong in ["correct-horse-batterz", "correct", "", "correct-horse-battery2"] {
        assert_eq!(status(Client::tcp(&at, wrong).nodes().await), 401, "{wrong}");
    }
    assert_eq!(Client::tcp(&at, TOKEN).nodes().await?.nodes, []);
    let mut stream = TcpStream::connect(&at).await?;
    let request = format!(
        "GET /v1/nodes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: bearer {TOKEN}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert!(answer.starts_with("HTTP/1.1 200"), "the scheme has no case: {answer}");
    let mut stream = TcpStream::connect(&at).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert!(answer.starts_with("HTTP/1.1 200"), "health needs no token");
    let mode = std::fs::metadata(&service.socket)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn tls_is_spoken_on_the_address() -> Outcome {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let tls = Tls { certificate: data.join("certificate.pem"), key: data.join("key.pem") };
    let listen = Listen {
        address: Some("127.0.0.1:0".parse()?),
        token: Some(TOKEN.into()),
        tls: Some(tls),
        ..Listen::default()
    };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let at = service.address.map(|a| a.port()).unwrap_or_default();
    let ca = data.join("certificate.pem");
    let output = tokio::process::Command::new("curl")
        .args(["-sSf", "--max-time", "20", "--resolve", &format!("mdts.test:{at}:127.0.0.1"), "--cacert"])
        .arg(&ca)
        .args(["-H", &format!("Authorization: Bearer {TOKEN}"), &format!("https://mdts.test:{at}/v1/nodes")])
        .output()
        .await?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), r#"{"nodes":[]}"#);
    assert!(Client::tcp(format!("127.0.0.1:{at}"), TOKEN).nodes().await.is_err(), "no plain text");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn many_connections() -> Outcome {
    const CLIENTS: usize = 400;
    let service = Service::with(
        tempfile::tempdir()?,
        "eft",
        Listen { connections: 300, ..Listen::default() },
        Options::default(),
    )?;
    let mut streams = Vec::new();
    for _ in 0..CLIENTS {
        streams.push(tokio::time::timeout(DEADLINE, UnixStream::connect(&service.socket)).await??);
    }
    let get = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    streams[300].write_all(get).await?;
    let mut first = [0; 1];
    let waits = tokio::time::timeout(Duration::from_millis(300), streams[300].read_exact(&mut first)).await;
    assert!(waits.is_err(), "one more than the limit waits");
    let mut answered = 0;
    for stream in &mut streams[..300] {
        stream.write_all(get).await?;
        let mut answer = Vec::new();
        tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await??;
        answered += usize::from(answer.starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(answered, 300);
    tokio::time::timeout(DEADLINE, streams[300].read_exact(&mut first)).await??;
    let answer = submit(&service.client(), DIAMOND).await;
    assert_eq!(status(answer), 409, "those that waited were let in");
    drop(streams);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn sockets_are_taken_over_from_the_dead_only() -> Outcome {
    let service = Service::start()?;
    let open = || {
        Desk::open(&Options::default(), mdts_policies::find("eft")?.placer(0))
            .map_err(Box::<dyn std::error::Error>::from)
    };
    let listen = |socket: &Path| Listen { socket: Some(socket.to_owned()), ..Listen::default() };
    let second = Server::bind(open()?, listen(&service.socket));
    assert!(second.is_err_and(|error| error.to_string().contains("another service")));
    let file = service.folder.path().join("file");
    std::fs::write(&file, "mine")?;
    assert!(Server::bind(open()?, listen(&file)).is_err());
    assert_eq!(std::fs::read_to_string(&file)?, "mine");
    let stale = service.folder.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale)?);
    assert!(Server::bind(open()?, listen(&stale)).is_ok());
    let how = Submission::default();
    assert_eq!(status(service.client().submit(DIAMOND, &how).await), 409);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn announced_bodies_keep_nobody_out() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let mut silent = Vec::new();
    for _ in 0..16 {
        let mut stream = UnixStream::connect(&service.socket).await?;
        let head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n{";
        stream.write_all(head.as_bytes()).await?;
        silent.push(stream);
    }
    let long = format!("tasks: [{{name: a, work: 1, command: [x{}]}}]", "x".repeat(3 << 20));
    let answer = tokio::time::timeout(Duration::from_secs(20), submit(&client, &long)).await?;
    assert_eq!(answer?, "j0", "a large graph of somebody else is read meanwhile");
    drop(silent);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn heads_and_bodies_that_trickle_in() -> Outcome {
    let listen = Listen {
        patience: Duration::from_millis(500),
        idle: Duration::from_millis(500),
        ..Listen::default()
    };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n";
    for (first, drop_of, status) in [("GET / HTTP/1.1\r\n", "x", None), (head, " ", Some("HTTP/1.1 408"))] {
        let mut stream = UnixStream::connect(&service.socket).await?;
        stream.write_all(first.as_bytes()).await?;
        let trickle = async {
            // Ten times as long as the service puts up with.
            for _ in 0..100 {
                if stream.write_all(drop_of.as_bytes()).await.is_err() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            false
        };
        assert!(trickle.await, "the service hangs up");
        if let Some(status) = status {
            let mut answer = vec![0; status.len()];
            stream.read_exact(&mut answer).await?;
            assert_eq!(String::from_utf8_lossy(&answer), status);
        }
    }
    // A client that has said all, and shuts that side down.
    let mut stream = UnixStream::connect(&service.socket).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await??;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn answers_that_nobody_takes() -> Outcome {
    let listen = Listen { patience: Duration::from_millis(500), ..Listen::default() };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let mut stream = UnixStream::connect(&service.socket).await?;
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    let flood = async {
        loop {
            if let Err(error) = stream.write_all(request).await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(DEADLINE, flood).await?;
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "the service hangs up");
    service.stop().await?;
    Ok(())
}

/// A job whose list of tasks is a megabyte.
async fn long_names(client: &Client) -> Result<String, Error> {
    let tasks: Vec<String> =
        (0..1000).map(|i| format!("{{name: {i:03}{}, work: 1}}", "t".repeat(990))).collect();
    submit(client, &format!("tasks: [{}]", tasks.join(", "))).await
}

#[tokio::test]
async fn answers_that_many_do_not_take() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let job = long_names(&client).await?;
    let request = format!("GET /v1/jobs/{job}/tasks HTTP/1.1\r\nHost: x\r\n\r\n");
    let (mut streams, mut busy) = (Vec::new(), 0);
    for _ in 0..200 {
        let mut stream = UnixStream::connect(&service.socket).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = [0; 12];
        tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await??;
        match &answer {
            b"HTTP/1.1 200" => {}
            b"HTTP/1.1 503" => busy += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
        streams.push(stream);
    }
    assert!((20..120).contains(&busy), "{busy} of 200 megabytes are too many");
    assert_eq!(client.job(&job).await?.tasks, 1000, "short answers need no room");
    client.place(&job, &common::tasks(&[])).await?;
    drop(streams);
    let path = format!("/v1/jobs/{job}/tasks");
    let again = async {
        while client.exchange(&Method::GET, &path, Vec::new().into(), None).await?.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, Error>(())
    };
    tokio::time::timeout(DEADLINE, again).await??;
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn reasons_are_kept_within_limits() -> Outcome {
    const TASKS: usize = 510;
    let service = Service::start()?;
    let client = service.client();
    let (mut names, mut nodes) = (Vec::new(), std::collections::BTreeMap::new());
    for i in 0..TASKS {
        names.push(format!("{{name: t{i}, work: 1}}"));
        nodes.insert(format!("m{i}"), node(1.0));
    }
    client.register_all(&mdts_service::api::Registration { nodes }).await?;
    let job = submit(&client, &format!("tasks: [{}]", names.join(", "))).await?;
    client.place(&job, &Place::default()).await?;
    for part in [0..300, 300..TASKS] {
        let failed = part.map(|i| TaskEvent {
            reason: Some("x".repeat(3000)),
            ..common::event(&format!("t{i}"), 1, What::Failed)
        });
        let told = client.events(&job, failed.collect()).await?;
        assert!(told.results.iter().all(|heard| heard.accepted));
    }
    for (task, bytes) in [("t0", 2000), ("t499", 2000), ("t500", 100), ("t509", 100)] {
        assert_eq!(client.task(&job, task).await?.failure.map(|reason| reason.len()), Some(bytes), "{task}");
    }
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn times_per_node_count_for_every_node() -> Outcome {
    let options = Options { most_bytes: 1 << 20, ..Options::default() };
    let service = Service::with(tempfile::tempdir()?, "eft", Listen::default(), options)?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let tasks: Vec<String> = (0..500).map(|i| format!("{{name: t{i}, times: {{m: 1}}}}")).collect();
    let graph = format!("tasks: [{}]", tasks.join(", "));
    let first = submit(&client, &graph).await?;
    client.cancel(&first).await?;
    let nodes = (0..200).map(|i| (format!("m{i}"), node(1.0))).collect();
    client.register_all(&mdts_service::api::Registration { nodes }).await?;
    assert_eq!(status(submit(&client, &graph).await), 503, "500 times 201 numbers");
    submit(&client, &graph.replace("times: {m: 1}", "work: 1")).await?;
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn texts_that_stand_for_more() -> Outcome {
    let listen = Listen { largest_graph: 2 << 20, ..Listen::default() };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, b"tasks: [{name: a}]\n")?;
    std::io::Write::write_all(&mut packed, &vec![b' '; 64 << 20])?;
    let packed = packed.finish()?;
    assert!(packed.len() < 100_000);
    assert_eq!(status(client.submit(packed, &Submission::default()).await), 422);
    let many = |letter: &str| (0..3000).map(|i| format!("{letter}{i}")).collect::<Vec<_>>().join(" ");
    let dense = format!("digraph {{ {{ {} }} -> {{ {} }} }}", many("a"), many("b"));
    assert_eq!(status(submit(&client, &dense).await), 413, "nine million dependencies");
    let name = "n".repeat(1 << 20);
    assert_eq!(status(submit(&client, &format!("tasks: [{{name: {name}}}]")).await), 422);
    let resources: Vec<String> = (0..500).map(|i| format!("\"r{i}\": 1")).collect();
    let body = format!("{{\"nodes\": {{\"x\": {{\"resources\": {{{}}}}}}}}}", resources.join(", "));
    expect(&raw(&service.socket, &post("/v1/nodes", &body)).await?, 422, "resources");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn batches_are_bounded_and_count_once() -> Outcome {
    let service = Service::start()?;
    let client = service.client();
    client.register("m", &node(1.0)).await?;
    let tasks: Vec<String> =
        (0..1000).map(|i| format!("{{name: {}{i}, work: 1}}", "t".repeat(200))).collect();
    let job = submit(&client, &format!("tasks: [{}]", tasks.join(", "))).await?;
    let call = |method: &str, path: String| Call { method: method.into(), path, key: None, body: None };
    let many = vec![call("GET", "/v1/jobs".to_owned()); 1001];
    assert_eq!(status(client.batch(&Batch { calls: many }).await), 422);
    let calls = vec![call("GET", format!("/v1/jobs/{job}/tasks")); 400];
    let body = serde_json::to_vec(&Batch { calls })?;
    let (code, answer) = client.exchange(&Method::POST, "/v1/batch", body.into(), None).await?;
    assert!(code == 200 && answer.len() < 20 << 20, "{code}, {} bytes", answer.len());
    let answers = serde_json::from_slice::<BatchAnswer>(&answer)?.answers;
    let refused = answers.iter().filter(|answer| answer.status == 413).count();
    assert!((1..400).contains(&refused) && answers.len() == 400, "{refused}");

    let waits = ["grants?wait=9", "grants?w%61it=9"].map(|end| call("GET", format!("/v1/jobs/{job}/{end}")));
    let answers = client.batch(&Batch { calls: waits.into() }).await?.answers;
    assert!(answers.iter().all(|answer| answer.status == 422), "{answers:?}");

    let mut submission = call("POST", "/v1/jobs".into());
    submission.body = Some(serde_json::json!({"tasks": [{"name": "a", "work": 1}]}));
    let batch = Batch { calls: vec![submission.clone(), submission] };
    let once: BatchAnswer = client.send(Method::POST, "/v1/batch", Some(&batch), Some("once")).await?;
    assert_ne!(once.answers[0].body, once.answers[1].body);
    let again: BatchAnswer = client.send(Method::POST, "/v1/batch", Some(&batch), Some("once")).await?;
    assert_eq!(once, again);
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn the_client_speaks_tls() -> Outcome {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map(|()| path)
    };
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let certificate = write("certificate.pem", made.cert.pem())?;
    let tls =
        Tls { certificate: certificate.clone(), key: write("key.pem", made.signing_key.serialize_pem())? };
    let listen = Listen {
        address: Some("127.0.0.1:0".parse()?),
        token: Some(TOKEN.into()),
        tls: Some(tls),
        ..Listen::default()
    };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let port = service.address.map(|a| a.port()).unwrap_or_default();
    for host in ["localhost", "127.0.0.1"] {
        let client = Client::tls(format!("{host}:{port}"), TOKEN, &certificate)?;
        client.register("m", &node(1.0)).await?;
        assert_eq!(client.nodes().await?.nodes.len(), 1);
        assert_eq!(status(Client::tls(format!("{host}:{port}"), "wrong", &certificate)?.nodes().await), 401);
    }
    let address = format!("localhost:{port}");
    let (blocking, path) = (address.clone(), certificate.clone());
    let nodes = tokio::task::spawn_blocking(move || {
        blocking::Client::new(Client::tls(blocking, TOKEN, path)?)?.nodes().map(|nodes| nodes.nodes.len())
    });
    assert_eq!(nodes.await??, 1);
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let stranger = write("other.pem", other.cert.pem())?;
    let refused = Client::tls(&address, TOKEN, stranger)?.nodes().await;
    assert!(matches!(refused, Err(Error::Client { .. })), "{refused:?}");
    assert!(matches!(Client::tls(&address, TOKEN, folder.path().join("key.pem")), Err(Error::File { .. })));
    assert!(Client::tls("no host:1", TOKEN, &certificate).is_err());
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn the_client_outlives_closed_connections() -> Outcome {
    let listen = Listen { idle: Duration::from_millis(200), ..Listen::default() };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let (socket, (done, finished)) = (service.socket.clone(), tokio::sync::oneshot::channel());
    std::thread::spawn(move || {
        let calls = || {
            let client = blocking::Client::new(Client::unix(socket))?;
            client.register("m", &node(1.0))?;
            let job = client.submit(DIAMOND, &Submission::default())?.id;
            client.place(&job, &Place::default())?;
            // Nothing of the client runs meanwhile, so that it does not see that it was hung up on.
            std::thread::sleep(Duration::from_millis(800));
            client.events(&job, vec![common::finished("a", 1)]).map(|answer| answer.ready.len())
        };
        done.send(calls()).ok(); // the test waits
    });
    assert_eq!(tokio::time::timeout(DEADLINE, finished).await???, 2);
    service.stop().await?;
    Ok(())
}

/// A connection over TCP, after so many bytes were sent over it.
async fn tcp(address: &str, bytes: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes.as_bytes()).await?;
    Ok(stream)
}

/// Whether the service has hung up, once what it says has been read.
async fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    let mut told = Vec::new();
    tokio::time::timeout(within, stream.read_to_end(&mut told)).await.is_ok()
}

fn get(path: &str, token: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n")
}

#[tokio::test]
async fn who_does_not_show_the_token_is_sent_away() -> Outcome {
    let listen = Listen {
        address: Some("127.0.0.1:0".parse()?),
        token: Some(TOKEN.into()),
        introduction: Duration::from_millis(500),
        connections: 40,
        ..Listen::default()
    };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let at = service.address.map(|a| a.to_string()).unwrap_or_default();
    let mut known = tcp(&at, &get("/v1/nodes", TOKEN)).await?;
    let mut first = [0; 12];
    known.read_exact(&mut first).await?;
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut strangers = [
        tcp(&at, "").await?,
        tcp(&at, "GET /v1/nodes HTTP/1.1\r\nHost: x\r\n").await?,
        tcp(&at, &get("/v1/nodes", "correct-horse-batterz")).await?,
        tcp(&at, &get("/healthz", "")).await?,
    ];
    for (i, stranger) in strangers.iter_mut().enumerate() {
        assert!(is_closed(stranger, DEADLINE).await, "stranger {i}, long before it is idle for too long");
    }
    known.write_all(get("/healthz", "").as_bytes()).await?;
    assert!(!is_closed(&mut known, Duration::from_millis(800)).await, "who has shown it may stay");
    service.stop().await?;
    Ok(())
}

#[tokio::test]
async fn strangers_keep_nobody_out() -> Outcome {
    let listen = Listen {
        address: Some("127.0.0.1:0".parse()?),
        token: Some(TOKEN.into()),
        introduction: Duration::from_mins(1),
        connections: 40,
        ..Listen::default()
    };
    let service = Service::with(tempfile::tempdir()?, "eft", listen, Options::default())?;
    let at = service.address.map(|a| a.to_string()).unwrap_or_default();
    // Far more than there is room for; each of the later ones takes the place of an earlier one.
    let mut strangers = Vec::new();
    for _ in 0..200 {
        strangers.push(tcp(&at, "").await?);
    }
    let client = Client::tcp(&at, TOKEN);
    let nodes = tokio::time::timeout(Duration::from_secs(20), client.nodes()).await??;
    assert_eq!(nodes.nodes, []);
    assert!(is_closed(&mut strangers[0], DEADLINE).await, "the first has made room");
    assert!(!is_closed(&mut strangers[199], Duration::from_millis(300)).await, "the last is put up with");
    service.stop().await?;
    Ok(())
}
