//! Everything that is done with the bytes of a client before a verb is started, for any bytes. A test and a fuzz target share
//! it; the server itself does not use it.

use serde_json::Value;

use crate::commands::call;
use crate::mcp::lines::BoundedLines;
use crate::mcp::{TOO_LONG, too_long};

/// Short, so that long lines are reached.
const LONGEST: usize = 1 << 12;

/// Whatever a client sends is given on as whole lines within the limit, and each call is read as a verb or refused with a
/// reason. The first byte says how much of it comes at a time.
pub fn read(bytes: &[u8]) {
    let Some((&step, bytes)) = bytes.split_first() else { return };
    let mut lines = BoundedLines::of(LONGEST, too_long);
    let mut given = Vec::new();
    for chunk in bytes.chunks(usize::from(step).max(1)) {
        lines.take(chunk);
        loop {
            let part = lines.give(LONGEST);
            if part.is_empty() {
                break;
            }
            given.extend_from_slice(part);
        }
    }
    assert!(given.is_empty() || given.ends_with(b"\n"));
    for line in given.split(|byte| *byte == b'\n') {
        let replaced = serde_json::from_slice::<Value>(line).is_ok_and(|it| it["params"]["name"] == TOO_LONG);
        assert!(line.len() <= LONGEST || replaced, "a line of {} bytes", line.len());
        message(line);
    }
}

fn message(line: &[u8]) {
    let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
    let params = &message["params"];
    let Some(tool) = params["name"].as_str().and_then(call::named) else { return };
    let arguments = params["arguments"].to_string();
    if let Err(refused) = call::verb_of(tool, arguments.as_bytes()) {
        assert!(!refused.message().trim().is_empty());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kept_request_is_read_or_refused() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mcp");
        let mut files = 0;
        for file in std::fs::read_dir(&corpus).expect("the corpus is kept in the repository") {
            super::read(&std::fs::read(file.expect("it can be listed").path()).expect("it can be read"));
            files += 1;
        }
        assert!(files > 0, "{} is empty", corpus.display());
    }
}
