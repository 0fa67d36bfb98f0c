//! A small, faithful, fault-injecting Kubernetes API server, in process.
//!
//! For tests and demonstrations of everything that lists and watches: reflectors, informers, controllers, caches. It speaks
//! LIST and WATCH as kube-apiserver 1.36 does, down to resource versions, continue tokens, bookmarks, streaming lists and the
//! wording of errors; kubectl and the client libraries of other languages can talk to it. And it can do on purpose what real
//! servers, proxies and networks do when nobody watches.
//!
//! ```
//! use reflector_apiserver::{ApiServer, Verb, faults::Fault};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::start().await?;
//! let object = json!({"metadata": {"name": "one", "namespace": "default"}, "data": {"key": "value"}});
//! server.with_core(|core| core.create("configmaps", object))?;
//!
//! // The next list is refused, and the one after it is not.
//! server.inject(Fault::on(Verb::List).resource("configmaps").once().status(429).retry_after(2));
//! let refused = ask(&server, "/api/v1/namespaces/default/configmaps").await?;
//! assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n") && refused.contains("retry-after: 2\r\n"));
//! let listed = ask(&server, "/api/v1/namespaces/default/configmaps").await?;
//! assert!(listed.starts_with("HTTP/1.1 200 OK\r\n") && listed.contains(r#""data":{"key":"value"}"#));
//!
//! assert_eq!(server.requests().len(), 2);
//! server.stop().await;
//! # Ok(())
//! # }
//! # async fn ask(server: &ApiServer, path: &str) -> std::io::Result<String> {
//! #     use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! #     let mut stream = tokio::net::TcpStream::connect(server.address()).await?;
//! #     let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
//! #     stream.write_all(request.as_bytes()).await?;
//! #     let mut answer = String::new();
//! #     stream.read_to_string(&mut answer).await?;
//! #     Ok(answer)
//! # }
//! ```
//!
//! The parts, each of which can be used without those that follow:
//!
//! - [`core`] is the API server: an etcd log and watch caches, without I/O, clock or randomness of its own.
//! - [`seed`] makes up clusters with realistic pods, and the churn on them.
//! - [`faults`] is a layer over the core that disturbs its answers, from a seed.
//! - [`ApiServer`] is the HTTP front (feature `http`, on by default): a port on the loopback interface, discovery, tokens and
//!   rules, a log of requests.
#![forbid(unsafe_code)]

pub mod core;
#[cfg(feature = "http")]
mod discovery;
pub mod faults;
#[cfg(feature = "http")]
mod front;
mod request;
pub mod seed;

#[cfg(feature = "http")]
pub use front::{
    AccessRule, ApiServer, Auth, Builder, ClusterError, LoggedRequest, Outage, RunningCluster, StartError,
};
pub use request::{RequestInfo, UnknownVerb, Verb};
