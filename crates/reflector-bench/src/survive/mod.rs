//! Peers in the same fire: what goes wrong between a client and its server, over HTTP, for everybody the same, and what
//! the copies are worth after it.

mod client;
mod gate;
mod judge;
mod report;
mod scenarios;
mod stage;
mod storm;
mod things;

use std::{collections::BTreeSet, fs, path::PathBuf, thread, time::Duration};

use clap::Args;
use tokio::time::{self, Instant};

use self::{
    client::{Running, Who},
    judge::{Collection, Difference, Outcome, went_back},
    report::Row,
    scenarios::{Scenario, scenarios},
    stage::{Act, Stage},
};
use crate::{Failure, process::one_thread};

/// What is tried and where the results go.
#[derive(Args)]
pub(crate) struct Options {
    /// Only scenarios whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Where the storm and the jitter of the servers come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seconds after the last fault a copy may still become right. kube-runtime takes a watch for dead after
    /// 295 s, and is to have the chance.
    #[arg(long, default_value_t = 330)]
    patience: u64,
    /// Only reflector, and only what it comes through within seconds. Fails if it does not.
    #[arg(long)]
    smoke: bool,
    /// The folder of `survive.json`.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

/// How often copies are looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a scenario waits for a client to have everything before it goes on.
const SYNC: Duration = Duration::from_secs(10);
/// How much longer, so that who has listed has opened the watch as well: else what is done to it is done to nobody.
const SETTLE: Duration = Duration::from_millis(500);

/// Puts everybody into every fire and writes the results.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let mut all = scenarios(options.seed);
    all.retain(|scenario| {
        options.only.as_ref().is_none_or(|only| scenario.name.contains(only.as_str()))
            && (scenario.quick || !options.smoke)
    });
    let (clients, patience): (&[Who], _) =
        if options.smoke { (&[Who::Reflector], 30) } else { (&Who::ALL, options.patience) };
    println!("{} scenarios, all at the same time; at most {patience} s after the last fault\n", all.len());
    client::quiet_panics();
    let rows = thread::scope(|scope| {
        let started: Vec<_> = all
            .iter()
            .map(|scenario| {
                let start = |who: &Who| {
                    let who = *who;
                    let is_for_it = scenario.not_for != Some(who);
                    // A thread of its own for everybody: who spins in a loop takes nobody else's turn.
                    is_for_it.then(|| {
                        let patience = Duration::from_secs(patience);
                        scope.spawn(move || {
                            one_thread()?.block_on(live(scenario, who, patience, options.seed))
                        })
                    })
                };
                (scenario, clients.iter().map(start).collect::<Vec<_>>())
            })
            .collect();
        let mut rows = Vec::new();
        for (scenario, threads) in started {
            let mut outcomes = Vec::new();
            for thread in threads {
                outcomes.push(match thread.map(thread::ScopedJoinHandle::join) {
                    None => None,
                    Some(Ok(result)) => Some(result.map_err(|error| format!("{}: {error}", scenario.name))?),
                    Some(Err(_)) => return Err(format!("{}: the stage fell down", scenario.name).into()),
                });
            }
            rows.push(Row { scenario, outcomes });
        }
        Ok::<_, Failure>(rows)
    })?;
    println!("{}", report::table(clients, &rows));
    for Row { scenario, .. } in &rows {
        println!("- {}: {}", scenario.name, scenario.story);
    }
    fs::create_dir_all(&options.out)?;
    let json = report::json(clients, &rows, options.seed, patience);
    fs::write(options.out.join("survive.json"), format!("{json:#}\n"))?;
    let lost: Vec<_> = rows
        .iter()
        .filter(|row| row.outcomes.iter().flatten().any(|outcome| !outcome.is_sound()))
        .map(|row| row.scenario.name)
        .collect();
    if options.smoke && !lost.is_empty() {
        return Err(format!("reflector did not come through: {}", lost.join(", ")).into());
    }
    Ok(())
}

/// A client, and what was seen of it.
struct Seen {
    client: Running,
    last: Collection,
    went_back: bool,
    /// The revisions that do not fit their type, and that the user was told so by reading them.
    unfit: BTreeSet<(String, String)>,
}

impl Seen {
    fn look(&mut self) -> &Collection {
        let now = self.client.look();
        self.went_back |= went_back(&self.last, &now);
        let unfit = now.iter().filter(|(_, held)| held.data.is_none());
        self.unfit.extend(unfit.map(|(name, held)| (name.clone(), held.version.clone())));
        self.last = now;
        &self.last
    }

    /// Looks at it until it has what the server has; says whether it came to that in time.
    async fn equals(&mut self, stage: &Stage, deadline: Instant) -> bool {
        loop {
            if *self.look() == stage.truth() {
                return true;
            }
            if Instant::now() >= deadline || self.client.has_ended() {
                return false;
            }
            time::sleep(GLANCE).await;
        }
    }

    async fn pause(&mut self, pause: Duration) {
        let end = Instant::now() + pause;
        while Instant::now() < end {
            self.look();
            time::sleep(GLANCE.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
}

/// One client in one scenario.
async fn live(scenario: &Scenario, who: Who, patience: Duration, seed: u64) -> Result<Outcome, Failure> {
    let mut stage = Stage::start(scenario.what, scenario.objects, scenario.lags(), seed).await?;
    for act in &scenario.before {
        stage.perform(act).await?;
    }
    let client = Running::start(who, scenario.what, &stage.url())?;
    let mut seen = Seen { client, last: Collection::new(), went_back: false, unfit: BTreeSet::new() };
    for act in &scenario.after {
        match act {
            Act::Synced => {
                seen.equals(&stage, Instant::now() + SYNC).await;
                seen.pause(SETTLE).await;
            }
            Act::Pause(pause) => seen.pause(*pause).await,
            act => stage.perform(act).await?,
        }
    }
    let healed = Instant::now();
    let deadline = healed + patience;
    let mut converged = seen.equals(&stage, deadline).await;
    if converged {
        // A copy that is right by chance does not follow.
        stage.perform(&Act::Write(1)).await?;
        converged = seen.equals(&stage, deadline.max(healed + SYNC)).await;
    }
    let converged = converged.then(|| healed.elapsed());
    let difference = Difference::between(&seen.last, &stage.truth());
    let told = seen.client.told();
    Ok(Outcome {
        converged,
        difference,
        requests: stage.requests(),
        told: told.count + seen.unfit.len() as u64,
        last_error: told.last,
        went_back: seen.went_back && !scenario.restores(),
        ended: seen.client.end().await,
    })
}
