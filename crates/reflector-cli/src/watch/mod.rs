//! `reflector watch`: a collection on the terminal, as it is and as it changes.
//!
//! The watch never waits for the terminal. While the terminal keeps up, every change is printed. Once too many wait,
//! the changes of each object are merged into what is different from what was printed, and no deletion is lost.

mod columns;
mod options;
mod printer;
mod state;
mod table;

use std::{future::pending, time::Duration};

use kube::core::{ApiResource, GroupVersionKind};
use reflector::{
    Control, Format, KubeListWatch, NotReady, Policy, Reflector, Subscription,
    protocol::{Class, ErrorReport},
    store::{LagMeter, WhenFull},
};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
};

pub(crate) use self::options::Options;
use self::{printer::Printer, state::Teller};
use crate::{
    connect::{Connection, connect},
    counters::Counters,
    discovery::{Resource, discover},
    error::Error,
    format::seconds,
    output, signals,
};

/// So many changes may wait for the terminal before they are merged.
const WAITING_MAX: usize = 10_000;

/// How long the last lines may take on their way to a terminal that does not read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) async fn run(options: Options) -> Result<(), Error> {
    tokio::select! {
        // Whatever it is doing: it has been told to end.
        () = signals::end(), if options.once => Ok(()),
        result = follow(&options) => result,
    }
}

async fn follow(options: &Options) -> Result<(), Error> {
    // From the start: the library takes its counters when a reflector is made.
    let counters = Counters::install();
    let connection = connect(&options.cluster).await?;
    let discovery = discover(&connection).await?;
    let resource = options
        .name()
        .find(&discovery)
        .map_err(|error| Error::failed(format!("{error} (asked {})", connection.url)))?;
    let scope = options.scope(&connection, resource);
    let kind = GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind);
    let api = ApiResource::from_gvk_with_plural(&kind, &resource.plural);
    let source =
        KubeListWatch::<serde_json::Value>::dynamic(connection.client.clone(), &api, scope.as_deref())
            // What is shown is to be what the server wrote, to the order of its members.
            .format(Format::Json);
    let session = Session { options, connection: &connection, resource, scope: scope.as_deref(), counters };
    if options.metadata_only { session.run(source.metadata_only()).await } else { session.run(source).await }
}

/// All that is known once the server has been asked what it has.
struct Session<'a> {
    options: &'a Options,
    connection: &'a Connection,
    resource: &'a Resource,
    /// The namespace; `None` for all, and for resources without.
    scope: Option<&'a str>,
    counters: Counters,
}

