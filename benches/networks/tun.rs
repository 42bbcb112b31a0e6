//! TUN devices: network devices whose packets this process reads and writes.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::veth::Host;

/// The work that the kernel leaves to the device (`TUNSETOFFLOAD`, include/uapi/linux/if_tun.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// None: packets have their checksums.
    Plain,
    /// Checksums, as for any network card.
    Checksums,
    /// Checksums and segmentation: GSO batches pass the link unsegmented, as in a cloud's network (Linux 6.2).
    Segmentation,
}

/// Length of `struct virtio_net_hdr`, which precedes each packet in both directions
/// (include/uapi/linux/virtio_net.h).
pub const HEADER: usize = 10;

/// Makes a device in the host's namespace. It lasts as long as the returned file.
pub fn open(host: &Host, name: &str, device: Device) -> io::Result<File> {
    const TUNSETIFF: u32 = 0x4004_54ca;
    const TUNSETOFFLOAD: u32 = 0x4004_54d0;
    let features: libc::c_ulong = match device {
        Device::Plain => 0,
        Device::Checksums => 1,
        // TUN_F_CSUM, TUN_F_USO4, TUN_F_USO6.
        Device::Segmentation => 1 | 0x20 | 0x40,
    };
    // The device goes to the namespace of the thread that opens the file.
    host.enter(|| {
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        // SAFETY: ifreq is a C struct of bytes, numbers and raw pointers, for which all zeros are valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as _;
        // SAFETY: this request reads and writes an ifreq, which outlives the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: this request takes a number.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, features) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(file)
    })
}
