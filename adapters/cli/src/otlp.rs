//! Spans for a collector: OTLP over HTTP with JSON, as the `OpenTelemetry` protocol describes it.
//!
//! ```text
//!   tracing -- spans that end --> Spans (a layer) -- bounded queue --> a thread -- POST /v1/traces, every second --> collector
//! ```
//! Nothing waits for the collector: what does not fit into the queue is dropped and counted. Trace ids of callers (the header
//! `traceparent`, which spans carry as a field) are gone on with. Plain HTTP only, to an agent on this machine or network.

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::error::{Error, Result};

/// Spans that wait to be sent.
const QUEUE: usize = 8192;
/// Spans in one request, and how long they are gathered.
const BATCH: usize = 512;
const PERIOD: Duration = Duration::from_secs(1);
/// How long the collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The field with the caller's trace.
const CALLER: &str = "traceparent";

/// The layer.
pub(crate) struct Spans {
    queue: SyncSender<Message>,
    ids: Ids,
    dropped: Arc<AtomicU64>,
}

/// Sends what is left when it is dropped, within [`PATIENCE`].
pub(crate) struct Exporter {
    queue: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Ended(Value),
    Stop,
}

/// A span that has not ended.
struct Open {
    trace: String,
    id: String,
    parent: Option<String>,
    begin: SystemTime,
    fields: Fields,
}

