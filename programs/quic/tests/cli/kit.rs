//! Folders, servers and clients.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::running::{Ended, Program, Server};

/// The server's and the client's sockets, in all combinations.
pub const PAIRS: [(&str, &str); 4] =
    [("mmsg", "quinn"), ("quinn", "mmsg"), ("mmsg", "mmsg"), ("quinn", "quinn")];

/// A temporary folder, removed with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("mmsg-quic-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a new folder");
        fs::create_dir(path.join("root")).expect("a new folder");
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A path as a program's argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file of this length to the served folder and returns its content.
    pub fn file(&self, name: &str, len: usize) -> Vec<u8> {
        let data = content(len);
        fs::write(self.path("root").join(name), &data).expect("a new file");
        data
    }

    /// All files outside the served folder, except the certificate.
    pub fn others(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(&self.0).expect("the folder").map(|entry| entry.expect("a file"));
        let known = ["root", "cert.pem"].map(|name| self.path(name));
        entries.map(|entry| entry.path()).filter(|path| !known.contains(path)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes of which no two parts are alike.
pub fn content(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        // Knuth's MMIX generator, whose upper half is the better one.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        data.extend_from_slice(&state.to_be_bytes()[..4]);
    }
    data.truncate(len);
    data
}

/// Starts `quic serve` for the folder.
pub fn serve(folder: &Folder, addr: &str, socket: &str) -> Server {
    serve_with(folder, addr, socket, &[])
}

/// Like `serve`, with more arguments.
pub fn serve_with(folder: &Folder, addr: &str, socket: &str, more: &[&str]) -> Server {
    let (root, cert) = (folder.arg("root"), folder.arg("cert.pem"));
    let args = ["serve", addr, "--root", &root, "--cert", &cert, "--socket", socket, "--stats"];
    Server::start(env!("CARGO_BIN_EXE_quic"), args.iter().chain(more))
}

/// Stops a server and returns its last output.
#[track_caller]
pub fn stop(server: Server) -> Figures {
    Figures(server.stop().join("\n"))
}

/// Runs `quic COMMAND ADDR PATH ARGS` to its end.
pub fn client(
    folder: &Folder,
    addr: SocketAddr,
    command: &str,
    path: &str,
    args: &[&str],
) -> Ended {
    let (addr, cert) = (addr.to_string(), folder.arg("cert.pem"));
    let all = [command, &addr, path, "--cert", &cert];
    let program = env!("CARGO_BIN_EXE_quic");
    Program::start(program, all.iter().chain(args)).wait()
}

/// Downloads a file, checks the copy and returns the client's output.
#[track_caller]
pub fn get(server: &Server, folder: &Folder, path: &str, data: &[u8], args: &[&str]) -> Figures {
    let copy = folder.arg("copy");
    let args = ["-o", &copy, "--stats"].into_iter().chain(args.iter().copied());
    let ended = client(folder, server.addr, "get", path, &args.collect::<Vec<_>>());
    assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
    assert!(same(Path::new(&copy), data), "the {} bytes of {path} are the same", data.len());
    assert_eq!(folder.others(), [PathBuf::from(copy)], "nothing else is left");
    Figures(ended.out.join("\n"))
}

pub fn same(path: &Path, data: &[u8]) -> bool {
    fs::read(path).expect("the file is there") == data
}

/// A program's last output.
#[derive(Debug)]
pub struct Figures(String);

impl Figures {
    /// The number after `words`, searched for behind `after`.
    #[track_caller]
    pub fn get(&self, after: &str, words: &str) -> u64 {
        let number = || {
            let rest = &self.0[self.0.find(after)?..];
            let rest = rest[rest.find(words)? + words.len()..].trim_start();
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
        };
        number().unwrap_or_else(|| panic!("no number after {after:?}, {words:?} in {self:?}"))
    }

    /// Checks the server's counts of connections and files.
    #[track_caller]
    pub fn assert_served(&self, connections: u64, files: u64) {
        assert!(self.0.starts_with(&format!("connections {connections}, broken 0; ")), "{self:?}");
        assert_eq!(self.get("", "files "), files, "{self:?}");
        assert_eq!(self.get("", "unfinished "), 0, "{self:?}");
    }
}
