//! A host as a service of Restate, with `work` for orders and `look` for questions. The only file that knows the SDK.
//!
//! `work` writes nothing down but the reply. Whenever a connection or a server is lost it is run again from its beginning,
//! and then the host attaches to the job that it has. A step of the SDK (`ctx.run`) does not read what the server says
//! while it goes on, so that it would miss a cancellation. Here the handler waits for a short timer of the server instead,
//! again and again, and beside it for the reply: waiting for a timer reads what the server says. The timer is also why a
//! handler that the server has put to sleep wakes up and attaches again.

use std::sync::Arc;
use std::time::Duration;

use aot_runner::remote::engine::Host;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::prelude::{
    ContextTimers, Endpoint, HandlerOptions, HandlerResult, ObjectContext, ServiceOptions,
    SharedObjectContext, TerminalError,
};
use restate_sdk::service::macro_support::{ServiceBoxFuture, service_definition};
use restate_sdk::service::{Discoverable, Service};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// A handler says that it is there as often as this, and is woken up after as long.
const PULSE: Duration = Duration::from_secs(60);

/// A handler of which nothing was heard for as long as this is put to sleep; it always says something before.
const INACTIVE: Duration = Duration::from_secs(60 * 60);

/// How long the reply to an order may take that was taken back.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// How long a reply is kept for those who ask for it, and for how long the same key is the same order.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
const LOOK_KEPT: Duration = Duration::from_secs(60);

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// At two seconds each more than a hundred years. Without a number the server has one of its own, and then it pauses.
const FOREVER: u64 = 1 << 31;

/// What a terminal error says of an order that was taken back, as the server does itself.
const CONFLICT: u16 = 409;

/// A peer that does not answer for this long is gone.
const PEER_ALIVE: Duration = Duration::from_secs(10);

/// The key of the service's metadata that says which registration it is.
pub const REGISTRATION: &str = "registration";

/// What of a host cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    #[error("`{0}` cannot be the name of a service: choose a name of letters, digits and hyphens")]
    Name(String),
    #[error(
        "`{key}` is not the public key of a Restate server ({why}): give the one that it prints when it starts, publickeyv1_KEY"
    )]
    Key { key: String, why: String },
}

struct Work {
    host: Arc<dyn Host>,
}

#[restate_sdk::prelude::object]
impl Work {
    #[handler]
    async fn work(&self, ctx: ObjectContext<'_>, order: Vec<u8>) -> HandlerResult<Vec<u8>> {
        let (ended, mut reply) = oneshot::channel();
        let host = Arc::clone(&self.host);
        // Nobody may be left who hears the reply.
        let ended = Box::new(move |reply| drop(ended.send(reply)));
        let waiting = spawn_blocking(move || host.take(&order, ended)).await?;
        loop {
            // The timers come first, so that a handler that is run again takes the same way as before.
            tokio::select! {
                biased;
                passed = ctx.sleep(PULSE) => if passed.is_err() { break },
                reply = &mut reply => return Ok(reply?),
            }
        }
        waiting.cancel();
        match tokio::time::timeout(LAST_WORDS, reply).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(TerminalError::new_with_code(CONFLICT, "cancelled").into()),
        }
    }

    #[handler]
    async fn look(&self, _ctx: SharedObjectContext<'_>, request: Vec<u8>) -> HandlerResult<Vec<u8>> {
        let host = Arc::clone(&self.host);
        Ok(spawn_blocking(move || host.look(&request)).await?)
    }
}

/// The SDK takes the name of a service from the code. Ours is known at run time only, so the call of a handler, which the SDK
/// would generate with the name, is here.
struct Named {
    work: Arc<Work>,
}

impl Service for Named {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let work = Arc::clone(&self.work);
        Box::pin(async move {
            let handler = match ctx.handler_name() {
                "work" => Handler::Work,
                "look" => Handler::Look,
                other => {
                    return Err(restate_sdk::endpoint::Error::unknown_handler(ctx.service_name(), other));
                }
            };
            let (input, metadata) = ctx.input::<Vec<u8>>().await;
            let result = match handler {
                Handler::Work => work.work((&ctx, metadata).into(), input).await,
                Handler::Look => work.look((&ctx, metadata).into(), input).await,
            };
            ctx.handle_handler_result(result);
            ctx.end();
            Ok(())
        })
    }
}

enum Handler {
    Work,
    Look,
}

/// What a host is to the server.
pub struct Offer {
    endpoint: Endpoint,
}

impl Offer {
    pub fn new(
        service: &str,
        registration: &str,
        host: Arc<dyn Host>,
        identity_keys: &[String],
    ) -> Result<Offer, OfferError> {
        let options = ServiceOptions::new()
            .metadata(REGISTRATION, registration)
            .inactivity_timeout(INACTIVE)
            .abort_timeout(INACTIVE)
            .handler(
                "work",
                HandlerOptions::new()
                    .idempotency_retention(KEPT)
                    .journal_retention(Duration::ZERO)
                    .retry_policy_initial_interval(FIRST_RETRY)
                    .retry_policy_exponentiation_factor(2.0)
                    .retry_policy_max_interval(LONGEST_RETRY)
                    .retry_policy_max_attempts(FOREVER)
                    .retry_policy_pause_on_max_attempts(),
            )
            .handler(
                "look",
                HandlerOptions::new()
                    .idempotency_retention(LOOK_KEPT)
                    .journal_retention(Duration::ZERO)
                    .retry_policy_max_attempts(1)
                    .retry_policy_kill_on_max_attempts(),
            );
        let mut discovery = Work::discover();
        discovery.name = service.parse().map_err(|_| OfferError::Name(service.to_owned()))?;
        let named = Named { work: Arc::new(Work { host }) };
        let mut builder = Endpoint::builder().bind(service_definition(named, discovery).options(options));
        for key in identity_keys {
            builder = builder
                .identity_key(key)
                .map_err(|error| OfferError::Key { key: key.clone(), why: error.to_string() })?;
        }
        Ok(Offer { endpoint: builder.build() })
    }

    /// Serves until it is dropped, and with it all that is under way.
    pub async fn serve(self, listener: TcpListener) {
        let endpoint = HyperEndpoint::new(self.endpoint);
        let mut connections = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                // A connection that ended takes its place in the set until it is asked for.
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => {
                    // One that broke off before it was taken is nobody's concern; a lack of descriptors passes.
                    let Ok((stream, _)) = accepted else {
                        tokio::time::sleep(FIRST_RETRY).await;
                        continue;
                    };
                    // Without it the connection is only slower.
                    let _ = stream.set_nodelay(true);
                    let endpoint = endpoint.clone();
                    let connection = http2::Builder::new(TokioExecutor::new())
                        .timer(TokioTimer::new())
                        .keep_alive_interval(PEER_ALIVE)
                        .keep_alive_timeout(PEER_ALIVE)
                        .max_concurrent_streams(None)
                        .serve_connection(TokioIo::new(stream), endpoint);
                    // Why a connection ended the server says, who tries again.
                    connections.spawn(async move { drop(connection.await) });
                }
            }
        }
    }
}
