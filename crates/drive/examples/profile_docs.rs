//! Writes or checks the files that are generated from the profile schema.
//!
//! `cargo run -p skylight-drive --example profile_docs -- --write` writes `docs/profile-reference.md` and
//! `docs/profile.schema.json`; `-- --check` reports which of them are stale and exits with 1.

use std::path::PathBuf;
use std::process::ExitCode;

use skylight_drive::profile::{json_schema, reference};

fn main() -> ExitCode {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let files = [("profile-reference.md", reference()), ("profile.schema.json", json_schema())];
    let mode = std::env::args().nth(1).unwrap_or_default();
    let mut code = ExitCode::SUCCESS;
    for (name, text) in files {
        let path = docs.join(name);
        match mode.as_str() {
            "--write" => {
                if let Err(error) = std::fs::write(&path, text) {
                    eprintln!("docs/{name} cannot be written: {error}");
                    code = ExitCode::from(4);
                }
            }
            "--check" => {
                if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
                    eprintln!("docs/{name} is stale; run the profile_docs example with --write");
                    code = ExitCode::from(1);
                }
            }
            _ => {
                eprintln!("usage: profile_docs --write | --check");
                return ExitCode::from(2);
            }
        }
    }
    code
}
