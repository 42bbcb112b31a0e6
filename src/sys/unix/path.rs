//! Paths as the bytes of an address.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The path that the bytes encode; `None` on systems where they encode none.
pub(crate) fn bytes_path(bytes: &[u8]) -> Option<&Path> {
    Some(Path::new(OsStr::from_bytes(bytes)))
}