/// Begins to send spans to the collector at `http://HOST[:PORT]`.
///
/// # Errors
/// [`Error::Usage`] if that is no such address, [`Error::System`] if there can be no thread.
pub(crate) fn begin(url: &str) -> Result<(Spans, Exporter)> {
    let place = place(url).ok_or_else(|| {
        Error::Usage(format!("--otlp {url}: expected http://HOST:PORT of an OTLP collector, without TLS"))
    })?;
    let (queue, ended) = sync_channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let lost = dropped.clone();
    let thread = std::thread::Builder::new().name("mdts-otlp".to_owned());
    let thread = thread.spawn(move || send_all(&ended, &place, &lost));
    let thread = thread.map_err(|source| Error::System { what: "no thread for spans", source })?;
    let spans = Spans { queue: queue.clone(), ids: Ids::default(), dropped };
    Ok((spans, Exporter { queue, thread: Some(thread) }))
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let end = Instant::now() + PATIENCE;
        let mut stop = Message::Stop;
        // A queue that stays full is that of a collector that hangs, and an error that of a thread that is gone.
        while let Err(TrySendError::Full(unsent)) = self.queue.try_send(stop) {
            if Instant::now() > end {
                return;
            }
            stop = unsent;
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Host and port.
fn place(url: &str) -> Option<String> {
    let place = url.strip_prefix("http://")?.trim_end_matches('/').trim_end_matches("/v1/traces");
    let is_plain = !place.is_empty() && place.chars().all(|c| !c.is_whitespace() && c != '/' && c != '@');
    let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    is_plain.then(|| if has_port { place.to_owned() } else { format!("{place}:4318") })
}

/// Ids that are unlikely to be those of another process.
#[derive(Default)]
struct Ids {
    seed: RandomState,
    count: AtomicU64,
}

impl Ids {
    fn next(&self) -> u64 {
        // An id of zeros is none.
        self.seed.hash_one(self.count.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let caller = fields.caller.take();
        let above = span.parent().and_then(|parent| {
            parent.extensions().get::<Open>().map(|open| (open.trace.clone(), open.id.clone()))
        });
        let (trace, parent) = match above.or(caller) {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (format!("{:016x}{:016x}", self.ids.next(), self.ids.next()), None),
        };
        let id = format!("{:016x}", self.ids.next());
        span.extensions_mut().insert(Open { trace, id, parent, begin: SystemTime::now(), fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        if self.queue.try_send(Message::Ended(ended(span.name(), open))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A span as the protocol has it.
fn ended(name: &str, open: Open) -> Value {
    let nanoseconds =
        |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string();
    let mut span = json!({
        "traceId": open.trace,
        "spanId": open.id,
        "name": name,
        "kind": 2, // of a server
        "startTimeUnixNano": nanoseconds(open.begin),
        "endTimeUnixNano": nanoseconds(SystemTime::now()),
        "attributes": open.fields.list,
    });
    if let Some(parent) = open.parent {
        span["parentSpanId"] = parent.into();
    }
    span
}

/// The fields of a span as attributes.
#[derive(Default)]
struct Fields {
    list: Vec<Value>,
    caller: Option<(String, String)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &Value) {
        self.list.push(json!({"key": field.name(), "value": value}));
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &json!({"intValue": value.to_string()}));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &json!({"intValue": value.to_string()}));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &json!({"doubleValue": value}));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &json!({"boolValue": value}));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == CALLER {
            self.caller = caller(value);
        } else {
            self.add(field, &json!({"stringValue": value}));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, &json!({"stringValue": format!("{value:?}")}));
    }
}

/// Trace and span of a caller: `00-TRACE-SPAN-FLAGS` (W3C Trace Context).
fn caller(text: &str) -> Option<(String, String)> {
    let mut parts = text.split('-');
    let (_, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let is_id = |id: &str, digits: usize| {
        id.len() == digits && id.bytes().all(|b| b.is_ascii_hexdigit()) && id.bytes().any(|b| b != b'0')
    };
    (is_id(trace, 32) && is_id(span, 16)).then(|| (trace.to_lowercase(), span.to_lowercase()))
}

fn send_all(ended: &Receiver<Message>, place: &str, dropped: &AtomicU64) {
    let (mut is_over, mut was_reached) = (false, true);
    while !is_over {
        let spans = gather(ended, &mut is_over);
        if spans.is_empty() {
            continue;
        }
        let count = spans.len();
        let sent = post(place, &spans);
        if let (Err(error), true) = (&sent, was_reached) {
            warn!(%error, place, count, "spans are lost: the collector cannot be reached");
        }
        was_reached = sent.is_ok();
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!(lost, "spans were dropped: the collector is too slow");
        }
    }
}

/// The spans of the next second; tells when there will be no more.
fn gather(ended: &Receiver<Message>, is_over: &mut bool) -> Vec<Value> {
    let (mut spans, end) = (Vec::new(), Instant::now() + PERIOD);
    while spans.len() < BATCH {
        match ended.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Message::Ended(span)) => spans.push(span),
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                *is_over = true;
                break;
            }
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    spans
}

fn post(place: &str, spans: &[Value]) -> io::Result<()> {
    let service = json!([{"key": "service.name", "value": {"stringValue": "mdts"}}]);
    let scope = json!({"name": "mdts", "version": env!("CARGO_PKG_VERSION")});
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": service},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    let body = body.to_string();
    let address = place.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    // Writing to a string does not fail.
    _ = write!(
        request,
        "POST /v1/traces HTTP/1.1\r\nHost: {place}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    stream.take(64 << 10).read_to_end(&mut head)?;
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if status.starts_with(b"2") {
        return Ok(());
    }
    Err(io::Error::other(format!("it answered {}", String::from_utf8_lossy(status))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_collectors() {
        assert_eq!(place("http://localhost").as_deref(), Some("localhost:4318"));
        assert_eq!(place("http://10.0.0.1:99/").as_deref(), Some("10.0.0.1:99"));
        assert_eq!(place("http://c:4318/v1/traces").as_deref(), Some("c:4318"));
        for wrong in ["https://x:1", "x:1", "http://", "http://a b", "http://x/y"] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn callers_are_told_by_their_header() {
        let good = "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned());
        assert_eq!(caller(good), Some((trace, span)));
        let zeros = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        for wrong in ["", "00-1-2-3", &zeros, "00-zz"] {
            assert_eq!(caller(wrong), None, "{wrong}");
        }
    }
}
