//! The control socket: answers, hostile clients, and existing files at its path.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::TIMEOUT;
use common::memory::Memory;
use proptest::prelude::*;
use serde_json::{Value, json};
use skylight_disk::{Pba, Sectors};
use skylight_image::{Image, Options};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel};
use skylight_layer::{ZonedLayer, ZonedSpec};
use skylight_serve::control::client::{self, ControlError};
use skylight_serve::control::server::MAX_CLIENTS;
use skylight_serve::control::{MAX_REQUEST_BYTES, answer};
use skylight_serve::core::filters::delay::{Delay, Delays};
use skylight_serve::core::untimed::ServedImage;
use skylight_serve::core::{Backend, Service, Shape};
use skylight_serve::endpoint::EndpointError;
use skylight_serve::server::Server;

struct ControlledServer {
    server: Option<Server>,
    path: PathBuf,
    folder: tempfile::TempDir,
}

fn backend() -> Arc<dyn Backend> {
    Arc::new(Delay::new(Arc::new(Memory::new(1 << 20)), Delays::default()).expect("a thread"))
}

fn controlled() -> ControlledServer {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let mut server = Server::new(backend());
    server.open_control(&path).expect("a socket");
    ControlledServer { server: Some(server), path, folder }
}

impl ControlledServer {
    fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.path).expect("it listens");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        socket.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
        socket
    }

    fn assert_answers(&self) {
        let status = client::status(&self.path, None).expect("a status");
        assert_eq!(status["name"], "memory");
    }
}

fn line_of(socket: &UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).expect("an answer in time");
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn requests_are_answered_on_a_private_socket() {
    let served = controlled();
    assert_eq!(std::fs::metadata(&served.path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(served.server.as_ref().unwrap().control(), Some(&*served.path));
    assert_eq!(client::set(&served.path, "delay-read", "2.5", None).unwrap(), "delay-read 2.5 ms");
    for (setting, value, said) in [
        ("read-mode", "data", "raw shingled"),
        ("fail", "rate=1", "--fail"),
        ("fall", "1", "no such setting"),
    ] {
        let error = client::set(&served.path, setting, value, None).expect_err("none of that");
        assert!(matches!(&error, ControlError::Refused(..)) && error.to_string().contains(said), "{error}");
    }
    // Several requests at once, and one in fragments.
    let mut socket = served.connect();
    socket.write_all(b"{\"request\": \"status\"}\nnonsense\n{\"request\": \"sta").unwrap();
    let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&next()["ok"], &next()["ok"]), (&Value::Bool(true), &Value::Bool(false)));
    socket.write_all(b"tus\"}\n").unwrap();
    assert_eq!(next()["status"]["size_bytes"], 1 << 20);
}

#[test]
fn hostile_clients_block_no_other() {
    let served = controlled();
    // Many clients that send nothing, or part of a request.
    let mut silent: Vec<_> = (0..4 * MAX_CLIENTS).map(|_| served.connect()).collect();
    for socket in &mut silent {
        // Clients that have been dropped cannot be written to.
        let _ = socket.write_all(b"{\"request\":");
    }
    served.assert_answers();
    let is_dropped = |mut socket: &UnixStream| {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let waits = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        !socket.read(&mut [0; 1]).is_err_and(|error| waits(&error))
    };
    let dropped = silent.iter().filter(|socket| is_dropped(socket)).count();
    assert!(dropped >= 3 * MAX_CLIENTS, "no more than the limit are connected");
    // One that sends as many requests as the sockets buffer and never reads.
    let mut unread = served.connect();
    unread.set_nonblocking(true).unwrap();
    let mut asked = 0;
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        asked += unread.write(b"{\"request\": \"status\"}\n").unwrap_or_default();
    }
    assert!(asked > 1000, "{asked}");
    served.assert_answers();
    // Endless lines are refused, and so is everything that is not a request.
    let mut long = served.connect();
    let _ = long.write_all(&vec![b'x'; 1 << 20]);
    assert!(line_of(&long)["error"].as_str().unwrap().contains(&MAX_REQUEST_BYTES.to_string()));
    let mut garbage = served.connect();
    garbage.write_all(b"\0\xff\xfe[[[[\n{}\n\n").unwrap();
    for _ in 0..3 {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            garbage.read_exact(&mut byte).expect("an answer in time");
            line.push(byte[0]);
        }
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["ok"], false);
    }
    served.assert_answers();
}

#[test]
fn deep_json_is_refused() {
    let service = Service::new(backend());
    let deep = "[".repeat(MAX_REQUEST_BYTES);
    assert_eq!(answer(deep.as_bytes(), &service)["ok"], false);
}

#[test]
fn shutdown_does_not_wait_for_clients_and_removes_the_socket() {
    let mut served = controlled();
    let mut silent = served.connect();
    silent.write_all(b"{").unwrap();
    let began = Instant::now();
    served.server.take().unwrap().stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(!served.path.exists());
    assert!(matches!(client::status(&served.path, None), Err(ControlError::NoServer(..))));
}

#[test]
fn a_stale_socket_is_replaced_and_an_active_one_is_not() {
    let mut served = controlled();
    let open = |path: &Path| Server::new(backend()).open_control(path);
    assert!(matches!(open(&served.path), Err(EndpointError::Taken(_))));
    served.assert_answers();
    served.server.take().unwrap().stop().unwrap();
    drop(UnixListener::bind(&served.path).unwrap());
    assert!(matches!(client::status(&served.path, None), Err(ControlError::NoServer(..))));
    let mut server = Server::new(backend());
    server.open_control(&served.path).expect("nobody listens there");
    served.assert_answers();
}

