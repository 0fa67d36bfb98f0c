//! Who waits is woken. Each step of the queue is one critical section, so what threads can do to each other is a
//! matter of the order of steps; all orders up to some length are tried, and then real threads.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::FutureExt;

use super::*;

/// client-go: DeltaFIFO_PopShouldUnblockWhenClosed
#[tokio::test]
async fn q1_closing_wakes_everybody_once_what_waits_is_taken() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    let poppers: Vec<_> = (0..10)
        .map(|_| {
            let fifo = rig.fifo.clone();
            tokio::spawn(async move {
                let mut taken = 0;
                while let Some(popped) = fifo.pop().await {
                    taken += popped.len();
                }
                taken
            })
        })
        .collect();
    tokio::task::yield_now().await;
    rig.run("put a:1; put b:2; close; put c:3");
    let mut taken = 0;
    for popper in poppers {
        taken += popper.await.unwrap();
    }
    assert_eq!(taken, 2);
}

/// What waits for a guard is still to come.
#[tokio::test]
async fn q1_the_end_waits_for_what_came_while_its_key_was_processed() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    rig.run("put a:1; take; put a:2; close");
    let fifo = rig.fifo.clone();
    let (mut pop, mut batch) = (Box::pin(fifo.pop()), Box::pin(fifo.pop_batch(5)));
    assert!((&mut pop).now_or_never().is_none());
    assert!((&mut batch).now_or_never().is_none());
    rig.run("finish");
    assert_eq!(texts(&pop.await.unwrap()), "a@1>2");
    assert!(batch.await.is_none());
}

#[tokio::test]
async fn a_writer_that_is_gone_ends_the_queue() {
    let (fifo, mut writer) = DeltaFifo::<Json>::new(DeltaFifoOptions::default());
    writer.apply(vec![Change::Upsert(parse("a:1"))], None).unwrap();
    drop(writer);
    assert!(fifo.is_closed());
    assert!(fifo.pop().await.is_some());
    assert!(fifo.pop().await.is_none());
    assert!(!fifo.synced().await, "no list has come and none will");
}

#[tokio::test]
async fn synced_waits_until_the_last_guard_is_gone() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    rig.run("list a:1; take; close");
    let fifo = rig.fifo.clone();
    let mut synced = Box::pin(fifo.synced());
    assert!((&mut synced).now_or_never().is_none());
    rig.run("finish");
    assert!(synced.await);
}

#[tokio::test]
async fn a_pop_that_is_given_up_has_taken_nothing() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    let fifo = rig.fifo.clone();
    let mut given_up = Box::pin(fifo.pop());
    let mut other = Box::pin(fifo.pop());
    assert!((&mut given_up).now_or_never().is_none());
    assert!((&mut other).now_or_never().is_none());
    rig.run("put a:1");
    drop(given_up);
    assert_eq!(texts(&other.await.unwrap()), "+a@1");
}

/// Whether a future has been woken since it was polled last.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

type Taken = Option<Vec<Popped<Json>>>;

/// A task that pops in a loop, polled only when it was woken.
struct Popper {
    woken: Arc<Flag>,
    /// `None` after the end.
    future: Option<Pin<Box<dyn Future<Output = Taken>>>>,
    batches: bool,
}

impl Popper {
    fn new(fifo: &DeltaFifo<Json>, batches: bool) -> Self {
        let mut popper = Self { woken: Arc::new(Flag(AtomicBool::new(true))), future: None, batches };
        popper.restart(fifo);
        popper
    }

    fn restart(&mut self, fifo: &DeltaFifo<Json>) {
        let (fifo, batches) = (fifo.clone(), self.batches);
        self.woken.0.store(true, SeqCst);
        self.future = Some(Box::pin(async move {
            if batches { fifo.pop_batch(2).await } else { fifo.pop().await.map(|popped| vec![popped]) }
        }));
    }

    /// Polls once, if it was woken; whether it was.
    fn run(&mut self, fifo: &DeltaFifo<Json>, held: &mut Vec<Popped<Json>>) -> bool {
        let Some(future) = &mut self.future else { return false };
        if !self.woken.0.swap(false, SeqCst) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(None) => self.future = None,
            Poll::Ready(Some(taken)) => {
                held.extend(taken);
                self.restart(fifo);
            }
        }
        true
    }
}

