//! The client's process: one library, one phase after the other.

use std::time::Duration;

use clap::ValueEnum;
use futures::{StreamExt, io::AsyncReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, ResourceExt,
    api::ListParams,
    core::Request,
    runtime::{WatchStreamExt, reflector as peer, watcher},
};
use reflector::{BodyForm, Event, Format, IndexBy, KubeListWatch, Reflector, ResourceVersion, kube_client};
use tokio::{sync::mpsc, time};

use crate::{
    Failure,
    process::orders,
    usage::{Usage, forget_peak},
};

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// reflector, from JSON, bodies kept as they came.
    Json,
    /// The same from protobuf.
    Wire,
    /// reflector as it is by default: from protobuf, bodies packed.
    Packed,
    /// The same with an index by node.
    Indexed,
    /// kube-runtime's watcher and store, by default: pages of a list.
    Kube,
    /// The same with a streaming list.
    KubeStreaming,
    /// The bytes of the list, in pages of 500, read and thrown away.
    Floor,
}

impl Who {
    pub(super) fn argument(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Wire => "wire",
            Self::Packed => "packed",
            Self::Indexed => "indexed",
            Self::Kube => "kube",
            Self::KubeStreaming => "kube-streaming",
            Self::Floor => "floor",
        }
    }
}

/// Long enough for what was freed to be given back, and for buffers to be dropped.
const SETTLE: Duration = Duration::from_secs(1);

/// Runs until the parent closes the input.
pub(super) async fn run(who: Who, url: &str) -> Result<(), Failure> {
    println!("{}", Usage::now(0)?);
    let mut orders = orders();
    let config = Config::new(url.parse()?);
    orders.recv().await.ok_or("no order")?;
    match who {
        Who::Json | Who::Wire | Who::Packed | Who::Indexed => ours(kube_client(config)?, who, orders).await,
        Who::Kube => kube(Client::try_from(config)?, watcher::Config::default(), orders).await,
        Who::KubeStreaming => {
            kube(Client::try_from(config)?, watcher::Config::default().streaming_lists(), orders).await
        }
        Who::Floor => floor(kube_client(config)?, orders).await,
    }
}

async fn ours(client: Client, who: Who, mut orders: mpsc::UnboundedReceiver<String>) -> Result<(), Failure> {
    let format = if who == Who::Json { Format::Json } else { Format::Protobuf };
    let form = match who {
        Who::Json | Who::Wire => BodyForm::wire(),
        _ => BodyForm::packed(),
    };
    let source = KubeListWatch::<Pod>::all(client).compression(false).format(format);
    let mut pods = Reflector::builder(source).body(form);
    if who == Who::Indexed {
        pods.index_by(IndexBy::field("spec.nodeName"));
    }
    let pods = pods.start();
    pods.ready().await?;
    println!("{}", Usage::now(pods.cache().len() as u64)?);
    // What a subscriber hears of a relist is counted; only that phase pays for it.
    let mut events = None;
    while let Some(order) = orders.recv().await {
        let count = match order.split_once(' ') {
            Some(("until", version)) => {
                let version = ResourceVersion::new(version).ok_or("not a version")?;
                while pods.cache().version().is_none_or(|at| at.is_older_than(&version)) {
                    time::sleep(Duration::from_millis(2)).await;
                }
                pods.status().counts.events
            }
            _ if order == "relisted" => {
                while pods.status().counts.syncs < 2 {
                    time::sleep(Duration::from_millis(2)).await;
                }
                let mut heard = 0;
                if let Some(events) = &mut events {
                    while let Ok(Some(event)) = time::timeout(SETTLE, StreamExt::next(events)).await {
                        heard += u64::from(matches!(
                            event,
                            Event::Added { .. } | Event::Updated { .. } | Event::Deleted { .. }
                        ));
                    }
                }
                heard
            }
            _ if order == "subscribe" => {
                let mut subscription = pods.cache().subscribe();
                while let Some(event) = subscription.next().await {
                    if matches!(event, Event::Synced) {
                        break;
                    }
                }
                events = Some(subscription);
                0
            }
            _ => settle().await?,
        };
        println!("{}", Usage::now(count)?);
    }
    pods.stop().await;
    Ok(())
}

async fn settle() -> Result<u64, Failure> {
    time::sleep(SETTLE).await;
    forget_peak()?;
    Ok(0)
}

async fn kube(
    client: Client,
    config: watcher::Config,
    mut orders: mpsc::UnboundedReceiver<String>,
) -> Result<(), Failure> {
    let (reader, writer) = peer::store();
    let mut events =
        std::pin::pin!(peer::reflector(writer, watcher(Api::<Pod>::all(client), config)).default_backoff());
    let mut syncs = 0;
    let mut version = 0;
    let mut heard = 0;
    let mut wanted: Option<String> = None;
    let mut told = false;
    loop {
        tokio::select! {
            // A broken watch is retried by the watcher; the error says only that.
            event = events.next() => match event.ok_or("the watcher ended")? {
                Ok(watcher::Event::InitDone) => syncs += 1,
                Ok(watcher::Event::Apply(pod)) => {
                    heard += 1;
                    version = pod.resource_version().unwrap_or_default().parse::<u64>()?;
                }
                _ => {}
            },
            order = orders.recv() => match order {
                None => return Ok(()),
                Some(order) if order.starts_with("until") || order == "relisted" => wanted = Some(order),
                Some(order) => {
                    if order != "subscribe" {
                        settle().await?;
                    }
                    println!("{}", Usage::now(0)?);
                }
            },
        }
        if syncs == 1 && !told {
            told = true;
            println!("{}", Usage::now(reader.state().len() as u64)?);
        }
        let reached = match wanted.as_deref().map(|order| order.split_once(' ')) {
            Some(Some((_, wanted))) => version >= wanted.parse()?,
            Some(None) => syncs >= 2,
            None => false,
        };
        if reached {
            wanted = None;
            println!("{}", Usage::now(heard)?);
        }
    }
}

async fn floor(client: Client, mut orders: mpsc::UnboundedReceiver<String>) -> Result<(), Failure> {
    let mut token: Option<String> = None;
    let mut total = 0;
    loop {
        let mut page = ListParams::default().limit(500);
        page.continue_token = token.take();
        let request = Request::new("/api/v1/pods").list(&page)?;
        let mut body = std::pin::pin!(client.request_stream(request).await?);
        let mut buffer = vec![0; 64 << 10];
        // The continue token is in the list's metadata, at its beginning.
        let mut head = Vec::new();
        loop {
            let read = body.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            if head.len() < 4096 {
                head.extend_from_slice(buffer.get(..read).unwrap_or_default());
            }
            total += read as u64;
        }
        token = continue_token(&head);
        if token.is_none() {
            break;
        }
    }
    println!("{}", Usage::now(total)?);
    while orders.recv().await.is_some() {
        settle().await?;
        println!("{}", Usage::now(total)?);
    }
    Ok(())
}

/// The token of the next page, from the beginning of a list.
fn continue_token(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let (_, rest) = head.split_once(r#""continue":""#)?;
    let (token, _) = rest.split_once('"')?;
    (!token.is_empty()).then(|| token.to_owned())
}
