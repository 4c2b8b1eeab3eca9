//! The host's end: it is served under its name, and registered at the server for as long as it is served. Knows nothing of
//! what an order says.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aot_runner::remote::engine::Host;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::address::{Address, AddressError, Base};
use crate::http::{Answered, Http};
use crate::names;
use crate::service::{Offer, OfferError, REGISTRATION};

/// How often a host looks whether the server still has it, and how often while it has it not.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The server looks at a host before it registers it.
const REGISTERING: Duration = Duration::from_secs(15);

/// Orders wait most of the time; two threads are enough for their beginnings and ends.
const THREADS: usize = 2;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error("cannot serve: {0}")]
    System(#[from] std::io::Error),
}

/// What a host is called and where it is found.
#[derive(Clone, Debug)]
pub struct Place {
    pub name: String,
    /// The address of the Restate server as a user types it.
    pub engine: String,
    /// The URL that the server calls the host by.
    pub url: String,
    /// `publickeyv1_…`, of the servers that may call. With none, everybody may.
    pub identity_keys: Vec<String>,
}

/// Whether the server has this host, whenever that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Registered,
    /// The server does not answer; it is asked again.
    EngineAway {
        why: String,
    },
    /// The server does not take the host; it is asked again.
    Refused {
        why: String,
    },
    /// Another host has this name now, at this URL.
    Replaced {
        by: String,
    },
}

/// A host that is served. Dropped, it is not served any more: those who wait for its jobs are let go, and the server goes
/// on trying to reach it.
#[derive(Debug)]
pub struct Serving {
    runtime: Option<Runtime>,
}

impl Serving {
    /// Serves a host on this listener and registers it. `told` hears whether the server has it.
    pub fn start(
        place: Place,
        listener: TcpListener,
        host: Arc<dyn Host>,
        told: impl FnMut(Standing) + Send + 'static,
    ) -> Result<Serving, ServeError> {
        let admin = Address::read(&place.engine)?.admin;
        let url = Base::read(&place.url)?.to_string();
        let service = names::service(&place.name);
        let registration = registration();
        let offer = Offer::new(&service, &registration, host, &place.identity_keys)?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("restate-host")
            .enable_all()
            .build()?;
        let entered = runtime.enter();
        runtime.spawn(offer.serve(tokio::net::TcpListener::from_std(listener)?));
        let mut registrar = Registrar { http: Http::new(), admin, service, url, registration, first: true };
        let mut told = told;
        runtime.spawn(async move {
            let mut last = None;
            loop {
                let now = registrar.look().await;
                let again = if now == Standing::Registered { LOOK_AGAIN } else { TRY_AGAIN };
                if last.as_ref() != Some(&now) {
                    told(now.clone());
                    last = Some(now);
                }
                tokio::time::sleep(again).await;
            }
        });
        drop(entered);
        Ok(Serving { runtime: Some(runtime) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// No two registrations of a host have the same.
fn registration() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", since.as_nanos(), std::process::id())
}

/// What the server has under the name of this host.
enum Known {
    Nothing,
    /// This very registration.
    This,
    /// Another one, at this deployment and URL.
    Other {
        deployment: String,
        url: String,
    },
}

struct Registrar {
    http: Http,
    admin: Base,
    service: String,
    url: String,
    registration: String,
    /// Only a host that has just begun takes a name over.
    first: bool,
}

impl Registrar {
    /// Sees to it that the server has this host.
    async fn look(&mut self) -> Standing {
        let standing = match self.known().await {
            Ok(Known::This) => Ok(()),
            Ok(Known::Other { url, .. }) if url != self.url && !self.first => {
                return Standing::Replaced { by: url };
            }
            // What is under way is bound to the deployment that it began with, so that one is moved.
            Ok(Known::Other { deployment, url }) if url != self.url => self.move_here(&deployment).await,
            Ok(Known::Other { .. } | Known::Nothing) => self.register().await,
            Err(standing) => Err(standing),
        };
        match standing {
            Ok(()) => {
                self.first = false;
                Standing::Registered
            }
            Err(standing) => standing,
        }
    }

    async fn known(&self) -> Result<Known, Standing> {
        let answer = self.ask(Method::GET, &format!("services/{}", self.service), None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(Known::Nothing);
        }
        let service = success(answer)?;
        if service["metadata"][REGISTRATION] == self.registration.as_str() {
            return Ok(Known::This);
        }
        let deployment = service["deployment_id"].as_str().unwrap_or_default().to_owned();
        let answer =
            self.ask(Method::GET, &format!("deployments/{}", names::segment(&deployment)), None).await?;
        let url = success(answer)?["uri"].as_str().unwrap_or_default().trim_end_matches('/').to_owned();
        Ok(Known::Other { deployment, url })
    }

    async fn register(&self) -> Result<(), Standing> {
        let body = json!({"uri": self.url, "force": true});
        success(self.ask(Method::POST, "deployments", Some(body)).await?).map(drop)
    }

    async fn move_here(&self, deployment: &str) -> Result<(), Standing> {
        let body = json!({"uri": self.url, "overwrite": true});
        let path = format!("deployments/{}", names::segment(deployment));
        success(self.ask(Method::PATCH, &path, Some(body)).await?).map(drop)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Answered, Standing> {
        let url = format!("{}/{path}", self.admin);
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let answer = self.http.ask_within(REGISTERING, method, &url, &headers, body).await;
        answer.map_err(|why| Standing::EngineAway { why })
    }
}

fn success(answer: Answered) -> Result<Value, Standing> {
    if answer.status.is_success() { Ok(answer.json()) } else { Err(Standing::Refused { why: answer.why() }) }
}
