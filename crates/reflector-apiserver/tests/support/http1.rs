//! A plain HTTP/1.1 client that shows exactly what came over the wire, and how it ended.
#![allow(dead_code, reason = "each user of this file needs a part of it")]
#![allow(clippy::unwrap_used, reason = "a test's tool")]

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time,
};

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As announced: by length or by the last chunk.
    Complete,
    /// The connection was closed before that.
    Closed,
    /// The connection was reset.
    Reset,
    /// The client lost patience.
    TimedOut,
}

/// What came.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// The body without its chunks' framing.
    pub(crate) body: Vec<u8>,
    pub(crate) chunks: usize,
    pub(crate) ending: Ending,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn events(&self) -> Vec<serde_json::Value> {
        let lines = self.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}

/// A connection that carries one request after the other.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { stream: BufReader::new(TcpStream::connect(address).await?) })
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method != "GET" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.stream.get_mut().write_all(head.as_bytes()).await?;
        // A server may answer, and close, before it has read a body that is too long.
        let _ = self.stream.get_mut().write_all(body).await;
        Ok(())
    }

    /// Reads the head; `Err` when there is none.
    pub(crate) async fn head(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.push((name.to_owned(), value.to_owned()));
        }
        Ok(Reply { status, headers, body: Vec::new(), chunks: 0, ending: Ending::Complete })
    }

    /// Reads some of the body into the reply: one chunk, or all of a body with a length. `false` when it is complete.
    pub(crate) async fn more(&mut self, reply: &mut Reply) -> io::Result<bool> {
        if let Some(length) = reply.header("content-length") {
            let length: usize = length.parse().map_err(io::Error::other)?;
            let start = reply.body.len();
            reply.body.resize(length, 0);
            self.stream.read_exact(&mut reply.body[start..]).await?;
            return Ok(false);
        }
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let size = usize::from_str_radix(line.trim_end(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let start = reply.body.len();
        reply.body.resize(start + size, 0);
        // What came of a broken chunk stays.
        let mut filled = start;
        while filled < start + size {
            match self.stream.read(&mut reply.body[filled..]).await {
                Ok(0) => {
                    reply.body.truncate(filled);
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(some) => filled += some,
                Err(error) => {
                    reply.body.truncate(filled);
                    return Err(error);
                }
            }
        }
        self.stream.read_line(&mut line).await?;
        reply.chunks += usize::from(size > 0);
        Ok(size > 0)
    }

    /// Reads all that comes, as long as the patience lasts; `Err` when not even a head came.
    pub(crate) async fn reply(&mut self, patience: Duration) -> io::Result<Reply> {
        let deadline = time::Instant::now() + patience;
        let mut reply = match time::timeout_at(deadline, self.head()).await {
            Ok(reply) => reply?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        loop {
            reply.ending = match time::timeout_at(deadline, self.more(&mut reply)).await {
                Ok(Ok(true)) => continue,
                Ok(Ok(false)) => Ending::Complete,
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Ending::Reset,
                Ok(Err(_)) => Ending::Closed,
                Err(_) => Ending::TimedOut,
            };
            return Ok(reply);
        }
    }
}

/// One request on a connection of its own.
pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    patience: Duration,
) -> io::Result<Reply> {
    let mut connection = Connection::open(address).await?;
    connection.send(method, path, headers, body).await?;
    connection.reply(patience).await
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Reply {
    request(address, "GET", path, &[], b"", Duration::from_secs(20)).await.unwrap()
}
