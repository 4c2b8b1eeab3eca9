//! The driver's end: orders go to the server, replies are waited for. Knows nothing of what an order says.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aot_runner::remote::engine::{EngineError, OrderEngine, Registered, Sent, UnderWay, Waited};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::address::{Address, AddressError, Base};
use crate::http::{Answered, Http};
use crate::names;
use crate::service::REGISTRATION;

/// Whatever is asked of the server itself is answered within this time.
const ANSWER: Duration = Duration::from_secs(10);

/// A host that has not answered a question by then does not answer.
const LOOK: Duration = Duration::from_secs(3);

/// The pause before an order is asked for again whose server is away.
const AGAIN: Duration = Duration::from_millis(300);

/// Questions to a host have a key of their own; no slot is called that.
const LOOK_KEY: &str = "look";

const JSON: [(&str, &str); 2] = [("content-type", "application/json"), ("accept", "application/json")];

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("cannot start threads for the engine: {0}")]
    System(#[from] std::io::Error),
}

/// A Restate server. Dropped, it waits for nothing any more: what has not ended yet is not told.
pub struct Restate {
    runtime: Option<Runtime>,
    server: Arc<Server>,
    /// Keys of questions begin with this, and then they are counted.
    begun: u128,
    asked: AtomicU64,
}

/// Where it is, and how it is asked.
struct Server {
    admin: Base,
    ingress: Base,
    http: Http,
}

impl Restate {
    /// `address` as a user types it: `ADMIN` or `ADMIN,INGRESS`. The server has to be there.
    pub fn connect(address: &str) -> Result<Restate, ConnectError> {
        let Address { admin, ingress } = Address::read(address)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("restate-driver")
            .enable_all()
            .build()?;
        let http = {
            let _entered = runtime.enter();
            Http::new()
        };
        let url = format!("{admin}/version");
        let asked = http.ask_within(ANSWER, Method::GET, &url, &JSON, Bytes::new());
        let said = runtime
            .block_on(asked)
            .map_err(|why| EngineError::Unreachable { address: admin.to_string(), why })?;
        let version = said.json();
        if !said.status.is_success() || version["version"].as_str().is_none() {
            let why =
                "it is not the admin address of a Restate server; that one has port 9070 unless it is set"
                    .to_owned();
            let what = "to say its version".to_owned();
            return Err(EngineError::Refused { address: admin.to_string(), what, why }.into());
        }
        let ingress = ingress.unwrap_or_else(|| admin.ingress(version["ingress_endpoint"].as_str()));
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Restate {
            runtime: Some(runtime),
            server: Arc::new(Server { admin, ingress, http }),
            begun: since.as_nanos(),
            asked: AtomicU64::new(0),
        })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only when all is dropped")
    }

    /// A question of the admin API.
    fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        what: &str,
    ) -> Result<Answered, EngineError> {
        self.runtime().block_on(self.server.admin(method, path, body, what))
    }

    /// An order that is unknown, or that has ended, has nothing to be taken back.
    fn end(&self, id: &str, how: &str, what: &str) -> Result<(), EngineError> {
        let path = format!("invocations/{}/{how}", names::segment(id));
        let answer = self.admin(Method::PATCH, &path, None, what)?;
        match answer.status {
            StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::GONE => Ok(()),
            _ => self.server.success(answer, what).map(drop),
        }
    }
}

