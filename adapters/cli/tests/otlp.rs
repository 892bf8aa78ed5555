//! `mdts serve --otlp`: a collector gets the spans of requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Killed when dropped.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        self.0.kill().ok(); // it may be gone already
        self.0.wait().ok();
    }
}

/// Takes one request and returns its first line and body.
fn collect(listener: &TcpListener) -> Outcome<(String, serde_json::Value)> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")?;
    Ok((first, serde_json::from_slice(&body)?))
}

#[test]
fn a_collector_gets_the_spans_of_requests() -> Outcome {
    let folder = tempfile::tempdir()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let service = Command::new(env!("CARGO_BIN_EXE_mdts"))
        .args(["serve", "--quiet", "--socket", "s", "--otlp", &url])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()?;
    let mut service = Service(service);
    let begin = Instant::now();
    let mut client = loop {
        match UnixStream::connect(folder.path().join("s")) {
            Ok(client) => break client,
            Err(error) if begin.elapsed() > Duration::from_secs(20) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let (trace, caller) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    write!(
        client,
        "GET /v1/jobs/j7 HTTP/1.1\r\nHost: x\r\nConnection: close\r\ntraceparent: 00-{trace}-{caller}-01\r\n\r\n"
    )?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");

    let (first, body) = collect(&listener)?;
    assert_eq!(first.trim(), "POST /v1/traces HTTP/1.1");
    let resource = &body["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "mdts");
    let span = &resource["scopeSpans"][0]["spans"][0];
    assert_eq!((&span["name"], &span["traceId"]), (&"request".into(), &trace.into()), "{span}");
    assert_eq!(span["parentSpanId"], caller);
    assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
    let time = |key: &str| span[key].as_str().and_then(|time| time.parse::<u128>().ok());
    assert!(time("startTimeUnixNano") < time("endTimeUnixNano"), "{span}");
    let list = span["attributes"].as_array().ok_or("no attributes")?;
    let attribute = |key: &str| list.iter().find(|a| a["key"] == key).map(|a| a["value"].clone());
    assert_eq!(attribute("status"), Some(serde_json::json!({"intValue": "404"})));
    assert_eq!(attribute("route"), Some(serde_json::json!({"stringValue": "/v1/jobs/{job}"})));

    // What is left is sent when the service ends, and a collector that is gone stops nothing.
    drop(listener);
    let client = UnixStream::connect(folder.path().join("s"))?;
    drop(client);
    let stop = Command::new("kill").arg(service.0.id().to_string()).status()?;
    assert!(stop.success() && service.0.wait()?.success());
    Ok(())
}

#[test]
fn a_collector_needs_an_address() -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_mdts")).args(["serve", "--otlp", "https://x"]).output()?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("http://HOST:PORT"));
    Ok(())
}
