//! Many handlers on one copy: client-go's shared informers and their factory.
//!
//! A [`SharedInformer`] is one [`Reflector`](crate::Reflector) and any number of [handlers](EventHandler). Each handler
//! has a task and a [`Subscription`](crate::Subscription) of its own, so a slow one costs memory of its own, bounded by
//! its [`Policy`](crate::Policy), and delays nobody. An [`InformerFactory`] keeps one informer per collection. [`Handlers`] are
//! the same without a reflector, for a cache that something else fills.

mod factory;
mod handler;
mod handlers;
#[cfg(feature = "kube")]
mod kube;
mod options;
mod registration;
mod shared;
mod sync;
mod task;

pub use factory::{FactoryStopped, InformerFactory};
pub use handler::{Callbacks, EventHandler, FromAsyncFn, FromFn, from_async_fn, from_fn};
pub use handlers::Handlers;
#[cfg(feature = "kube")]
pub use kube::{KubeInformer, KubeInformers};
pub use options::{HandlerOptions, OnPanic};
pub use registration::{HandlerState, InsideHandler, NotSynced, Registration};
pub use shared::{AlreadyStopped, SharedInformer, Stopped};
pub use sync::{Cause, Laggard, Laggards};
