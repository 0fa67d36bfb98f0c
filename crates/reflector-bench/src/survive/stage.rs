//! The stage of one client in one scenario: a server, where needed a second one that lags, and the gate before them.

use std::time::Duration;

use reflector_apiserver::{
    ApiServer,
    core::{Core, OperatorError},
    faults::Profile,
};
use serde_json::json;

use super::{
    gate::{Gate, On, Trick},
    judge::{Collection, truth},
    things::{NAMESPACE, What, definition, definition_name},
};
use crate::Failure;

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    /// The client is given until now to have everything and to watch, at most some seconds.
    Synced,
    /// Time passes.
    Pause(Duration),
    /// A fault of the server, in its text form: the verbs, and what happens.
    Fault(&'static str, &'static str),
    /// The server draws faults from a profile.
    Profile(Profile),
    /// A trick of the gate, on so many requests.
    Play(On, Trick, u64),
    /// From now on watches from before the present version are answered 410 in the status line.
    Gone,
    /// No more faults and tricks.
    Calm,
    /// So many rounds of changes.
    Write(usize),
    /// So many objects are deleted and made again under their names.
    Recreate(usize),
    /// An object that does not fit its type is written over one that did.
    Spoil,
    /// The server forgets the history.
    Forget,
    /// The server restarts: watches end, and the history begins anew.
    Restart,
    /// All connections are closed.
    Cut,
    /// All connections go dead, and stay open.
    Mute,
    /// The port is closed, and all connections.
    Refuse,
    /// The port is open again.
    Accept,
    /// A backup of etcd.
    Backup,
    /// etcd is restored from the backup.
    Restore,
    /// The type is deleted with all its objects.
    Undefine,
    /// The type is created again, with some objects.
    Define,
    /// A second server stops to follow, and reads that may be stale go there; or it catches up.
    Lag(bool),
}

/// A write to the collection.
#[derive(Debug, Clone)]
enum Write {
    /// The last is the number of the uid.
    Create(String, u64, u64),
    Update(String, u64),
    Delete(String),
}

/// A server that can lag behind.
struct Second {
    server: ApiServer,
    behind: Option<Vec<Write>>,
}

pub(super) struct Stage {
    what: What,
    server: ApiServer,
    second: Option<Second>,
    gate: Gate,
    /// Makes every write another one.
    round: u64,
    /// How many objects were created. Both servers have to give the same uid to the same object.
    created: u64,
    backup: u64,
}

impl Stage {
    pub(super) async fn start(what: What, objects: usize, lags: bool, seed: u64) -> Result<Self, Failure> {
        let server = ApiServer::builder().seed(seed).start().await?;
        let second = match lags {
            true => Some(Second { server: ApiServer::builder().seed(seed).start().await?, behind: None }),
            false => None,
        };
        let gate = Gate::start(server.address()).await?;
        let mut stage = Self { what, server, second, gate, round: 0, created: 0, backup: 0 };
        if what != What::Maps {
            stage.server.with_core(|core| core.create("customresourcedefinitions", definition()))?;
        }
        for n in 0..objects {
            stage.create(format!("obj-{n:04}"), 0)?;
        }
        Ok(stage)
    }

    pub(super) fn url(&self) -> String {
        self.gate.url()
    }

    pub(super) fn requests(&self) -> u64 {
        self.gate.requests()
    }

    pub(super) fn truth(&self) -> Collection {
        self.server.with_core(|core| truth(core, self.what))
    }

