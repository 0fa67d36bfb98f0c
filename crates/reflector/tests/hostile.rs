//! A hostile server, over real HTTP: whatever it sends for as long as it likes, memory stays bounded and the error says what
//! was wrong.
//!
//! The allocator of this binary counts the bytes that are in use. Its tests take turns, since they share it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "kube")]

mod support;

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use peak_alloc::PeakAlloc;
use reflector::{
    Builder, Control, Format, KubeListWatch, Reflector, kube_client, protocol::ErrorReport, wire::Limits,
};
use support::cluster::{PATIENCE, fast, until};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Mutex, MutexGuard, mpsc},
};
use tracing::{Level, Metadata, Subscriber, span};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

static TURN: Mutex<()> = Mutex::const_new(());

const MIB: usize = 1 << 20;

/// What is answered to a request: some bytes once, and others for ever.
#[derive(Clone, Default)]
struct Answer {
    head: &'static str,
    once: Vec<u8>,
    repeated: Vec<u8>,
    pause: Duration,
}

const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
const GZIP: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\
                    Connection: close\r\n\r\n";
const PROTOBUF: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.kubernetes.protobuf\r\nConnection: close\r\n\r\n";

fn answer(head: &'static str, once: impl AsRef<[u8]>, repeated: impl AsRef<[u8]>) -> Answer {
    let (once, repeated) = (once.as_ref().to_vec(), repeated.as_ref().to_vec());
    Answer { head, once, repeated, pause: Duration::ZERO }
}

/// An empty list, after which one watches.
fn empty_list() -> Answer {
    answer(
        JSON,
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#,
        b"",
    )
}

async fn serve(mut stream: TcpStream, list: Arc<Answer>, watch: Arc<Answer>) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await?);
    }
    let is_watch = request.windows(10).any(|part| part == b"watch=true");
    let answer = if is_watch { watch } else { list };
    stream.write_all(answer.head.as_bytes()).await?;
    stream.write_all(&answer.once).await?;
    while !answer.repeated.is_empty() {
        stream.write_all(&answer.repeated).await?;
        if !answer.pause.is_zero() {
            tokio::time::sleep(answer.pause).await;
        }
    }
    stream.shutdown().await
}

/// A reflector of what such a server says, with limits that are reached soon.
async fn reflect(list: Answer, watch: Answer) -> Builder<DynamicObject, KubeListWatch<DynamicObject>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (list, watch) = (Arc::new(list), Arc::new(watch));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&list), Arc::clone(&watch)));
        }
    });
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
    let client = kube_client(kube::Config::new(url.parse().unwrap())).unwrap();
    let limits = Limits::default().object_bytes_max(MIB).envelope_bytes_max(MIB / 4).list_bytes_max(8 * MIB);
    let source =
        KubeListWatch::dynamic(client, &resource, Some("ns")).format(Format::Protobuf).limits(limits);
    Reflector::builder(source).options(fast).streaming(false).seed(1)
}

/// How much more memory was in use at the worst moment than before.
async fn peak<T>(work: impl Future<Output = T>) -> (T, usize) {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let result = work.await;
    (result, HEAP.peak_usage().saturating_sub(before))
}

async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// The first error that is reported.
async fn first_error(builder: Builder<DynamicObject, KubeListWatch<DynamicObject>>) -> String {
    let (send, mut reports) = mpsc::unbounded_channel();
    let reflector = builder
        .on_error(move |report: &ErrorReport| {
            send.send(report.failure.to_string()).ok();
            Control::Stop
        })
        .start();
    let error = tokio::time::timeout(PATIENCE, reports.recv()).await.expect("no error is reported").unwrap();
    reflector.stop().await;
    error
}

/// A hostile list ends in this error, and never needs more memory than that.
async fn list_fails(list: Answer, expected: &str, bytes_max: usize) {
    let _turn = turn().await;
    let (error, peak) = peak(async { first_error(reflect(list, empty_list()).await).await }).await;
    assert!(error.contains(expected), "{error}");
    assert!(peak <= bytes_max, "{peak} bytes for: {error}");
}

/// The same for a watch.
async fn watch_fails(watch: Answer, expected: &str, bytes_max: usize) {
    let _turn = turn().await;
    let (error, peak) = peak(async { first_error(reflect(empty_list(), watch).await).await }).await;
    assert!(error.contains(expected), "{error}");
    assert!(peak <= bytes_max, "{peak} bytes for: {error}");
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    bomb(plain, 1)
}