impl OrderEngine for Restate {
    fn hosts(&self) -> Result<Vec<Registered>, EngineError> {
        let what = "to list hosts";
        let listed = self.admin(Method::GET, "services", None, what)?;
        let listed = self.server.success(listed, what)?.json();
        let services = listed["services"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(services.iter().filter_map(registered).collect())
    }

    fn send(&self, host: &str, slot: u32, key: &str, order: Vec<u8>) -> Result<Sent, EngineError> {
        // Orders of different loops do not wait for each other: whether a slot is free the host knows.
        let object = match key.split_once('/') {
            Some((of, _)) => names::segment(&format!("{of}.{slot}")),
            None => slot.to_string(),
        };
        self.runtime().block_on(self.server.send(host, &object, "work", key, order, ANSWER))
    }

    fn wait(&self, sent: &Sent, ended: Box<dyn FnOnce(Waited) + Send>) {
        let server = Arc::clone(&self.server);
        let id = sent.id.clone();
        self.runtime().spawn(async move {
            let waited = server.reply(&id).await;
            // Whoever hears it may ask the engine something, which a thread of this runtime cannot wait for.
            tokio::task::spawn_blocking(move || ended(waited));
        });
    }

    fn cancel(&self, id: &str) -> Result<(), EngineError> {
        self.end(id, "cancel", "to take an order back")
    }

    fn forget(&self, id: &str) -> Result<(), EngineError> {
        self.end(id, "kill", "to give an order up")
    }

    fn look(&self, host: &str, request: Vec<u8>) -> Result<Vec<u8>, EngineError> {
        let until = Instant::now() + LOOK;
        let key = format!("look-{}-{}", self.begun, self.asked.fetch_add(1, Ordering::Relaxed));
        let away = |why: String| EngineError::HostAway { host: host.to_owned(), why };
        let sent = self.runtime().block_on(self.server.send(host, LOOK_KEY, "look", &key, request, LOOK))?;
        let left = until.saturating_duration_since(Instant::now());
        let asked = async { tokio::time::timeout(left, self.server.attach(&sent.id)).await };
        match self.runtime().block_on(asked) {
            Ok(Ok(Waited::Reply(reply))) => Ok(reply),
            Ok(Ok(Waited::Failed(why))) => Err(away(why)),
            Ok(Ok(Waited::Cancelled)) => Err(away("the question was taken back".to_owned())),
            Ok(Err(why)) => Err(self.server.unreachable(why)),
            Err(_) => {
                // The server would go on asking; where it cannot be told so, it ends that by itself.
                let _ = self.forget(&sent.id);
                Err(away(format!("no answer within {} s", LOOK.as_secs())))
            }
        }
    }

    fn under_way(&self, key_begins: &str) -> Result<Vec<UnderWay>, EngineError> {
        let query = format!(
            "SELECT id, target_service_name, idempotency_key FROM sys_invocation \
             WHERE target_handler_name = 'work' AND status <> 'completed' \
             AND starts_with(target_service_name, {}) AND starts_with(idempotency_key, {})",
            names::quoted(&names::service("")),
            names::quoted(key_begins),
        );
        let what = "to list orders";
        let answer = self.admin(Method::POST, "query", Some(json!({"query": query})), what)?;
        let found = self.server.success(answer, what)?.json();
        let rows = found["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(rows.iter().filter_map(under_way).collect())
    }

    fn page(&self) -> String {
        format!("{}/ui/", self.server.admin)
    }
}

fn registered(service: &Value) -> Option<Registered> {
    let name = names::host(service["name"].as_str()?)?.to_owned();
    // Without it, somebody else has named a service like one of ours.
    let registration = service["metadata"][REGISTRATION].as_str()?.to_owned();
    Some(Registered { name, registration })
}

fn under_way(row: &Value) -> Option<UnderWay> {
    let text = |column: &str| row[column].as_str().map(str::to_owned);
    let host = names::host(row["target_service_name"].as_str()?)?.to_owned();
    Some(UnderWay { id: text("id")?, host, key: text("idempotency_key")? })
}

impl Server {
    fn unreachable(&self, why: String) -> EngineError {
        EngineError::Unreachable { address: self.admin.to_string(), why }
    }

    fn success(&self, answer: Answered, what: &str) -> Result<Answered, EngineError> {
        if answer.status.is_success() {
            return Ok(answer);
        }
        let (address, what) = (self.admin.to_string(), what.to_owned());
        match answer.status {
            // It is there, and says that a part of it is not.
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY => Err(self.unreachable(answer.why())),
            _ => Err(EngineError::Refused { address, what, why: answer.why() }),
        }
    }

    async fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        what: &str,
    ) -> Result<Answered, EngineError> {
        let url = format!("{}/{path}", self.admin);
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let answer = self.http.ask_within(ANSWER, method, &url, &JSON, body).await;
        answer.map_err(|why| self.unreachable(format!("{why} ({what})")))
    }

    async fn send(
        &self,
        host: &str,
        object: &str,
        handler: &str,
        key: &str,
        body: Vec<u8>,
        most: Duration,
    ) -> Result<Sent, EngineError> {
        let url = format!("{}/{}/{object}/{handler}/send", self.ingress, names::service(host));
        let headers = [("content-type", "application/octet-stream"), ("idempotency-key", key)];
        let answer = self.http.ask_within(most, Method::POST, &url, &headers, Bytes::from(body)).await;
        let answer =
            answer.map_err(|why| EngineError::Unreachable { address: self.ingress.to_string(), why })?;
        if answer.status == StatusCode::NOT_FOUND {
            return Err(EngineError::HostAway {
                host: host.to_owned(),
                why: "it is not registered".to_owned(),
            });
        }
        let answer = self.success(answer, "an order")?;
        match answer.json()["invocationId"].as_str() {
            Some(id) => Ok(Sent { id: id.to_owned() }),
            None => Err(self.unreachable(format!("it took an order and said: {}", answer.why()))),
        }
    }

    /// Waits until the order has an end, for as long as that takes.
    async fn reply(&self, id: &str) -> Waited {
        loop {
            if let Ok(waited) = self.attach(id).await {
                return waited;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The end of an order, or why it could not be heard.
    async fn attach(&self, id: &str) -> Result<Waited, String> {
        let url = format!("{}/restate/invocation/{}/attach", self.ingress, names::segment(id));
        let answer = self.http.ask(Method::GET, &url, &[], Bytes::new()).await?;
        ended(answer)
    }
}

/// The server answers for an order that failed with the code that it failed with.
fn ended(answer: Answered) -> Result<Waited, String> {
    if answer.status.is_success() {
        return Ok(Waited::Reply(answer.body.into()));
    }
    match (answer.status, answer.why()) {
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY | StatusCode::TOO_MANY_REQUESTS, why) => {
            Err(why)
        }
        (StatusCode::CONFLICT, why) if why.contains("cancel") => Ok(Waited::Cancelled),
        (StatusCode::NOT_FOUND, _) => Ok(Waited::Failed("the engine does not know it any more".to_owned())),
        (_, why) => Ok(Waited::Failed(why)),
    }
}

impl fmt::Debug for Restate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Restate({}, {})", self.server.admin, self.server.ingress)
    }
}

impl Drop for Restate {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
