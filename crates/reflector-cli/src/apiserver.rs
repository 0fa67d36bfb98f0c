//! `reflector apiserver`: the embedded API server on its own.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use reflector_apiserver::{
    ApiServer, RunningCluster,
    faults::{Fault, Profile},
};

use crate::{
    args,
    connect::chain,
    error::Error,
    format::counted,
    output::{self, BOLD, DIM},
    signals,
};

/// How often new faults and requests are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// What `reflector apiserver` is to do.
#[derive(Debug)]
pub(crate) struct Options {
    listen: SocketAddr,
    objects: usize,
    rate: f64,
    profile: Profile,
    faults: Vec<Fault>,
    seed: u64,
    kubeconfig: Option<PathBuf>,
    verbose: bool,
}

impl Options {
    pub(crate) fn new(args: args::Apiserver, verbose: u8) -> Result<Self, Error> {
        let (mut profile, mut faults) = (Profile::None, Vec::new());
        for text in &args.faults {
            if let Ok(named) = text.parse::<Profile>() {
                profile = named;
                continue;
            }
            let fault = text.parse::<Fault>().map_err(|error| {
                Error::usage(format!(
                    "--faults `{text}` is neither a profile (none, some, storm) nor a fault: {error}"
                ))
            })?;
            faults.push(fault);
        }
        Ok(Self {
            listen: args.listen,
            objects: args.objects,
            rate: args.rate,
            profile,
            faults,
            seed: args.seed,
            kubeconfig: args.kubeconfig_out,
            verbose: verbose > 0,
        })
    }
}

/// Runs the command.
pub(crate) async fn run(options: Options) -> Result<(), Error> {
    tokio::select! {
        () = signals::end() => Ok(()),
        result = serve(&options) => result,
    }
}

/// Starts a server and fills it.
pub(crate) async fn start(listen: SocketAddr, pods: usize, seed: u64) -> Result<RunningCluster, Error> {
    RunningCluster::start(listen, pods, seed).await.map_err(|error| Error::failed(chain(error)))
}

async fn serve(options: &Options) -> Result<(), Error> {
    let cluster = start(options.listen, options.objects, options.seed).await?;
    let server = cluster.server();
    server.with_faults(|faults| {
        faults.set_profile(options.profile);
        for fault in &options.faults {
            faults.add(fault.clone());
        }
    });
    if let Some(file) = &options.kubeconfig {
        server.write_kubeconfig(file).map_err(|error| {
            Error::failed(format!("cannot write the kubeconfig {}: {error}", file.display()))
        })?;
    }
    output::print(introduction(server, options).as_bytes())?;
    let churn = cluster.churn(cluster.churn_options(options.rate), Duration::MAX, |_| {});
    if options.verbose {
        tokio::join!(churn, tell_faults(server));
    } else {
        churn.await;
    }
    // Nothing changes any more, or ever did: it serves on.
    std::future::pending().await
}

fn introduction(server: &ApiServer, options: &Options) -> String {
    let url = server.url();
    let try_it = match &options.kubeconfig {
        Some(file) => format!("kubectl --kubeconfig {} get pods -A", file.display()),
        None => format!("kubectl --server {url} get pods -A"),
    };
    let have = match (options.objects, options.rate) {
        (0, _) => "an empty cluster".to_owned(),
        (objects, rate) if rate > 0.0 => format!("{}, {rate} changes per second", counted(objects, "pod")),
        (objects, _) => counted(objects, "pod"),
    };
    format!(
        "{BOLD}{url}{BOLD:#}\n\
         {DIM}# {have}; Ctrl-C ends it. Try it:{DIM:#}\n\
         {try_it}\n\
         reflector watch pods -A --server {url}\n\
         {DIM}# As a kubeconfig:{DIM:#}\n\
         {}",
        server.kubeconfig()
    )
}

/// One line for each fault that takes effect.
async fn tell_faults(server: &ApiServer) {
    let mut told = std::collections::BTreeMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        for (kind, count) in server.with_faults(|faults| faults.injected().clone()) {
            let before = told.insert(kind, count).unwrap_or(0);
            for number in before + 1..=count {
                output::note(&format!("reflector: fault {kind} injected (number {number} of its kind)"));
            }
        }
    }
}
