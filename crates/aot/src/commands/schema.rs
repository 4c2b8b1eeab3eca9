//! `aot schema`: the JSON Schema of the frontmatter.

use crate::failure::Failure;
use crate::print;

pub fn run() -> Result<(), Failure> {
    let schema = aot_core::contract::schema();
    print::out(|stdout| {
        serde_json::to_writer_pretty(&mut *stdout, &schema)?;
        writeln!(stdout)
    });
    Ok(())
}