#[test]
fn a_symbolic_link_or_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("control"), folder.path().join("other"));
    std::fs::write(&target, "precious").unwrap();
    symlink(&target, &path).unwrap();
    for _ in 0..2 {
        let refused = Server::new(backend()).open_control(&path);
        assert!(matches!(refused, Err(EndpointError::NoSocket(_))));
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        // Then a regular file instead of the link.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, "another").unwrap();
    }
}

#[test]
fn an_untrusted_server_and_an_endless_answer_are_refused() {
    let served = controlled();
    let me = std::fs::metadata(&served.path).unwrap().uid();
    assert!(client::status(&served.path, Some(&[me])).is_ok());
    assert!(
        matches!(client::status(&served.path, Some(&[me + 1])), Err(ControlError::Untrusted(_, uid)) if uid == me)
    );
    let path = served.folder.path().join("endless");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            while socket.write_all(&[b'x'; 1 << 16]).is_ok() {}
        });
        assert!(matches!(client::status(&path, None), Err(ControlError::NoServer(..))));
    });
}

fn service() -> Service {
    Service::new(Arc::new(Memory::new(1 << 20)))
}

#[test]
fn requests_are_answered_and_invalid_ones_explained() {
    let service = service();
    let ask = |line: &str| answer(line.as_bytes(), &service);
    let status = ask(r#"{"request": "status", "more": 1}"#);
    assert_eq!((&status["ok"], &status["status"]["size_bytes"]), (&json!(true), &json!(1 << 20)));
    for (line, expected) in [
        ("", "not a request"),
        ("{}", "request: missing"),
        ("[1]", "request: missing"),
        (r#"{"request": 7}"#, "request: missing"),
        (r#"{"request": "dance"}"#, "dance: unknown request"),
        (r#"{"request": "set", "setting": "delay-read"}"#, "value: missing"),
        (r#"{"request": "set", "setting": "delay-read", "value": "x"}"#, "not a delay"),
        (r#"{"request": "set", "setting": "delay-read", "value": "5"}"#, "started without delays"),
    ] {
        let answer = ask(line);
        assert_eq!(answer["ok"], json!(false), "{line}");
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(expected)), "{line}: {answer}");
    }
}

proptest! {
    #[test]
    fn every_line_gets_one_short_line_as_answer(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        value in ".{0,3000}",
        name in prop::sample::select(vec!["read-mode", "delay-read", "delay-write", "fail", "\n"]),
    ) {
        let service = service();
        let request = json!({ "request": "set", "setting": name, "value": value }).to_string();
        for line in [&bytes[..], request.as_bytes()] {
            let answer = answer(line, &service).to_string();
            prop_assert!(!answer.contains('\n') && answer.len() < 8192, "{}", answer);
        }
    }
}

/// A server of a host-managed drive of four zones, as fast as it goes.
fn zoned() -> ControlledServer {
    let mut layout = ZoneLayout::new(ZoneModel::HostManaged, Sectors(256), Sectors(64));
    layout.conventional = 1;
    let layer = Box::new(ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None }));
    let folder = tempfile::tempdir().expect("a folder");
    let image = Image::create_at(&folder.path().join("image"), layer, "", &Options::default());
    let shape = Shape::drive("zoned", 0);
    let served = ServedImage::new(image.expect("an image"), shape, "none").expect("a thread");
    let path = folder.path().join("control");
    let mut server = Server::new(Arc::new(served));
    server.open_control(&path).expect("a socket");
    ControlledServer { server: Some(server), path, folder }
}

#[test]
fn zones_are_reported_and_acted_on() {
    let served = zoned();
    let zones = |first, count| client::zones(&served.path, first, count, None).expect("zones");
    let all = zones(0, 100);
    assert_eq!(all["layout"]["model"], "host-managed");
    assert_eq!(all["columns"]["start_bytes"], json!([0, 32768, 65536, 98304]));
    assert_eq!(all["columns"]["condition"], json!([0, 1, 1, 1]));
    assert_eq!(all["columns"]["write_pointer_bytes"], json!([u64::MAX, 32768, 65536, 98304]));
    assert_eq!(zones(2, 1)["columns"]["start_bytes"], json!([65536]));
    assert_eq!(zones(4, 1)["columns"]["start_bytes"], json!([]));
    let act = |action, zone| client::act_on_zones(&served.path, action, zone, None);
    assert_eq!(act("open", Some(65536)).unwrap(), "open the zone at 65536");
    assert_eq!(act("finish", Some(98304)).unwrap(), "finish the zone at 98304");
    assert_eq!(zones(0, 100)["columns"]["condition"], json!([0, 1, 3, 14]));
    let status = client::status(&served.path, None).expect("a status");
    assert_eq!(status["drive"]["zones"]["explicit_open"], 1);
    assert_eq!(act("reset", None).unwrap(), "reset all zones");
    assert_eq!(zones(0, 100)["columns"]["condition"], json!([0, 1, 1, 1]));
    for (action, zone, said) in [
        ("reset", Some(0), "invalid field in CDB"),
        ("reset", Some(512), "invalid field in CDB"),
        ("reset", Some(1 << 30), "no zone begins"),
        ("reset", Some(100), "no zone begins"),
        ("dance", None, "unknown action"),
    ] {
        let error = act(action, zone).expect_err("none of that");
        assert!(matches!(&error, ControlError::Refused(..)) && error.to_string().contains(said), "{error}");
    }
    let none = controlled();
    assert_eq!(client::zones(&none.path, 0, 1, None).expect("an answer")["layout"], Value::Null);
    let error = client::act_on_zones(&none.path, "reset", None, None).expect_err("no zones");
    assert!(error.to_string().contains("no zones"), "{error}");
}
