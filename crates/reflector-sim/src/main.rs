//! Runs schedules.
fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1000);
    let from: u64 = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(0);
    let begin = std::time::Instant::now();
    let mut failures = 0;
    let mut kinds = std::collections::BTreeMap::<String, (u64, Vec<u64>)>::new();
    let (mut most, mut slowest, mut facts, mut blind) = (0, std::time::Duration::ZERO, 0, 0);
    for seed in from..from + n {
        let plan = reflector_sim::generate::plan(seed);
        let outcome = reflector_sim::run(&plan, n == 1);
        if n == 1 {
            println!("{plan:#?}");
            for line in &outcome.story {
                println!("{line}");
            }
        }
        most = most.max(outcome.requests_most);
        slowest = slowest.max(outcome.caught_up_after);
        facts += outcome.facts;
        blind += u32::from(outcome.blind);
        if let Some(failure) = outcome.failure {
            failures += 1;
            let kind: String = failure.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
            let e = kinds.entry(kind).or_default();
            e.0 += 1;
            if e.1.len() < 3 {
                e.1.push(seed);
                println!("{seed}: {failure}");
            }
        }
    }
    println!("{kinds:#?}");
    println!(
        "{n} schedules, {failures} failures, most {most}, slowest {slowest:?}, facts {facts}, blind {blind}, {:?}",
        begin.elapsed()
    );
}
