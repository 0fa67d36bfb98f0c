//! The wish to end.

/// Ctrl-C, or SIGTERM.
pub(crate) async fn end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // No signals here: whoever wants to end the process has to kill it.
        std::future::pending::<()>().await;
    }
}

/// Resolves when nobody reads stdout any more. Without it a watch behind `head` would go on until the next change,
/// which may be hours away.
#[cfg(unix)]
pub(crate) async fn stdout_closed() {
    use rustix::event::{PollFd, PollFlags, poll};

    let (gone, closed) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        let stdout = std::io::stdout();
        // Nothing is asked for: errors and hang-ups are reported all the same.
        let mut descriptors = [PollFd::new(&stdout, PollFlags::empty())];
        if poll(&mut descriptors, None).is_ok_and(|ready| ready > 0)
            && descriptors[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
        {
            let _ = gone.send(());
        }
    });
    if started.is_err() || closed.await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
pub(crate) async fn stdout_closed() {
    std::future::pending::<()>().await;
}
