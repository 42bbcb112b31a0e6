//! Requests that the server rejects, and answers that the client rejects.

use std::os::unix::fs::symlink;

use crate::kit::{Folder, client, get, serve, stop};
use crate::running::Program;

#[test]
fn nothing_outside_of_the_folder_is_served() {
    let folder = Folder::new();
    std::fs::write(folder.path("secret"), "secret").expect("a new file");
    std::fs::create_dir(folder.path("root/sub")).expect("a new folder");
    symlink(folder.path("secret"), folder.path("root/link")).expect("a new link");
    symlink("..", folder.path("root/up")).expect("a new link");
    symlink("file", folder.path("root/inside")).expect("a new link");
    let fifo = std::ffi::CString::new(folder.arg("root/fifo")).expect("no zeros in it");
    // SAFETY: the path ends with a zero byte and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let data = folder.file("file", 10);
    let server = serve(&folder, "127.0.0.1:0", "mmsg");

    let absolute = folder.arg("secret");
    let within = folder.arg("root/file");
    let wrong = [
        "../secret",
        "sub/../../secret",
        "sub/../file",
        "link",
        "up/secret",
        "fifo",
        "sub",
        "",
        ".",
        "..",
        "/",
        "missing",
        "file/more",
        "/etc/passwd",
        &absolute,
        &within,
    ];
    let copy = folder.arg("copy");
    let mut refused = 0;
    for path in wrong {
        let ended = client(&folder, server.addr, "get", path, &["-o", &copy]);
        assert_eq!((ended.status, ended.out.len()), (Some(1), 0), "{path}: {ended:?}");
        assert_eq!(ended.err, [format!("error: {path}: no such file")]);
        refused += 1;
    }
    assert_eq!(folder.others(), [folder.path("secret")], "nothing was written");
    std::fs::remove_file(folder.path("secret")).expect("it is there");
    get(&server, &folder, "inside", &data, &[]);

    let too_long = "a/".repeat(2_100);
    let ended = client(&folder, server.addr, "get", &too_long, &["-o", &copy]);
    assert_eq!((ended.status, ended.out.len()), (Some(1), 0), "{ended:?}");
    let figures = stop(server);
    assert_eq!((figures.get("", "refused "), figures.get("", "files ")), (refused, 1));
}

#[test]
fn another_servers_certificate_is_not_trusted() {
    let (folder, other) = (Folder::new(), Folder::new());
    folder.file("file", 10);
    let server = serve(&folder, "127.0.0.1:0", "mmsg");
    let _other = serve(&other, "127.0.0.1:0", "mmsg");
    let copy = other.arg("copy");
    let ended = client(&other, server.addr, "get", "file", &["-o", &copy]);
    assert_eq!((ended.status, ended.out.len()), (Some(1), 0), "{ended:?}");
    assert!(ended.err[0].contains("certificate"), "{ended:?}");
    assert!(other.others().is_empty(), "nothing was written");
}

#[test]
fn errors_are_one_line() {
    let folder = Folder::new();
    let (root, cert) = (folder.arg("root"), folder.arg("cert.pem"));
    let missing = folder.arg("missing");
    let wrong: [(&[&str], i32); 9] = [
        (&[], 2),
        (&["serve"], 2),
        (&["serve", "127.0.0.1:0"], 2),
        (&["serve", "localhost:0", "--root", &root], 2),
        (&["get", "127.0.0.1:9"], 2),
        (&["load", "127.0.0.1:9", "file", "--connections", "0"], 2),
        (&["serve", "127.0.0.1:0", "--root", &missing, "--cert", &cert], 1),
        (&["serve", "192.0.2.1:0", "--root", &root, "--cert", &cert], 1),
        (&["get", "127.0.0.1:9", "file", "--cert", &missing], 1),
    ];
    for (args, status) in wrong {
        let path = env!("CARGO_BIN_EXE_quic");
        let ended = Program::start(path, args).wait();
        assert_eq!((ended.status, ended.out.len()), (Some(status), 0), "{args:?} {ended:#?}");
        assert!(!ended.err[0].contains("panicked"), "{args:?}: {ended:#?}");
    }
}
