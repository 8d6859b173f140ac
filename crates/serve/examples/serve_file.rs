//! Serves a plain file, to measure the server without a drive (bench/serve.py).
//!
//! `serve_file FILE unix:PATH|tcp:HOST:PORT`; exits at the end of standard input.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;

use skylight_serve::core::plain::PlainFile;
use skylight_serve::nbd::server::Options;
use skylight_serve::server::Server;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(endpoint)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve_file FILE unix:PATH|tcp:HOST:PORT".into());
    };
    let file = std::fs::File::options().read(true).write(true).open(&path)?;
    let size = file.metadata()?.len();
    let backend = Arc::new(PlainFile::new(file, "file", size));
    let mut server = Server::new(backend);
    server.open_nbd(&[endpoint.parse()?], Options::default())?;
    server.endpoints().for_each(|endpoint| println!("{endpoint}"));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop()?;
    Ok(())
}