const STEPS: [&str; 7] = ["first", "second", "put", "list", "finish", "close", "cancel"];

/// Carries out steps, lets everybody who was woken run, and checks that nobody waits for what is there.
fn try_order(waiting: bool, order: &[usize]) {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    let fifo = rig.fifo.clone();
    let (mut first, mut second) = (Popper::new(&fifo, false), Popper::new(&fifo, true));
    let synced_flag = Arc::new(Flag(AtomicBool::new(true)));
    let mut synced = Box::pin(fifo.synced());
    let waker = Waker::from(Arc::clone(&synced_flag));
    let mut synced_result = None;
    let mut version = 0;
    if waiting {
        first.run(&fifo, &mut rig.held);
        second.run(&fifo, &mut rig.held);
    }
    for step in order.iter().map(|step| STEPS[*step]) {
        version += 1;
        match step {
            "first" => drop(first.run(&fifo, &mut rig.held)),
            "second" => drop(second.run(&fifo, &mut rig.held)),
            "put" => drop(rig.run(&format!("put {}:{version}", ["a", "b"][version % 2]))),
            "list" => drop(rig.run(&format!("list a:{version} c:{version}"))),
            "finish" if !rig.held.is_empty() => drop(rig.run("finish")),
            "close" => drop(rig.run("close")),
            "cancel" => first.restart(&fifo),
            _ => {}
        }
        if synced_result.is_none() && synced_flag.0.swap(false, SeqCst) {
            let poll = synced.as_mut().poll(&mut Context::from_waker(&waker));
            synced_result = if let Poll::Ready(synced) = poll { Some(synced) } else { None };
        }
    }
    while first.run(&fifo, &mut rig.held) || second.run(&fifo, &mut rig.held) {}
    let names = || order.iter().map(|step| STEPS[*step]).collect::<Vec<_>>();
    for waiting in [&first, &second].iter().filter(|popper| popper.future.is_some()) {
        assert!(rig.fifo.try_pop().is_none(), "{:?} sleeps over a key: {:?}", waiting.batches, names());
        assert!(!(fifo.is_closed() && fifo.is_empty()), "sleeps after the end: {:?}", names());
    }
    let steps = || order.iter().map(|step| STEPS[*step]);
    let listed = steps().take_while(|step| *step != "close").any(|step| step == "list");
    let expected = match fifo.has_synced() {
        true => Some(true),
        false => (fifo.is_closed() && !listed).then_some(false),
    };
    assert_eq!(synced_result, expected, "synced: {:?}", names());
}

#[test]
fn nobody_sleeps_whatever_the_order_of_steps() {
    let depth: u32 = 5;
    let n = STEPS.len();
    for number in 0..n.pow(depth) {
        let order: Vec<_> = (0..depth).map(|digit| number / n.pow(digit) % n).collect();
        try_order(false, &order);
        try_order(true, &order);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_process_each_change_once_and_in_order() {
    let (changes, keys) = (4000_u64, 20);
    let (fifo, mut writer) = DeltaFifo::<Json>::new(DeltaFifoOptions::default());
    // The last version that was processed of each key, by whomever, and how many changes there were.
    let seen: Arc<Mutex<(HashMap<ObjectKey, u64>, u64)>> = Arc::default();
    let poppers: Vec<_> = (1..=6)
        .map(|max| {
            let (fifo, seen) = (fifo.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                while let Some(batch) = fifo.pop_batch(max).await {
                    for popped in &batch {
                        for delta in popped.iter() {
                            let version = delta.object().version().unwrap().to_string().parse().unwrap();
                            let mut seen = seen.lock().unwrap();
                            let before = seen.0.insert(popped.key().clone(), version);
                            assert!(before.is_none_or(|before| before < version), "{popped:?}");
                            seen.1 += 1;
                        }
                    }
                    // The guards are still there.
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let producer = std::thread::spawn(move || {
        for version in 1..=changes {
            let key = format!("k{}:{version}", version * 7 % keys);
            writer.apply(vec![Change::Upsert(parse(&key))], None).unwrap();
        }
    });
    for popper in poppers {
        popper.await.unwrap();
    }
    producer.join().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!((seen.0.len(), seen.1), (fifo.known().len(), changes));
}
