//! What clients read without a call: the state, the graph, where the loop stands. Knows no protocol.

/// One text that clients can read.
#[derive(Debug)]
pub struct Resource {
    pub uri: &'static str,
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub kind: &'static str,
    pub source: Source,
}

/// Where its text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The state file, as it is.
    File,
    /// The object of this tool.
    Object(&'static str),
    /// The text that this tool draws.
    Text(&'static str),
}

pub const RESOURCES: [Resource; 3] = [
    Resource {
        uri: "aot://state",
        name: "state",
        title: "The state file",
        description: "The state file as it stands: goal, checks, atoms, results, history",
        kind: "text/markdown",
        source: Source::File,
    },
    Resource {
        uri: "aot://graph",
        name: "graph",
        title: "The graph",
        description: "What waits for what, what was decomposed into what, which alternatives there are",
        kind: "text/plain",
        source: Source::Text("graph"),
    },
    Resource {
        uri: "aot://status",
        name: "status",
        title: "Where the loop stands",
        description: "What runs, what is next, what failed, what it can still cost",
        kind: "application/json",
        source: Source::Object("status"),
    },
];

pub fn at(uri: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.uri == uri)
}
