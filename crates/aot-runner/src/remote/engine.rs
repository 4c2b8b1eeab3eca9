//! What the driver and its hosts need of the engine between them: to find the hosts, to bring an order to one of them once,
//! to hear the reply, to take it back. How often it tries, what it writes down and how it survives a crash is its own.

use std::fmt::Debug;

/// A host as the engine knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub name: String,
    /// Of this registration; a host that comes back has another.
    pub registration: String,
}

/// An order that was handed to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The engine's own name of it.
    pub id: String,
}

/// An order that the engine has not seen the end of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    pub id: String,
    pub host: String,
    /// The key it was sent with.
    pub key: String,
}

/// How an order ended for whoever waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    Reply(Vec<u8>),
    /// It was taken back.
    Cancelled,
    /// The engine gave it up, for this reason.
    Failed(String),
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the engine at {address} does not answer: {why}")]
    Unreachable { address: String, why: String },
    #[error("the engine at {address} refused {what}: {why}")]
    Refused { address: String, what: String, why: String },
    /// The engine is there; the host is not, or does not answer it.
    #[error("the host `{host}` does not answer: {why}")]
    HostAway { host: String, why: String },
}

/// The driver's end.
pub trait OrderEngine: Debug + Send + Sync {
    fn hosts(&self) -> Result<Vec<Registered>, EngineError>;

    /// Brings the order to one slot of a host. The same key brings it once only: the second time it is the same order.
    fn send(&self, host: &str, slot: u32, key: &str, order: Vec<u8>) -> Result<Sent, EngineError>;

    /// Calls `ended` once, when the order has an end. An engine that is away for a while is waited for.
    fn wait(&self, sent: &Sent, ended: Box<dyn FnOnce(Waited) + Send>);

    /// Takes an order back. The host ends what it started for it, and then the order has an end.
    fn cancel(&self, id: &str) -> Result<(), EngineError>;

    /// Gives an order up whose host does not answer: nobody ends anything there.
    fn forget(&self, id: &str) -> Result<(), EngineError>;

    /// Asks a host something beside its orders; answered at once.
    fn look(&self, host: &str, request: Vec<u8>) -> Result<Vec<u8>, EngineError>;

    /// The orders without an end whose key begins like this.
    fn under_way(&self, key_begins: &str) -> Result<Vec<UnderWay>, EngineError>;

    /// Where people look at it.
    fn page(&self) -> String;
}

/// The host's end.
pub trait Host: Debug + Send + Sync + 'static {
    /// Starts the job of this order, or attaches to it if it was started already; `ended` hears its reply, at once if
    /// it has ended. While the answer lives, somebody waits for the job.
    fn take(&self, order: &[u8], ended: Box<dyn FnOnce(Vec<u8>) + Send>) -> Box<dyn OrderWaiting>;

    fn look(&self, request: &[u8]) -> Vec<u8>;
}

/// Somebody waits for a job. Dropped without a word, the engine has let go of it, and may come again.
pub trait OrderWaiting: Send {
    /// The order was taken back: the job is ended, and its reply comes when nothing of it is left.
    fn cancel(&self);
}
