//! The Kubernetes source, over [`kube::Client`]: authentication, TLS and proxies are the client's.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::{
    Client, Config, Resource,
    client::{Body, ClientBuilder},
    core::{ApiResource, NamespaceResourceScope, PartialObjectMeta},
};

use reflector_protobuf::Kind;

use super::{ListOptions, ListPart, ListStream, ListWatch, WatchOptions, WatchStream, refused};
use crate::{
    protocol::{Failure, FailureKind},
    wire::{Inflate, Limits, ListCutter, Status, TypeMeta, WatchCutter, WatchEvent, WireError},
};

/// A collection of a Kubernetes API server.
///
/// Typed, dynamic or metadata only; in one namespace or in all. Selectors are the reflector's, see
/// [`Builder::labels`](crate::Builder::labels).
///
/// # Retries
///
/// The protocol has to see every refusal. kube's stock client hides them: it repeats a request that was answered
/// 429, 503 or 504 up to 15 times before its caller learns of it. [`kube_client`] makes a client without that
/// layer, and is what should be used here. With any other client everything still works, but a
/// server that is overloaded or ahead is noticed minutes later (K9).
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use reflector::{KubeListWatch, Reflector, kube_client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube_client(kube::Config::infer().await?)?;
/// let pods = Reflector::builder(KubeListWatch::<Pod>::namespaced(client, "shop")).labels("app=cart").start();
/// # Ok(()) }
/// ```
pub struct KubeListWatch<K> {
    client: Mutex<Client>,
    /// Makes a client with fresh credentials.
    renew: Option<Renew>,
    path: String,
    types: TypeMeta,
    target: String,
    form: Form,
    format: Format,
    /// The server has refused protobuf, or sent some that cannot be read: from then on JSON is asked for.
    json_only: Arc<AtomicBool>,
    limits: Limits,
    compression: bool,
    kind: PhantomData<fn() -> K>,
}

type Renew = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Client, kube::Error>> + Send>> + Send + Sync>;

/// How the objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Metadata,
}

/// In which format objects are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Protobuf for the built-in types and for metadata, JSON for everything else, and for servers that speak no
    /// protobuf. What a server has refused once is not asked for again.
    #[default]
    Protobuf,
    /// JSON.
    Json,
}

/// The media type of Kubernetes' protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// An error body is read no further than this, and no longer than [`ERROR_BODY_WAIT`].
const ERROR_BODY_MAX: usize = 64 << 10;
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);

/// So much of a compressed body is taken at a time. Deflate unfolds by a factor of 1032 at the most, so this bounds
/// what a decompression bomb can fill to 4 MiB, three times that while the buffer grows, before the cutter's limits
/// see it.
const INFLATE_STEP: usize = 4 << 10;

/// Unfolded bytes are handed on so many at a time: a bomb of tiny items makes a hundred times as much of them.
const PLAIN_STEP: usize = 128 << 10;

/// So many bytes of a watch are taken together, if they are there. With more, a streaming list needs more memory.
const TOGETHER: usize = 32 << 10;

/// A client that shows every answer of the server: kube's stock client without its own retries.
///
/// # Errors
///
/// If the configuration cannot be used: certificates, exec plugin, proxy.
pub fn kube_client(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    // Where kube's feature `gzip` is on, its own decompression would come first, and it stops after one member.
    config.disable_compression = true;
    Ok(ClientBuilder::try_from(config)?.build())
}

