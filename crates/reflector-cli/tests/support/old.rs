//! A proxy that loses `Accept`, as in front of old servers.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

pub(crate) struct Proxy {
    pub(crate) url: String,
}

impl Proxy {
    /// Serves until the test ends.
    pub(crate) fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").to_owned();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let upstream = upstream.clone();
                thread::spawn(move || serve(client, &upstream));
            }
        });
        Self { url }
    }
}

/// One request per connection.
fn serve(mut client: TcpStream, upstream: &str) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let discovery = head.starts_with("GET /api ") || head.starts_with("GET /apis ");
    let lost = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("connection:") || (discovery && line.starts_with("accept:"))
    };
    let mut kept: Vec<&str> = head.trim_end().lines().filter(|line| !lost(line)).collect();
    kept.push("connection: close\r\n\r\n");
    let mut server = TcpStream::connect(upstream).ok()?;
    server.write_all(kept.join("\r\n").as_bytes()).ok()?;
    std::io::copy(&mut server, &mut client).ok()?;
    Some(())
}

/// A server that answers everything with this.
pub(crate) fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let _ = client.read(&mut request);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    url
}
