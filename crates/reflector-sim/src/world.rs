//! One schedule, from the start to the end.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    check::{Check, has_stopped},
    cluster::{
        Cluster, Event,
        connection::{Ask, Body, Parcel, Role},
        object::number,
    },
    copy::{Both, Copy},
    follow::Following,
    plan::{Action, Plan, Setup},
    receive::{Note, receive},
    transitions::{Covered, Input, Open, Step, asked_since},
};
use fastrand::Rng;
use futures::task::noop_waker;
use reflector::{
    Object,
    driver::{Control, Core, Fact},
    protocol::{BackoffOptions, ErrorReport, InitialRead, Machine, Options, Phase, Status},
    source::{ListPart, Selection},
    wire::{ListItem, WatchEvent},
};

/// After the last step there is so much time before everything is made well.
const AFTERMATH: Duration = Duration::from_secs(20);

/// Once everything is well, the copy is true within this time. The longest waits of the protocol after failures are two
/// minutes, a silent connection is found within three, and one may follow the other.
const CATCHES_UP: Duration = Duration::from_secs(15 * 60);

/// And stays true for so long at least.
const STAYS: Duration = Duration::from_secs(200);

/// What came of a schedule.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What did not hold; `None` if everything did.
    pub failure: Option<String>,
    /// What happened, if it was asked for.
    pub story: Vec<String>,
    /// The most requests in any minute.
    pub requests_most: usize,
    /// The most failures in any minute.
    pub failures_most: usize,
    /// How long after the last fault the copy was true.
    pub caught_up_after: Duration,
    /// How many facts there were.
    pub facts: u64,
    /// The copy could not know that it was wrong, and so nothing was asked of it at the end: a restored etcd has given out
    /// its versions again before anybody looked.
    pub excused: bool,
    /// The transitions of the machine that were taken.
    pub covered: Covered,
}

/// Runs a schedule. A panic of the reflector is a failure too.
#[must_use]
pub fn run(plan: &Plan, story: bool) -> Outcome {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan, story);
        let failure = world.live().err();
        world.outcome(failure)
    }));
    lived.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
        Outcome { failure: Some(format!("a panic: {text}")), ..Outcome::default() }
    })
}

struct World<'a> {
    plan: &'a Plan,
    cluster: Cluster,
    core: Core<Body, Both>,
    copy: Copy,
    check: Check,
    /// The status after the last fact.
    status: Status,
    rng: Rng,
    facts: u64,
    caught_up_after: Duration,
    excused: bool,
    stopped: bool,
    covered: Covered,
    reports: Arc<Mutex<Vec<ErrorReport>>>,
    /// What was open before what has just arrived.
    was: Option<Open>,
}