impl<K> KubeListWatch<K> {
    /// All objects of a type, in all namespaces if it has any.
    #[must_use]
    pub fn all(client: Client) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        Self::of::<K>(client, &(), None, Form::Whole)
    }

    /// The objects of a namespaced type in one namespace.
    #[must_use]
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Self::of::<K>(client, &(), Some(namespace), Form::Whole)
    }

    /// The objects of a type that is known at run time; in all namespaces, or in one.
    ///
    /// ```no_run
    /// use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
    /// use reflector::KubeListWatch;
    /// # fn example(client: kube::Client) {
    /// let gadgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Gadget"));
    /// let source = KubeListWatch::<DynamicObject>::dynamic(client, &gadgets, None);
    /// # }
    /// ```
    #[must_use]
    pub fn dynamic(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Self {
        Self::of::<kube::core::DynamicObject>(client, resource, namespace, Form::Whole)
    }

    fn of<R: Resource>(
        client: Client,
        dynamic: &R::DynamicType,
        namespace: Option<&str>,
        form: Form,
    ) -> Self {
        let (group, plural) = (R::group(dynamic), R::plural(dynamic));
        let mut target = if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") };
        if let Some(namespace) = namespace {
            target = format!("{target} in namespace {namespace}");
        }
        Self {
            client: Mutex::new(client),
            renew: None,
            path: R::url_path(dynamic, namespace),
            types: TypeMeta::new(R::api_version(dynamic), R::kind(dynamic)),
            target,
            form,
            format: Format::default(),
            json_only: Arc::default(),
            limits: Limits::default(),
            compression: true,
            kind: PhantomData,
        }
    }

    /// The same collection, of which the server sends nothing but the metadata: the cheapest way to follow names,
    /// labels and owners.
    #[must_use]
    pub fn metadata_only(mut self) -> KubeListWatch<PartialObjectMeta<K>> {
        self.types = TypeMeta::new("meta.k8s.io/v1", "PartialObjectMetadata");
        self.form = Form::Metadata;
        self.read_as()
    }

    /// The same collection, read as another type: a struct of just those fields that are needed. Everything else is
    /// skipped when an object is decoded, whatever the type of the collection is.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Pod;
    /// use reflector::{BodyForm, KubeListWatch, Reflector};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Placed { spec: Spec }
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct Spec { node_name: Option<String> }
    ///
    /// # fn example(client: kube::Client) {
    /// let pods = KubeListWatch::<Pod>::all(client).read_as::<Placed>();
    /// let pods = Reflector::builder(pods).body(BodyForm::decoded()).start();
    /// # }
    /// ```
    #[must_use]
    pub fn read_as<T>(self) -> KubeListWatch<T> {
        KubeListWatch {
            client: self.client,
            renew: self.renew,
            path: self.path,
            types: self.types,
            target: self.target,
            form: self.form,
            format: self.format,
            json_only: self.json_only,
            limits: self.limits,
            compression: self.compression,
            kind: PhantomData,
        }
    }

    /// In which format the objects are asked for. Default: [`Format::Protobuf`], which takes the server, the network and
    /// this side a fraction of what JSON takes.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// How large things may get before they are refused.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether the server may compress its answers with gzip. Default true. Costs the client a little CPU, and saves
    /// about nine tenths of the network.
    #[must_use]
    pub fn compression(mut self, compression: bool) -> Self {
        self.compression = compression;
        self
    }

    /// How to get a client with fresh credentials, after a 401.
    ///
    /// Tokens from files and exec plugins are renewed by kube itself before they expire. This is for those that are
    /// revoked or rotated early: by default the same client is used again.
    ///
    /// ```no_run
    /// # use reflector::{KubeListWatch, kube_client};
    /// # fn example(source: KubeListWatch<k8s_openapi::api::core::v1::Pod>) {
    /// let source = source.renew(|| async {
    ///     let config = kube::Config::infer().await.map_err(kube::Error::InferConfig)?;
    ///     kube_client(config)
    /// });
    /// # }
    /// ```
    #[must_use]
    pub fn renew<F, R>(mut self, renew: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Client, kube::Error>> + Send + 'static,
    {
        self.renew = Some(Box::new(move || Box::pin(renew())));
        self
    }

    fn client(&self) -> Client {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether protobuf is worth asking for.
    fn wants_protobuf(&self) -> bool {
        self.format == Format::Protobuf
            && !self.json_only.load(Ordering::Relaxed)
            && Kind::find(&self.types.api_version, &self.types.kind).is_some()
    }

    fn accept(&self, list: bool) -> String {
        let form = match (self.form, list) {
            (Form::Whole, _) => "",
            (Form::Metadata, true) => ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (Form::Metadata, false) => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        };
        let json = format!("application/json{form}");
        if self.wants_protobuf() { format!("{PROTOBUF}{form},{json}") } else { json }
    }

    /// Sends one request; the answer is a success, or a [`Failure`].
    async fn send(
        &self,
        parameters: Vec<(&'static str, String)>,
        list: bool,
    ) -> Result<Response<Body>, Failure> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let mut request =
            Request::get(format!("{}?{query}", self.path)).header(header::ACCEPT, self.accept(list));
        if self.compression {
            request = request.header(header::ACCEPT_ENCODING, "gzip");
        }
        let request = request.body(Body::empty()).map_err(Failure::malformed)?;
        let response = self.client().send(request).await.map_err(Failure::transport)?;
        if response.status() == StatusCode::OK { Ok(response) } else { Err(refusal(response).await) }
    }

    /// Sends one request; where the server takes no protobuf (406), it is sent once more for JSON.
    async fn negotiate(
        &self,
        parameters: Vec<(&'static str, String)>,
        list: bool,
    ) -> Result<Answer, Failure> {
        let wanted = self.wants_protobuf();
        let response = match self.send(parameters.clone(), list).await {
            Err(failure) if wanted && matches!(failure.kind(), FailureKind::Refused { code: 406, .. }) => {
                tracing::info!(target = %self.target, "the server takes no protobuf, so JSON is asked for");
                self.json_only.store(true, Ordering::Relaxed);
                self.send(parameters, list).await?
            }
            sent => sent?,
        };
        let content_type = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let protobuf = content_type.is_some_and(|t| t.starts_with(PROTOBUF.as_bytes()));
        Ok(Answer { body: plain(response, &self.target), protobuf, json_only: Arc::clone(&self.json_only) })
    }
}

/// A success, whose body is still to come.
struct Answer {
    body: Plain,
    protobuf: bool,
    json_only: Arc<AtomicBool>,
}

impl Answer {
    /// A body that cannot be read. One in protobuf may be readable in JSON: the next request asks for that.
    fn malformed(&self, error: WireError) -> Failure {
        if self.protobuf
            && matches!(error, WireError::Protobuf { .. } | WireError::Envelope { member: "kind", .. })
        {
            tracing::warn!(%error, "protobuf that cannot be read, so JSON is asked for from now on");
            self.json_only.store(true, Ordering::Relaxed);
        }
        Failure::malformed(error)
    }
}

/// A watch that is read.
struct Watching<K> {
    answer: Answer,
    /// Gone when the stream is over.
    cutter: Option<WatchCutter<K>>,
    /// Why it is over, until that is told.
    failure: Option<Failure>,
}

impl<K> Watching<K> {
    /// What has come, all of it: a change costs the store and its subscribers less among others. What came before a
    /// failure is told before it, or a watch that always breaks at the same place would never get there.
    async fn next(&mut self) -> Option<Result<Vec<WatchEvent<K>>, Failure>> {
        let mut events = Vec::new();
        if self.cutter.is_some() {
            let slice = self.answer.body.next().await;
            let mut bytes = self.take(slice, &mut events);
            while self.cutter.is_some()
                && bytes < TOGETHER
                && let Some(slice) = at_hand(&mut self.answer.body).await
            {
                bytes += self.take(slice, &mut events);
            }
        }
        // Nothing whole yet is a sign of life.
        if self.cutter.is_some() || !events.is_empty() {
            return Some(Ok(events));
        }
        self.failure.take().map(Err)
    }

    /// Cuts a slice, or what comes in its place. Returns how many bytes it had.
    fn take(&mut self, slice: Option<Result<Bytes, Failure>>, events: &mut Vec<WatchEvent<K>>) -> usize {
        let Some(mut cutter) = self.cutter.take() else { return 0 };
        let (bytes, over) = match slice {
            Some(Ok(slice)) => match cutter.push(&slice, events) {
                Ok(()) => {
                    self.cutter = Some(cutter);
                    return slice.len();
                }
                Err(error) => (slice.len(), Err(self.answer.malformed(error))),
            },
            Some(Err(failure)) => (0, Err(failure)),
            None => (0, cutter.finish().map_err(|error| self.answer.malformed(error))),
        };
        self.failure = over.err();
        bytes
    }
}

/// What is there already, or is as soon as the task that reads the connection had its turn.
async fn at_hand(body: &mut Plain) -> Option<Option<Result<Bytes, Failure>>> {
    let next = body.next().now_or_never();
    if next.is_some() {
        return next;
    }
    tokio::task::yield_now().await;
    body.next().now_or_never()
}

impl<K: Send + 'static> ListWatch<K> for KubeListWatch<K> {
    async fn list(&self, options: ListOptions) -> Result<ListStream<K>, Failure> {
        let answer = self.negotiate(options.parameters(), true).await?;
        let cutter = if answer.protobuf {
            ListCutter::<K>::protobuf(self.limits)
        } else {
            ListCutter::<K>::new(Some(self.types.clone()), self.limits)
        };
        Ok(stream::try_unfold((answer, Some(cutter)), |(mut answer, cutter)| async move {
            let Some(mut cutter) = cutter else { return Ok(None) };
            match answer.body.try_next().await? {
                Some(slice) => {
                    let mut items = Vec::new();
                    cutter.push(&slice, &mut items).map_err(|error| answer.malformed(error))?;
                    Ok(Some((ListPart::Items(items), (answer, Some(cutter)))))
                }
                None => {
                    let end = cutter.finish().map_err(|error| answer.malformed(error))?;
                    Ok(Some((ListPart::End(end), (answer, None))))
                }
            }
        })
        .boxed())
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<K>, Failure> {
        let answer = self.negotiate(options.parameters(), false).await?;
        let cutter = if answer.protobuf {
            WatchCutter::<K>::protobuf(self.limits)
        } else {
            WatchCutter::<K>::new(Some(self.types.clone()), self.limits)
        };
        let watching = Watching { answer, cutter: Some(cutter), failure: None };
        Ok(stream::unfold(watching, async |mut watching| Some((watching.next().await?, watching))).boxed())
    }

    async fn refresh(&self) {
        let Some(renew) = &self.renew else { return };
        match renew().await {
            Ok(client) => *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client,
            Err(error) => tracing::warn!(target = %self.target, %error, "cannot renew the credentials"),
        }
    }

    fn describe(&self) -> String {
        self.target.clone()
    }
}

impl<K> fmt::Debug for KubeListWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeListWatch").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The bytes of a body, decompressed while they come.
type Plain = BoxStream<'static, Result<Bytes, Failure>>;

fn plain(response: Response<Body>, target: &str) -> Plain {
    let gzip = is_gzip(response.headers());
    let received = metrics::counter!("reflector_received_bytes_total", "resource" => target.to_owned());
    let body = response.into_body().into_data_stream().map_err(Failure::transport);
    let body = body.inspect_ok(move |chunk| received.increment(chunk.len() as u64)).boxed();
    if gzip { inflated(body).boxed() } else { body }
}

fn is_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|e| e.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

fn inflated(
    body: impl Stream<Item = Result<Bytes, Failure>> + Send + Unpin,
) -> impl Stream<Item = Result<Bytes, Failure>> + Send {
    stream::try_unfold(
        (body, Inflate::new(), Bytes::new(), Bytes::new()),
        |(mut body, mut inflate, mut chunk, mut plain)| async move {
            if plain.is_empty() {
                if chunk.is_empty() {
                    match body.try_next().await? {
                        Some(next) => chunk = next,
                        None => return inflate.finish().map(|()| None).map_err(Failure::malformed),
                    }
                }
                let step = chunk.split_to(chunk.len().min(INFLATE_STEP));
                let mut unfolded = Vec::new();
                inflate
                    .push(&step, |slice| {
                        unfolded.extend_from_slice(slice);
                        Ok::<(), WireError>(())
                    })
                    .map_err(Failure::malformed)?;
                plain = unfolded.into();
            }
            let slice = plain.split_to(plain.len().min(PLAIN_STEP));
            Ok(Some((slice, (body, inflate, chunk, plain))))
        },
    )
}

/// What the server said instead of what was asked for.
async fn refusal(response: Response<Body>) -> Failure {
    let code = response.status().as_u16();
    let headers = response.headers().clone();
    let gzip = is_gzip(&headers);
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let mut body = Vec::new();
    let chunks = response.into_body().into_data_stream().map_err(Failure::transport).boxed();
    let mut chunks = if gzip { inflated(chunks).boxed() } else { chunks };
    // Whatever has come by then is enough to tell what is wrong.
    let _ = tokio::time::timeout(ERROR_BODY_WAIT, async {
        while body.len() < ERROR_BODY_MAX
            && let Some(Ok(chunk)) = chunks.next().await
        {
            body.extend_from_slice(&chunk);
        }
    })
    .await;
    let status = Status::from_body(code, content_type, &body);
    refused(&status, retry_after(&headers))
}

/// `Retry-After` in whole seconds (RFC 9110 §10.2.3); API servers do not use the form with a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
