//! Requests to a Restate server over connections that are kept. Knows nothing of what is asked.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(3);

/// A connection on which nothing arrives is looked at after this time, and given up after as many times as `PROBES` says.
const ALIVE: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// A longer answer is none: replies bring outputs and transcripts, which are bounded where they are made.
const MOST_BYTES: usize = 64 << 20;

/// An answer of the server, whatever it says.
#[derive(Debug)]
pub struct Answered {
    pub status: StatusCode,
    pub body: Bytes,
}

#[derive(Clone, Debug)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Http {
    /// To be called where a runtime is.
    pub fn new() -> Http {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(ALIVE));
        connector.set_keepalive_interval(Some(ALIVE));
        connector.set_keepalive_retries(Some(PROBES));
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Http { client }
    }

    /// The answer as soon as it is there, however long that takes; an error says why none came.
    pub async fn ask(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answered, String> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| reason(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| reason(&*error))?.to_bytes();
        Ok(Answered { status, body })
    }

    /// The same, but not longer than this.
    pub async fn ask_within(
        &self,
        most: Duration,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answered, String> {
        match tokio::time::timeout(most, self.ask(method, url, headers, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", most.as_secs())),
        }
    }
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// What an answer says that is not a success.
    pub fn why(&self) -> String {
        let said = match self.json().get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let said: String = said.chars().take(MOST_SAID).collect();
        if said.trim().is_empty() { self.status.to_string() } else { said }
    }
}

/// As much of what a server says goes into an error.
const MOST_SAID: usize = 1000;

/// The innermost cause says what happened; the outer ones say only that something did.
fn reason(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