fn options(setup: &Setup) -> Options {
    let millis = Duration::from_millis;
    let watch = millis(setup.watch_timeout);
    Options {
        target: "configmaps".into(),
        selection: Selection { labels: setup.selector.then(|| "app=in".into()), ..Selection::default() },
        streaming: setup.streaming,
        initial_read: if setup.any { InitialRead::Any } else { InitialRead::Consistent },
        page_size: setup.page_size,
        watch_timeout: (watch, watch * 2),
        internal_error_budget: millis(setup.internal_error_budget),
        delete_absent_after: setup.delete_absent_after.map(millis),
        resync_every: setup.resync_every.map(millis),
        relist_every: setup.relist_every.map(millis),
        backoff: BackoffOptions::default(),
        ..Options::default()
    }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, story: bool) -> Self {
        let cluster = Cluster::new(plan, story);
        let (copy, both) = Copy::new(&plan.setup);
        let machine = Machine::new(options(&plan.setup), plan.seed);
        let reports = Arc::<Mutex<Vec<ErrorReport>>>::default();
        let check = Check::new(&plan.setup, &cluster);
        let told = Arc::clone(&reports);
        let core = Core::new(machine, both, "configmaps").on_error(move |report| {
            told.lock().unwrap_or_else(PoisonError::into_inner).push(report.clone());
            Control::Continue
        });
        Self {
            plan,
            status: core.status(),
            core,
            copy,
            check,
            rng: Rng::with_seed(!plan.seed),
            cluster,
            facts: 0,
            caught_up_after: Duration::ZERO,
            excused: false,
            stopped: false,
            covered: Covered::default(),
            reports,
            was: None,
        }
    }

    fn outcome(mut self, failure: Option<String>) -> Outcome {
        Outcome {
            failure,
            story: self.cluster.story.take().unwrap_or_default(),
            requests_most: self.cluster.requests_most,
            failures_most: self.check.failures_most,
            caught_up_after: self.caught_up_after,
            facts: self.facts,
            excused: self.excused,
            covered: self.covered,
        }
    }

    fn live(&mut self) -> Result<(), String> {
        self.tell(Input::Start, &Note::default(), |core, cluster| core.start(cluster.now, cluster))?;
        let last = self.plan.steps.iter().map(|step| step.at).max().unwrap_or_default();
        let quiet = Duration::from_millis(last) + AFTERMATH;
        self.run_until(quiet, |_| false)?;
        let quiet = quiet.max(self.cluster.conditions.partition_until);
        self.run_until(quiet, |_| false)?;
        if !self.stopped {
            self.cluster.tell(|| "everything is well again".to_owned());
            self.cluster.heal();
            self.copy.followers.iter_mut().for_each(Following::hurry);
            self.run_until(quiet + CATCHES_UP, Self::is_well)?;
            self.caught_up_after = self.cluster.now.saturating_sub(quiet);
            self.excused = !self.is_well() && self.is_excused();
            if !self.is_well() && !self.excused {
                let status = self.core.status();
                let why = self.check.is_true(&self.copy, &self.cluster).err().unwrap_or_default();
                let error = status.last_error.map(|report| report.to_string());
                return Err(format!(
                    "the copy does not catch up: {}, {why}, last error {error:?}",
                    status.phase
                ));
            }
            let until = self.cluster.now + STAYS;
            self.run_until(until, |_| false)?;
            self.drain()?;
            if !self.excused {
                self.check.all_agree(&self.copy, &self.cluster)?;
            }
        }
        self.stop()
    }

    /// The copy is what the server has.
    fn is_well(&self) -> bool {
        let settled = match self.status.phase {
            Phase::Watching | Phase::Polling { .. } => true,
            // A proxy that holds heads back shows no watch before there is an event.
            Phase::Connecting | Phase::Waiting { .. } => self.plan.nature.holds_heads,
            _ => false,
        };
        settled && self.status.synced && self.check.is_true(&self.copy, &self.cluster).is_ok()
    }

    /// A copy that cannot know that it is wrong, and was not told to verify it.
    fn is_excused(&self) -> bool {
        let version = self.copy.cache.version().as_ref().and_then(number);
        self.plan.setup.relist_every.is_none()
            && self.check.may_be_of_the_past(&self.cluster)
            && version.is_some_and(|rev| self.cluster.has_overtaken(rev))
    }

    fn run_until(&mut self, until: Duration, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let mut at_once = 0;
        while !self.stopped && !done(self) {
            let next = self.cluster.next_at();
            let deadline = self.core.deadline();
            if deadline.is_none() {
                return Err("it sleeps for ever".into());
            }
            let Some(at) = next.into_iter().chain(deadline).min() else { break };
            if at > until {
                self.cluster.now = until;
                return Ok(());
            }
            let at = at.max(self.cluster.now);
            at_once = if at == self.cluster.now { at_once + 1 } else { 0 };
            if at_once > 5000 {
                return Err(format!("a loop without time passing: {:?}", self.core.status().phase));
            }
            self.cluster.now = at;
            if next.is_some_and(|next| next <= at) {
                if let Some(event) = self.cluster.next() {
                    self.happen(event)?;
                }
            } else {
                self.handle(Fact::TimePassed, &Note::default())?;
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Step(number) => {
                if let Some(step) = self.plan.steps.get(number) {
                    self.step(&step.action)?;
                }
            }
            Event::Follow { server, incarnation, branch, rev } => {
                self.cluster.follow(server, incarnation, branch, rev);
            }
            Event::Restart(server) => self.cluster.restart(server, Duration::from_millis(500)),
            Event::Up(server) => self.cluster.up(server),
            Event::Recreated => self.cluster.recreate_resource(),
            Event::Arrive(id) => self.cluster.arrive(id),
            Event::Bookmark(id) => self.cluster.bookmark(id),
            Event::StreamOver(id) => self.cluster.stream_over(id),
            Event::Write(key) => self.cluster.put(key),
            Event::Deliver(id, parcel) => {
                if let Some(parcel) = self.cluster.arrived(id, parcel) {
                    self.deliver(id, parcel)?;
                }
            }
            Event::Released(id) => {
                while let Some(parcel) = self.cluster.released(id) {
                    self.deliver(id, parcel)?;
                }
            }
            Event::Look(which) => {
                let most = self.rng.usize(1..20);
                let more = self.copy.look(which, most)?;
                if let Some(follower) = self.copy.followers.get_mut(which) {
                    follower.looks = false;
                }
                if more {
                    self.schedule_look(which);
                }
                self.release()?;
            }
            Event::Pop => {
                self.copy.pops = false;
                let most = self.rng.usize(1..10);
                if self.copy.pop(most)? {
                    self.schedule_pop();
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, action: &Action) -> Result<(), String> {
        self.cluster.tell(|| action.to_string());
        match action {
            Action::StoreFails(times) => {
                self.copy.wires.changes.store((*times).into(), Ordering::Relaxed);
            }
            Action::CommitFails => self.copy.wires.commit.store(true, Ordering::Relaxed),
            Action::Follow(follower) => {
                self.copy.follow(follower.clone());
                self.schedule_looks();
            }
            Action::Leave(which) => {
                if let Some(follower) = self.copy.followers.get_mut(*which) {
                    follower.leave()?;
                }
                self.release()?;
            }
            Action::Stop => return self.stop(),
            action => self.cluster.act(action),
        }
        Ok(())
    }

    /// Something has arrived. While the store has no room, the main watch is not read.
    fn deliver(&mut self, id: usize, parcel: Parcel) -> Result<(), String> {
        let connection = &mut self.cluster.connections[id];
        let watch =
            connection.role == Role::Main && connection.opened && matches!(connection.ask, Ask::Watch(_));
        if !connection.waiting.is_empty() || watch && !self.has_room() {
            self.cluster.connections[id].waiting.push_back(parcel);
            return Ok(());
        }
        self.take(id, parcel)
    }

    fn has_room(&mut self) -> bool {
        let waker = noop_waker();
        matches!(self.core.poll_ready(&mut Context::from_waker(&waker)), Poll::Ready(()))
    }

    /// Reads on, if there is room.
    fn release(&mut self) -> Result<(), String> {
        while !self.stopped {
            let waits = |id: &usize| !self.cluster.connections[*id].waiting.is_empty();
            let Some(id) = self.cluster.open_as(|role| role == Role::Main).find(waits) else { break };
            if !self.has_room() {
                break;
            }
            let Some(parcel) = self.cluster.connections[id].waiting.pop_front() else { break };
            self.take(id, parcel)?;
        }
        Ok(())
    }

    fn take(&mut self, id: usize, parcel: Parcel) -> Result<(), String> {
        if let Parcel::Refusal { code, .. } = &parcel {
            let code = *code;
            self.cluster.tell(|| format!("  answer {id}: {code}"));
        }
        let reopens = self.cluster.connections[id].role == Role::Reopen && matches!(parcel, Parcel::Head);
        if reopens {
            // The second watch takes the place of the first.
            let first: Vec<_> = self.cluster.open_as(|role| role == Role::Main).collect();
            first.into_iter().for_each(|id| self.cluster.connections[id].close());
        }
        self.was = Some(Open::of(&self.cluster));
        for (fact, note) in receive(&mut self.cluster.connections[id], parcel) {
            self.handle(fact, &note)?;
        }
        Ok(())
    }

    fn handle(&mut self, fact: Fact<Body>, note: &Note) -> Result<(), String> {
        if self.stopped {
            return Ok(());
        }
        self.facts += 1;
        let text = self.cluster.story.is_some().then(|| describe(&fact)).flatten();
        let before = self.cluster.story.is_some().then(|| self.status.clone());
        let input = Input::of(&fact);
        self.tell(input, note, |core, cluster| {
            core.handle(cluster.now, fact, cluster);
            if let (Some(before), Some(text)) = (before, text) {
                narrate(cluster, &before, &core.status(), &text);
            }
        })
    }

    /// Something happens to the reflector. Afterwards: what must hold, and who is to look at what.
    fn tell(
        &mut self,
        input: Input,
        note: &Note,
        happens: impl FnOnce(&mut Core<Body, Both>, &mut Cluster),
    ) -> Result<(), String> {
        let was = self.was.take().unwrap_or_else(|| Open::of(&self.cluster));
        let requests = self.cluster.connections.len();
        happens(&mut self.core, &mut self.cluster);
        let before = mem::replace(&mut self.status, self.core.status());
        self.stopped = self.status.phase == Phase::Stopped;
        let reports = mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner));
        let resynced = self.copy.wires.resynced.swap(false, Ordering::Relaxed);
        self.check.after(&before, &self.status, &reports, note, &self.copy, &self.cluster)?;
        self.contract()?;
        if !input.is_nothing() {
            let asked = asked_since(&self.cluster, requests);
            let is = Open::of(&self.cluster);
            let (before, after) = (&before, &self.status);
            self.covered.see(&Step {
                before,
                after,
                input,
                was,
                is,
                reports: &reports,
                asked: &asked,
                resynced,
            });
        }
        self.schedule_looks();
        if !self.copy.pops && !self.copy.fifo.is_empty() {
            self.schedule_pop();
        }
        Ok(())
    }

    /// At most one main request, and one beside it.
    fn contract(&self) -> Result<(), String> {
        let main = self.cluster.open_as(|role| role == Role::Main).count();
        let second = self.cluster.open_as(|role| role != Role::Main).count();
        (main <= 1 && second <= 1)
            .then_some(())
            .ok_or_else(|| format!("{main} main requests and {second} others are open"))
    }

    fn schedule_looks(&mut self) {
        for which in 0..self.copy.followers.len() {
            let follower = &self.copy.followers[which];
            if !follower.looks && follower.has_more() {
                self.schedule_look(which);
            }
        }
    }

    fn schedule_look(&mut self, which: usize) {
        let follower = &mut self.copy.followers[which];
        follower.looks = true;
        let most = follower.slowness();
        let wait = Duration::from_micros(self.rng.u64(0..=u64::try_from(most.as_micros()).unwrap_or(0)));
        self.cluster.schedule(self.cluster.now + wait, Event::Look(which));
    }

    fn schedule_pop(&mut self) {
        self.copy.pops = true;
        let wait = Duration::from_millis(self.rng.u64(0..2000));
        self.cluster.schedule(self.cluster.now + wait, Event::Pop);
    }

    /// Everybody takes what is there for him.
    fn drain(&mut self) -> Result<(), String> {
        for which in 0..self.copy.followers.len() {
            self.copy.look(which, usize::MAX)?;
        }
        self.copy.pop(usize::MAX)?;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        if !self.stopped {
            self.handle(Fact::Stop, &Note::default())?;
        }
        for follower in &mut self.copy.followers {
            follower.handler.stop()?;
        }
        has_stopped(&self.core.status(), self.core.deadline(), &self.cluster)
    }
}

fn narrate(cluster: &mut Cluster, before: &Status, after: &Status, fact: &str) {
    let version = |status: &Status| status.version.as_ref().map(ToString::to_string).unwrap_or_default();
    let (from, to) = (before.phase.to_string(), after.phase.to_string());
    let phases = if from == to { to } else { format!("{from} -> {to}") };
    let at = version(after);
    let at = if at == version(before) { String::new() } else { format!(", at {at}") };
    let error = after.last_error.as_ref().filter(|_| after.counts.errors > before.counts.errors);
    let error = error.map(|report| format!("; again in {:?}", report.retry_in)).unwrap_or_default();
    cluster.tell(|| format!("    {fact}: {phases}{at}{error}"));
}

/// What happened, for people; `None` of what they need not know.
fn describe(fact: &Fact<Body>) -> Option<String> {
    Some(match fact {
        Fact::ListOpened | Fact::TimePassed => return None,
        Fact::ListPart(ListPart::Items(items)) if items.is_empty() => return None,
        Fact::ListPart(ListPart::Items(items)) => {
            let items: Vec<_> = items.iter().map(item).collect();
            format!("listed: {}", items.join(", "))
        }
        Fact::ListPart(ListPart::End(end)) => {
            let version = end.version.as_ref().map(ToString::to_string).unwrap_or_default();
            let more = if end.continue_token.is_some() { ", and there is more" } else { "" };
            format!("a page of version {version}{more}")
        }
        Fact::ListFailed(failure) => format!("the list fails: {failure}"),
        Fact::WatchOpened => "the watch opens".into(),
        Fact::WatchFailed(failure) => format!("the watch is not opened: {failure}"),
        Fact::Events(events) if events.is_empty() => return None,
        Fact::Events(events) => events.iter().map(event).collect::<Vec<_>>().join(", "),
        Fact::Ended => "the watch ends".into(),
        Fact::Broken(failure) => format!("the watch breaks: {failure}"),
        Fact::Checked(Ok(version)) => {
            format!("the check gives {}", version.as_ref().map(ToString::to_string).unwrap_or_default())
        }
        Fact::Checked(Err(failure)) => format!("the check fails: {failure}"),
        Fact::Reopened => "the second watch opens".into(),
        Fact::ReopenFailed(failure) => format!("the second watch fails: {failure}"),
        Fact::Stop => "the user stops".into(),
    })
}

fn object(object: &Object<Body>) -> String {
    let version = object.version().map(ToString::to_string).unwrap_or_default();
    format!("{}@{version}", object.name())
}

fn item(item: &ListItem<Body>) -> String {
    match item {
        ListItem::Object(listed) => object(listed),
        ListItem::Invalid(invalid) => format!("unreadable: {invalid}"),
    }
}

fn event(event: &WatchEvent<Body>) -> String {
    match event {
        WatchEvent::Added(added) => format!("added {}", object(added)),
        WatchEvent::Modified(modified) => format!("modified {}", object(modified)),
        WatchEvent::Deleted(deleted) => format!("deleted {}", object(deleted)),
        WatchEvent::Bookmark { version, initial_events_end } => {
            let version = version.as_ref().map(ToString::to_string).unwrap_or_default();
            let end = if *initial_events_end { ", which ends the initial events" } else { "" };
            format!("bookmark {version}{end}")
        }
        WatchEvent::Error(status) => format!("error {status}"),
        WatchEvent::Invalid(invalid) => format!("unreadable: {invalid}"),
        WatchEvent::Unknown(kind) => format!("unknown {kind}"),
    }
}