impl Session<'_> {
    async fn run<K: Send + 'static>(&self, source: KubeListWatch<K>) -> Result<(), Error> {
        if self.options.once { self.once(source).await } else { self.forever(source).await }
    }

    fn builder<K: Send + 'static>(
        &self,
        source: KubeListWatch<K>,
        mut on_error: impl FnMut(&ErrorReport) + Send + 'static,
    ) -> reflector::Builder<K, KubeListWatch<K>> {
        let mut builder = Reflector::builder(source).on_error(move |report| {
            on_error(report);
            Control::Continue
        });
        if let Some(labels) = &self.options.labels {
            builder = builder.labels(labels);
        }
        if let Some(fields) = &self.options.fields {
            builder = builder.fields(fields);
        }
        builder
    }

    fn printer(&self) -> Printer {
        Printer::new(self.resource, self.options, self.scope.is_none())
    }

    /// Prints the list when it is complete.
    async fn once<K: Send + 'static>(&self, source: KubeListWatch<K>) -> Result<(), Error> {
        let (tell, mut told) = mpsc::channel::<ErrorReport>(16);
        let builder = self.builder(source, move |report| {
            if report.first && passing(report.class) {
                let _ = tell.try_send(report.clone());
            }
        });
        let reflector = builder.start();
        loop {
            tokio::select! {
                // What went wrong before is told before.
                biased;
                Some(report) = told.recv() => {
                    output::note(&format!("reflector: {report}; trying again in {}", seconds(report.retry_in)));
                }
                ready = reflector.ready() => {
                    ready.map_err(|error| self.blocked(&error))?;
                    break;
                }
            }
        }
        let cache = reflector.stop().await;
        if cache.is_empty() && self.printer().is_for_people() {
            output::note(&format!("No {} found{}.", self.resource.qualified(), self.place()));
            return Ok(());
        }
        self.printer().list(&cache).map_err(|error| Error::stdout(&error))
    }

    /// Prints changes until it is told to end.
    async fn forever<K: Send + 'static>(&self, source: KubeListWatch<K>) -> Result<(), Error> {
        let (report, mut reports) = mpsc::channel::<ErrorReport>(64);
        let builder = self.builder(source, move |error| {
            // Only what is new is worth a line; and where lines pile up, the next state says more.
            if error.first {
                let _ = report.try_send(error.clone());
            }
        });
        let policy = Policy::Every { bound: WAITING_MAX, when_full: WhenFull::Merge };
        let changes = builder.cache().subscription().policy(policy).subscribe();
        let meter = changes.meter();
        let mut printed = self.print(changes)?;
        let reflector = builder.start();
        let told = tokio::select! {
            told = self.tell(&reflector, &meter, &mut reports) => told,
            result = &mut printed => result.unwrap_or(Ok(())),
            () = signals::stdout_closed() => Err(Error::PipeClosed),
            () = signals::end() => Ok(()),
        };
        // The changes end with it, and so does the printer.
        reflector.stop().await;
        // What was seen is printed, unless nobody reads, and the printer was the first to notice.
        if !printed.is_terminated() {
            let _ = tokio::time::timeout(LAST_LINES, printed).await;
        }
        told
    }

    /// Starts the thread that prints: a terminal may block it for as long as it likes.
    fn print<K: Send + 'static>(
        &self,
        changes: Subscription<K>,
    ) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
        let mut printer = self.printer();
        let runtime = runtime::Handle::current();
        let (done, printed) = oneshot::channel();
        std::thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || {
                let result = printer.follow(changes, &runtime).map_err(|error| Error::stdout(&error));
                let _ = done.send(result);
            })
            .map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
        Ok(printed)
    }

    /// Tells on stderr what becomes of the connection. Ends only if the first sync can never be.
    async fn tell<K: Send + 'static>(
        &self,
        reflector: &Reflector<K>,
        meter: &LagMeter<K>,
        reports: &mut mpsc::Receiver<ErrorReport>,
    ) -> Result<(), Error> {
        let mut teller =
            Teller::new(format!("{}{} at {}", self.resource.qualified(), self.place(), self.connection.url));
        let mut status = reflector.handle().watch_status();
        loop {
            tokio::select! {
                // Errors come before the states that they lead to.
                biased;
                Some(report) = reports.recv() => {
                    if !reflector.status().synced && !passing(report.class) {
                        return Err(self.blocked(&NotReady::Blocked(Box::new(report))));
                    }
                    teller.failed(&report);
                }
                changed = status.changed() => {
                    if changed.is_err() {
                        return pending().await;
                    }
                    let seen = status.borrow_and_update().clone();
                    teller.relisted(&self.counters.by("reflector_relists_total", "reason"));
                    teller.state(&seen, reflector.cache().len());
                    teller.merged(meter.lag().map_or(0, |lag| lag.merged));
                }
            }
        }
    }

    /// What keeps the first list from coming.
    fn blocked(&self, error: &NotReady) -> Error {
        let NotReady::Blocked(report) = error else { return Error::failed(error.to_string()) };
        let next = match report.class {
            Class::Unauthorized => "the server does not accept these credentials",
            Class::Forbidden => "somebody has to grant `list` and `watch`",
            Class::Mistake if self.options.labels.is_some() || self.options.fields.is_some() => {
                "check the selectors"
            }
            Class::Absent => "the server has just told that there is such a resource; try again",
            _ => "giving up",
        };
        Error::failed(format!("{report} (asked {}); {next}", self.connection.url))
    }

    /// ` in namespace shop`, for sentences.
    fn place(&self) -> String {
        self.scope.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default()
    }
}

/// Whether waiting may help.
fn passing(class: Class) -> bool {
    !class.needs_somebody() || class == Class::NotSupported
}
