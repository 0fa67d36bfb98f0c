//! `reflector demo`: a reflector mirrors a server that misbehaves, and the copy is proved right at the end.

mod compare;
mod report;
mod view;

use std::{
    cell::Cell,
    collections::hash_map::RandomState,
    hash::BuildHasher,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use reflector::{BodyForm, KubeListWatch, Reflector, kube_client, protocol::BackoffOptions};
use reflector_apiserver::{RunningCluster, core::StoredObject, faults::Profile};

use self::{
    report::Report,
    view::{Numbers, Stage, View},
};
use crate::{
    apiserver,
    args::{self, DemoOutput},
    connect::chain,
    counters::Counters,
    error::Error,
    output, signals,
};

/// How often it is looked whether all is quiet.
const LOOK: Duration = Duration::from_millis(100);

/// What `reflector demo` is to do.
#[derive(Debug)]
pub(crate) struct Options {
    objects: usize,
    rate: f64,
    duration: Duration,
    profile: Profile,
    body: args::Body,
    seed: u64,
    settle: Duration,
    json: bool,
}

impl TryFrom<args::Demo> for Options {
    type Error = Error;

    fn try_from(args: args::Demo) -> Result<Self, Error> {
        /// Numbers in JSON are exact up to here, and people may want to type one.
        const SEEDS: u64 = 1_000_000;
        Ok(Self {
            objects: args.objects,
            rate: args.rate,
            duration: args.duration,
            profile: match args.faults {
                args::Faults::None => Profile::None,
                args::Faults::Some => Profile::Some,
                args::Faults::Storm => Profile::Storm,
            },
            body: args.body,
            seed: args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) % SEEDS),
            settle: args.settle,
            json: args.output == DemoOutput::Json,
        })
    }
}

/// Runs the command.
pub(crate) async fn run(options: Options) -> Result<(), Error> {
    let report = {
        let mut view = View::new();
        let demo = demonstrate(&options, &mut view);
        let report = tokio::select! {
            report = demo => report?,
            // Nothing was proved, and nobody wants it any more.
            () = signals::end() => return Ok(()),
        };
        view.end();
        report
    };
    output::print(if options.json { report.json() } else { report.text() }.as_bytes())?;
    if report.differences.is_empty() {
        return Ok(());
    }
    let count = report.differences.len();
    Err(Error::failed(format!(
        "the copy differs from the server in {count} places; repeat it with --seed {}",
        options.seed
    )))
}

async fn demonstrate(options: &Options, view: &mut View) -> Result<Report, Error> {
    // From the start: the library takes its counters when a reflector is made.
    let counters = Counters::install();
    let started = Instant::now();
    view.stage(Stage::Preparing, options);
    let cluster =
        apiserver::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options.objects, options.seed).await?;
    cluster.server().with_faults(|faults| faults.set_profile(options.profile));
    let reflector = start(options, &cluster)?;
    let changes = Cell::new(0);
    let numbers =
        Numbers { reflector: &reflector, cluster: &cluster, counters: &counters, changes: &changes };

    view.stage(Stage::Running, options);
    let churn = cluster.churn(cluster.churn_options(options.rate), options.duration, |taken| {
        changes.set(changes.get() + u64::from(taken));
    });
    let work = async {
        // Without changes the faults still have their time.
        tokio::join!(churn, tokio::time::sleep(options.duration));
    };
    view.watch(&numbers, work).await;

    cluster.server().with_faults(reflector_apiserver::faults::Faults::clear);
    view.stage(Stage::Settling, options);
    view.watch(&numbers, settle(options, &reflector, &cluster)).await;

    view.stage(Stage::Comparing, options);
    let differences = differences(&reflector, &cluster)?;
    let report = Report::new(options, &numbers, started.elapsed(), differences);
    reflector.stop().await;
    cluster.stop().await;
    Ok(report)
}

fn start(options: &Options, cluster: &RunningCluster) -> Result<Reflector<Pod>, Error> {
    let url = cluster.server().url();
    let failed = |what: String| Error::failed(format!("cannot make a client for {url}: {what}"));
    let config = kube::Config::new(url.parse().map_err(|error| failed(chain(error)))?);
    let client = kube_client(config).map_err(|error| failed(chain(error)))?;
    let builder =
        Reflector::builder(KubeListWatch::<Pod>::all(client)).seed(options.seed).options(|protocol| {
            // Recoveries are to be seen within seconds. The help text tells of these numbers.
            protocol.backoff = BackoffOptions {
                first: Duration::from_millis(100),
                cap: Duration::from_secs(1),
                reset_after: Duration::from_secs(5),
            };
            // The first list is a watch too, and must have the time to come to its end.
            let life = Duration::from_secs(1 + options.objects as u64 / 5000);
            protocol.watch_timeout = (life, life * 2);
            protocol.idle_limit = Duration::from_secs(5);
            protocol.initial_deadline = Duration::from_secs(3);
            protocol.streaming_probe_after = Duration::from_secs(10);
            protocol.slow_retry = Duration::from_secs(1);
        });
    let form = match options.body {
        args::Body::Packed => BodyForm::packed(),
        args::Body::Wire => BodyForm::wire(),
        args::Body::Decoded => BodyForm::decoded(),
    };
    Ok(builder.body(form).start())
}

/// Waits until the copy is at the server's state, for as long as patience lasts.
async fn settle(options: &Options, reflector: &Reflector<Pod>, cluster: &RunningCluster) {
    let until = Instant::now() + options.settle;
    while Instant::now() < until {
        let objects = cluster.server().with_core(|core| core.objects_without_bodies("pods"));
        if objects.is_ok_and(|objects| compare::same_revisions(&reflector.cache().snapshot(), &objects)) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn differences(reflector: &Reflector<Pod>, cluster: &RunningCluster) -> Result<Vec<String>, Error> {
    let objects = cluster.server().with_core(|core| core.objects_without_bodies("pods"));
    let objects =
        objects.map_err(|error| Error::failed(format!("cannot read the server's objects: {error}")))?;
    let body = |stored: &StoredObject| {
        let read = cluster.server().with_core(|core| core.object("pods", &stored.namespace, &stored.name));
        read.map(|object| object.body).unwrap_or_default()
    };
    Ok(compare::differences(&reflector.cache().snapshot(), &objects, body))
}