    /// Everything but what concerns the client.
    pub(super) async fn perform(&mut self, act: &Act) -> Result<(), Failure> {
        let plural = self.what.plural();
        match act {
            Act::Synced | Act::Pause(_) => {}
            Act::Fault(verbs, settings) => {
                self.server.inject(format!("{verbs}:{plural}:{settings}").parse()?);
            }
            Act::Profile(profile) => self.server.with_faults(|faults| faults.set_profile(*profile)),
            Act::Play(on, trick, times) => self.gate.play(*on, trick.clone(), *times),
            Act::Gone => {
                let version = self.server.with_core(|core| core.revision());
                self.gate.play(On::Watches, Trick::Gone(version), u64::MAX);
            }
            Act::Calm => {
                self.server.with_faults(reflector_apiserver::faults::Faults::clear);
                self.gate.calm();
            }
            Act::Write(rounds) => {
                for _ in 0..*rounds {
                    self.write_round()?;
                }
            }
            Act::Recreate(count) => {
                let names: Vec<_> = self.truth().into_keys().take(*count).collect();
                for name in names {
                    self.write(Write::Delete(name.clone()))?;
                    self.create(name, 0)?;
                }
            }
            Act::Spoil => {
                let name = self.truth().into_keys().next().ok_or("nothing to spoil")?;
                let object = self.what.object(&name, &json!("this is no map"));
                self.server.with_core(|core| core.update(plural, object))?;
            }
            Act::Forget => self.server.with_core(|core| core.forget_history(plural))?,
            Act::Restart => self.server.restart(),
            Act::Cut => self.gate.cut(),
            Act::Mute => self.gate.mute(),
            Act::Refuse => self.gate.refuse().await,
            Act::Accept => self.gate.accept().await?,
            Act::Backup => self.backup = self.server.with_core(|core| core.revision()),
            Act::Restore => self.server.with_core(|core| core.rewind(self.backup))?,
            Act::Undefine => {
                let name = definition_name();
                self.server.with_core(|core| core.delete("customresourcedefinitions", "", &name))?;
            }
            Act::Define => {
                self.server.with_core(|core| core.create("customresourcedefinitions", definition()))?;
                for n in 0..5 {
                    self.create(format!("back-{n}"), 0)?;
                }
            }
            Act::Lag(lags) => self.lag(*lags)?,
        }
        Ok(())
    }

    /// Some objects are changed, one is deleted, one is made. What is spoiled stays spoiled.
    fn write_round(&mut self) -> Result<(), Failure> {
        self.round += 1;
        let round = self.round;
        let sound: Vec<_> =
            self.truth().into_iter().filter(|(_, held)| held.data.is_some()).map(|(name, _)| name).collect();
        let nth = |n: u64| usize::try_from(n).ok().and_then(|n| sound.get(n % sound.len().max(1)));
        let deleted = nth(round * 11).cloned();
        for n in 0..3 {
            if let Some(name) = nth(round * 7 + n * 3).filter(|name| Some(*name) != deleted.as_ref()) {
                self.write(Write::Update(name.clone(), round))?;
            }
        }
        if let Some(name) = deleted {
            self.write(Write::Delete(name))?;
        }
        self.create(format!("new-{round}"), round)
    }

    fn create(&mut self, name: String, round: u64) -> Result<(), Failure> {
        self.created += 1;
        self.write(Write::Create(name, round, self.created))
    }

    fn write(&mut self, write: Write) -> Result<(), Failure> {
        let what = self.what;
        self.server.with_core(|core| apply(core, what, &write))?;
        match &mut self.second {
            Some(Second { behind: Some(writes), .. }) => writes.push(write),
            Some(second) => second.server.with_core(|core| apply(core, what, &write))?,
            None => {}
        }
        Ok(())
    }

    fn lag(&mut self, lags: bool) -> Result<(), Failure> {
        let what = self.what;
        let Second { server, behind } = self.second.as_mut().ok_or("no second server")?;
        self.gate.balance(lags.then(|| server.address()));
        let missed = std::mem::replace(behind, lags.then(Vec::new)).unwrap_or_default();
        for write in &missed {
            server.with_core(|core| apply(core, what, write))?;
        }
        Ok(())
    }
}

fn apply(core: &mut Core, what: What, write: &Write) -> Result<(), OperatorError> {
    let object = |name: &str, round: u64| what.object(name, &json!({"round": round.to_string()}));
    match write {
        Write::Create(name, round, number) => {
            let mut object = object(name, *round);
            object["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{number:012x}"));
            core.create(what.plural(), object).map(drop)
        }
        Write::Update(name, round) => core.update(what.plural(), object(name, *round)).map(drop),
        Write::Delete(name) => core.delete(what.plural(), NAMESPACE, name).map(drop),
    }
}
