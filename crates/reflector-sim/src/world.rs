//! One schedule, from the start to the end.

use std::{
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    check::{Check, has_stopped},
    cluster::{
        Cluster, Event,
        connection::{Ask, Body, Parcel, Role},
    },
    copy::{Both, Copy},
    plan::{Action, Plan, Setup},
    receive::{Note, receive},
};
use fastrand::Rng;
use futures::task::noop_waker;
use reflector::{
    driver::{Core, Fact},
    protocol::{BackoffOptions, InitialRead, Machine, Options, Phase, Status},
    source::Selection,
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
    /// How long after the last fault the copy was true.
    pub caught_up_after: Duration,
    /// How many facts there were.
    pub facts: u64,
    /// The copy could not know that it was wrong, and so nothing was asked of it at the end.
    pub blind: bool,
}

/// Runs a schedule.
#[must_use]
pub fn run(plan: &Plan, story: bool) -> Outcome {
    let mut world = World::new(plan, story);
    let failure = world.live().err();
    Outcome {
        failure,
        story: world.cluster.story.take().unwrap_or_default(),
        requests_most: world.cluster.requests_most,
        caught_up_after: world.caught_up_after,
        facts: world.facts,
        blind: world.check.blind,
    }
}

struct World<'a> {
    plan: &'a Plan,
    cluster: Cluster,
    core: Core<Body, Both>,
    copy: Copy,
    check: Check,
    rng: Rng,
    facts: u64,
    caught_up_after: Duration,
    stopped: bool,
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
        let check = Check::new(&plan.setup, &cluster);
        Self {
            plan,
            core: Core::new(machine, both, "configmaps"),
            copy,
            check,
            rng: Rng::with_seed(!plan.seed),
            cluster,
            facts: 0,
            caught_up_after: Duration::ZERO,
            stopped: false,
        }
    }

    fn live(&mut self) -> Result<(), String> {
        self.core.start(Duration::ZERO, &mut self.cluster);
        self.settle(&Note::default())?;
        let last = self.plan.steps.iter().map(|step| step.at).max().unwrap_or_default();
        let quiet = Duration::from_millis(last) + AFTERMATH;
        self.run_until(quiet, |_| false)?;
        let quiet = quiet.max(self.cluster.conditions.partition_until);
        self.run_until(quiet, |_| false)?;
        if !self.stopped {
            self.cluster.tell(|| "everything is well again".to_owned());
            self.cluster.heal();
            self.run_until(quiet + CATCHES_UP, Self::is_well)?;
            self.caught_up_after = self.cluster.now.saturating_sub(quiet);
            if !self.is_well() && !self.is_excused() {
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
            if !self.is_excused() {
                self.check.all_agree(&self.copy, &self.cluster)?;
            }
        }
        self.stop()
    }

    /// The copy is what the server has.
    fn is_well(&self) -> bool {
        let status = self.core.status();
        let settled = match status.phase {
            Phase::Watching | Phase::Polling { .. } => true,
            // A proxy that holds heads back shows no watch before there is an event.
            Phase::Connecting | Phase::Waiting { .. } => self.plan.nature.holds_heads,
            _ => false,
        };
        settled && status.synced && self.check.is_true(&self.copy, &self.cluster).is_ok()
    }

    /// A copy that cannot know that it is wrong, and was not told to verify it.
    fn is_excused(&self) -> bool {
        self.check.blind && self.plan.setup.relist_every.is_none()
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
                self.copy.refusals.changes.store((*times).into(), Ordering::Relaxed);
            }
            Action::CommitFails => self.copy.refusals.commit.store(true, Ordering::Relaxed),
            Action::Follow(follower) => {
                self.copy.follow(follower.clone());
                self.schedule_looks();
            }
            Action::Leave(which) => {
                if let Some(follower) = self.copy.followers.get_mut(*which) {
                    follower.subscription = None;
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
        let now = self.cluster.now;
        let before = self.cluster.story.is_some().then(|| self.core.status());
        let text = self.cluster.story.is_some().then(|| describe(&fact));
        self.core.handle(now, fact, &mut self.cluster);
        if let (Some(before), Some(text)) = (before, text) {
            let after = self.core.status();
            self.narrate(&before, &after, &text);
        }
        self.settle(note)
    }

    /// After every fact: what must hold, and who is to look at what.
    fn settle(&mut self, note: &Note) -> Result<(), String> {
        let status = self.core.status();
        if status.phase == Phase::Stopped {
            self.stopped = true;
        }
        self.check.after(status, note, &self.copy, &self.cluster)?;
        self.contract()?;
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
            let Some(subscription) = &follower.subscription else { continue };
            let lag = subscription.lag();
            if !follower.looks && (lag.waiting > 0 || lag.present > 0 || subscription.ended().is_some()) {
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
            let goes_on = self.core.handle(self.cluster.now, Fact::Stop, &mut self.cluster);
            if goes_on {
                return Err("it goes on after the end".into());
            }
            self.settle(&Note::default())?;
        }
        self.stopped = true;
        has_stopped(&self.core.status(), self.core.deadline(), &self.cluster)
    }

    fn narrate(&mut self, before: &Status, after: &Status, fact: &str) {
        let version = |status: &Status| status.version.as_ref().map(ToString::to_string).unwrap_or_default();
        let (from, to) = (before.phase.to_string(), after.phase.to_string());
        let (old, new) = (version(before), version(after));
        if fact.is_empty() && from == to && old == new {
            return;
        }
        let error = after.last_error.as_ref().filter(|_| after.counts.errors > before.counts.errors);
        let error =
            error.map(|report| format!("; {report}, again in {:?}", report.retry_in)).unwrap_or_default();
        self.cluster.tell(|| format!("    {fact}: {from} -> {to}, at {new}{error}"));
    }
}

fn describe(fact: &Fact<Body>) -> String {
    use reflector::source::ListPart;
    match fact {
        Fact::ListOpened => "the list opens".into(),
        Fact::ListPart(ListPart::Items(items)) => format!("{} items", items.len()),
        Fact::ListPart(ListPart::End(end)) => format!("the page ends, {end:?}"),
        Fact::ListFailed(failure) => format!("the list fails ({failure})"),
        Fact::WatchOpened => "the watch opens".into(),
        Fact::WatchFailed(failure) => format!("the watch is not opened ({failure})"),
        Fact::Events(events) => format!("{events:?}"),
        Fact::Ended => "the watch ends".into(),
        Fact::Broken(failure) => format!("the watch breaks ({failure})"),
        Fact::Checked(result) => format!("the check gives {result:?}"),
        Fact::Reopened => "the second watch opens".into(),
        Fact::ReopenFailed(failure) => format!("the second watch fails ({failure})"),
        Fact::TimePassed => "time passes".into(),
        Fact::Stop => "the user stops".into(),
    }
}
