//! The socket's descriptor.

#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
#[cfg(windows)]
use std::os::windows::io::{AsRawSocket, AsSocket, BorrowedSocket, RawSocket};

use crate::socket::UdpSocket;

macro_rules! descriptor {
    ($(#[$cfg:meta] $trait:ident, $method:ident -> $type:ty;)*) => {$(
        #[$cfg]
        impl $trait for UdpSocket {
            fn $method(&self) -> $type {
                self.plain().$method()
            }
        }
    )*};
}

descriptor! {
    #[cfg(unix)] AsFd, as_fd -> BorrowedFd<'_>;
    #[cfg(unix)] AsRawFd, as_raw_fd -> RawFd;
    #[cfg(windows)] AsSocket, as_socket -> BorrowedSocket<'_>;
    #[cfg(windows)] AsRawSocket, as_raw_socket -> RawSocket;
}