/// So many times the same. Piece by piece: somebody else may be measuring while this is made.
fn bomb(plain: &[u8], times: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..times {
        encoder.write_all(plain).unwrap();
    }
    encoder.finish().unwrap()
}

/// An object of 1 MiB at most may be in use twice for a moment; the rest is for buffers and the client.
const SOME: usize = 5 * MIB;

#[tokio::test]
async fn an_endless_string() {
    let start = r#"{"items":[{"data":{"a":""#;
    list_fails(answer(JSON, start, vec![b'x'; 60_000]), "an object at byte 10 is larger", SOME).await;
    let start = r#"{"type":"ADDED","object":{"data":{"a":""#;
    watch_fails(answer(JSON, start, vec![b'x'; 60_000]), "an object at byte 25 is larger", SOME).await;
}

#[tokio::test]
async fn an_endless_name_of_a_member() {
    list_fails(answer(JSON, r#"{""#, vec![b'x'; 60_000]), "the list at byte 0 is larger", SOME).await;
    watch_fails(answer(JSON, r#"{""#, vec![b'x'; 60_000]), "a watch event at byte 0 is larger", SOME).await;
}

#[tokio::test]
async fn endless_metadata_of_a_list() {
    let start = r#"{"metadata":{"continue":""#;
    list_fails(answer(JSON, start, vec![b'x'; 60_000]), "the list's own metadata at byte 12 is larger", SOME)
        .await;
}

#[tokio::test]
async fn deep_nesting() {
    list_fails(answer(JSON, r#"{"items":["#, vec![b'['; 50_000]), "nested deeper at byte 10008", SOME).await;
    watch_fails(answer(JSON, r#"{"object":"#, br#"{"":"#.repeat(9_000)), "nested deeper", SOME).await;
}

#[tokio::test]
async fn endless_white_space() {
    list_fails(answer(JSON, b" ", vec![b' '; 60_000]), "the list at byte 0 is larger", SOME).await;
    // In a watch it is no progress, however fast it comes: after the silence the collection is asked for, and so on.
    let _turn = turn().await;
    let builder = reflect(empty_list(), answer(JSON, b" ", vec![b' '; 60_000])).await;
    let (status, peak) = peak(async {
        let reflector = builder.start();
        let status = until(&reflector, |status| status.counts.lists >= 2).await;
        reflector.stop().await;
        status
    })
    .await;
    assert!(status.synced && peak <= SOME, "{peak} bytes, {status:?}");
}

#[tokio::test]
async fn a_list_that_never_ends() {
    let _turn = turn().await;
    // Some hundred thousand well-formed objects, each of another name.
    let before = HEAP.current_usage();
    let items: String = (0..200_000).map(|i| format!(r#"{{"metadata":{{"name":"{i}"}}}},"#)).collect();
    let list = answer(JSON, format!(r#"{{"items":[{items}"#), items);
    let own = HEAP.current_usage() - before;
    let (error, peak) = peak(async { first_error(reflect(list, empty_list()).await).await }).await;
    assert!(
        error.contains("the list at byte 0 is larger than the limit of 8388608 bytes (list_bytes_max)"),
        "{error}"
    );
    // So many small objects take several times their bytes.
    assert!(peak <= 160 * MIB, "{peak}");
    let left = HEAP.current_usage().saturating_sub(before);
    assert!(left <= own + 2 * MIB, "{left} bytes are left");
}

#[tokio::test]
async fn a_decompression_bomb() {
    let endless = bomb(&[b'x'; 4096], 8 * MIB / 4096);
    assert!(endless.len() < 10_000);
    let start = gzip(br#"{"items":[{"data":{"a":""#);
    // Four KiB at a time unfold to a little more than four MiB at the most, in a buffer that doubles.
    let more = SOME + 12 * MIB;
    list_fails(answer(GZIP, start, &endless), "an object at byte 10 is larger", more).await;
    let start = gzip(br#"{"type":"ADDED","object":{"data":{"a":""#);
    watch_fails(answer(GZIP, start, &endless), "an object at byte 25 is larger", more).await;
    // What is told of a tiny item is a hundred times as large as the item; only a few parts are under way at once.
    let items = bomb(&b"{},".repeat(1024), 1024);
    list_fails(answer(GZIP, gzip(br#"{"items":["#), &items), "the list at byte 0 is larger", 40 * MIB).await;
    let refusal = "HTTP/1.1 500 Oops\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n";
    list_fails(answer(refusal, b"", &endless), "500", more).await;
}

#[tokio::test]
async fn an_endless_refusal() {
    let refusal = "HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\n";
    list_fails(answer(refusal, b"", vec![b'x'; 60_000]), "500", SOME).await;
    watch_fails(answer(refusal, b"", br#"{"message":"#.repeat(5_000)), "500", SOME).await;
}

#[tokio::test]
async fn a_list_that_drips() {
    let drip = Answer { pause: Duration::from_millis(20), ..answer(JSON, r#"{"items":["#, b" ") };
    let _turn = turn().await;
    let builder =
        reflect(drip, empty_list()).await.options(|options| options.list_deadline = Duration::from_secs(1));
    assert_eq!(first_error(builder).await, "the list had not ended after 1s");
}

#[tokio::test]
async fn lengths_that_are_lies() {
    watch_fails(answer(PROTOBUF, [0xff; 4], b""), "a watch event at byte 0 is larger", SOME).await;
    // Within a frame of the right size, a field that claims 4 GiB.
    watch_fails(answer(PROTOBUF, b"\0\0\0\x07\x12\xff\xff\xff\xff\x0f\0", b""), "malformed protobuf", SOME)
        .await;
    let list = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dConfigMapList\x12";
    let huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    // A list of 2^64 bytes; and in it an item, metadata and something unknown of as many.
    for (field, expected) in [
        (&b"\x12"[..], "an object at byte 36 is larger"),
        (b"\x0a", "the list's own metadata at byte 36 is larger"),
        (b"\x7a", "the list at byte 0 is larger"),
    ] {
        let body = [&list[..], huge, field, huge].concat();
        list_fails(answer(PROTOBUF, body, vec![0; 60_000]), expected, SOME).await;
        // In a list of 100 bytes.
        let body = [&list[..], b"\x64", field, huge].concat();
        list_fails(answer(PROTOBUF, body, vec![0; 60_000]), "a field ends after its list", SOME).await;
    }
}

#[tokio::test]
async fn headers_without_end() {
    let head = "HTTP/1.1 200 OK\r\n";
    list_fails(answer(head, b"", b"X-Header: value\r\n".repeat(1000)), "message head is too large", SOME)
        .await;
    list_fails(answer(head, b"X-Header: ", vec![b'x'; 60_000]), "message head is too large", SOME).await;
    // Interim answers are allowed; that nothing follows them is noticed.
    let hints = b"HTTP/1.1 103 Early Hints\r\n\r\n";
    list_fails(answer("", hints, hints.repeat(100)), "the list stood still for 2s", SOME).await;
}

/// Counts the lines that people are woken by.
struct Warnings(&'static AtomicUsize);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_million_tiny_frames() {
    let _turn = turn().await;
    let added = br#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"5"}}}"#;
    for (event, warnings_max) in [
        (&added[..], 0),
        (br#"{"type":"ADDED","object":{}}"#, 21),
        (br#"{"type":"DIFFERENT"}"#, 21),
        (br#"{"type":"BOOKMARK"}"#, 0),
    ] {
        static WARNINGS: AtomicUsize = AtomicUsize::new(0);
        WARNINGS.store(0, Ordering::Relaxed);
        let _log = tracing::subscriber::set_default(Warnings(&WARNINGS));
        let stream = answer(JSON, b"", event.repeat(1000));
        let builder = reflect(empty_list(), stream).await;
        let ((), peak) = peak(async {
            let reflector = builder.start();
            until(&reflector, |status| status.synced).await;
            // As many as there are.
            tokio::time::sleep(Duration::from_millis(500)).await;
            reflector.stop().await;
        })
        .await;
        let what = String::from_utf8_lossy(event);
        assert!(peak <= 12 * MIB, "{peak} bytes of {what}");
        let warnings = WARNINGS.load(Ordering::Relaxed);
        assert!(warnings <= warnings_max, "{warnings} warnings of {what}");
    }
}

/// Both come in one piece of the answer. Else a watch that always breaks at the same place would never get there.
#[tokio::test]
async fn what_comes_before_broken_bytes_is_reflected() {
    let _turn = turn().await;
    let added = r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"5"}}}"#;
    let watch = answer(JSON, format!("{added}\n{added}\n]"), b"");
    let (send, mut failed) = mpsc::unbounded_channel();
    let reflector = reflect(empty_list(), watch)
        .await
        .on_error(move |report: &ErrorReport| {
            send.send(report.failure.to_string()).ok();
            Control::Stop
        })
        .start();
    let error = tokio::time::timeout(PATIENCE, failed.recv()).await.expect("no error is reported").unwrap();
    assert!(error.contains("expected `{`, found `]`"), "{error}");
    assert_eq!(reflector.cache().len(), 1);
    reflector.stop().await;
}
