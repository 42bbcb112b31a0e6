//! Messages with an explicit segment size, sent whole or segmented in user space.

use std::io::IoSlice;

use super::offload_kit::Net;
use super::*;
use crate::control::ControlBuf;

const SIZE: u16 = 10;

/// 35 bytes, to be segmented into four datagrams.
fn data() -> Vec<u8> {
    (0..35).collect()
}

fn own<'m>(net: &Net, data: &'m [u8]) -> SendMsg<'m> {
    SendMsg::to(net.to(0), data).with_segment_size(SIZE)
}

fn pieces(data: &[u8]) -> Vec<Vec<u8>> {
    data.chunks(SIZE.into()).map(<[u8]>::to_vec).collect()
}

/// A control message with this size.
fn segment_size(size: u16) -> ControlBuf {
    let mut control = ControlBuf::new();
    let (level, kind) = crate::sys::numbers::SEGMENT.expect("Linux has it");
    let (short, long) = (size.to_ne_bytes(), u32::from(size).to_ne_bytes());
    let size = if crate::sys::numbers::SEGMENT_LEN == 2 { &short[..] } else { &long };
    control.push(level, kind, size).unwrap();
    control
}

#[test]
fn a_message_whose_segment_size_is_rejected_is_segmented_in_user_space() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let parts = [IoSlice::new(&data[..7]), IoSlice::new(&data[7..])];
    let gathered = SendMsg::gather(&parts).with_dest(net.to(0));
    let gathered = gathered.with_segment_size(SIZE);
    for (backend, msg) in BACKENDS.into_iter().flat_map(|b| [(b, own(&net, &data)), (b, gathered)])
    {
        backend.make_process_default().unwrap();
        for code in [errno::EINVAL, errno::EMSGSIZE, errno::EIO, errno::EOPNOTSUPP] {
            assert!(net.near.state().set_gso(true));
            let before = net.near.state().counters();
            fault::script([(Call::SendMsg, Fate::Fail(code))]);
            assert_eq!(net.near.send_batch(&[msg]).unwrap(), 1);
            let mut made = vec![(Call::SendMsg, 1)];
            match backend {
                Backend::Mmsg => made.push((Call::SendMmsg, 4)),
                Backend::Msg => made.extend([(Call::SendMsg, 1); 4]),
            }
            assert_eq!(calls(), made, "{backend:?} {code}");
            // EIO and EOPNOTSUPP turn GSO off.
            assert_eq!(net.near.state().gso(), [errno::EINVAL, errno::EMSGSIZE].contains(&code));
            let counted = net.near.state().counters();
            assert_eq!(
                (counted.sent - before.sent, counted.sent_bytes - before.sent_bytes),
                (4, 35)
            );
            assert_eq!(counted.sent_batches, before.sent_batches);
            assert_eq!(net.delivered(), [pieces(&data), vec![]]);
        }
    }
}

/// The rest of the call goes on, and does not try the size again.
#[cfg(mmsg_calls)]
#[test]
fn what_follows_a_rejected_message_with_a_segment_size_goes_in_the_same_call() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let plain = SendMsg::to(net.to(1), &data);
    let msgs = [own(&net, &data), own(&net, &data), plain, own(&net, &data), plain];
    Backend::Mmsg.make_process_default().unwrap();
    fault::script([(Call::SendMmsg, Fate::Fail(errno::EINVAL))]);
    assert_eq!(net.near.send_batch(&msgs).unwrap(), 5);
    let (segments, single) = ((Call::SendMmsg, 4), (Call::SendMsg, 1));
    let made = [(Call::SendMmsg, 5), segments, segments, single, segments, single];
    assert_eq!(calls(), made);
    assert_eq!(net.near.state().counters().rejected_size, 1);
    let all = [[pieces(&data), pieces(&data), pieces(&data)].concat(), vec![data.clone(); 2]];
    assert_eq!(net.delivered(), all);

    // A message that the kernel segments counts as one batch.
    let before = net.near.state().counters();
    assert_eq!(net.near.send_batch(&msgs[1..]).unwrap(), 4);
    assert_eq!(net.since(before).sent_batches, 2);
    assert_eq!(net.since(before).sent, 10);
    assert_eq!(net.delivered(), [[pieces(&data), pieces(&data)].concat(), vec![data.clone(); 2]]);
}

/// The datagrams are the same whether the kernel or the crate segments the message.
#[test]
fn odd_segment_sizes_mean_the_same_with_gso_and_without() {
    let Some(net) = Net::new() else { return };
    let data = data();
    fault::script([]);
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        for gso in [true, false] {
            net.near.state().set_gso(gso);
            // Nothing to segment: one datagram, empty or not.
            let msgs = [own(&net, &[]), own(&net, &data[..4]), own(&net, &data[..10])];
            assert_eq!(net.near.send_batch(&msgs).unwrap(), 3, "{backend:?} {gso}");
            let expected = vec![vec![], data[..4].to_vec(), data[..10].to_vec()];
            assert_eq!(net.delivered(), [expected, vec![]], "{backend:?} {gso}");

            // Size 0 means no segmentation, as in the kernel.
            let whole = SendMsg::to(net.to(0), &data).with_segment_size(0);
            assert_eq!(net.near.send_batch(&[msgs[1], whole, whole]).unwrap(), 3);
            let expected = vec![data[..4].to_vec(), data.clone(), data.clone()];
            assert_eq!(net.delivered(), [expected, vec![]], "{backend:?} {gso}");
        }
    }
}

/// The kernel uses the last segment size, and the crate writes its own first.
#[test]
fn a_segment_size_among_raw_control_messages_is_heeded() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let control = segment_size(SIZE);
    let msgs = [SendMsg::to(net.to(0), &data).with_control(&control); 2];
    fault::script([]);
    assert_eq!(net.near.send_batch(&msgs).unwrap(), 2);
    assert_eq!(net.delivered(), [[pieces(&data), pieces(&data)].concat(), vec![]]);
}

/// A plain socket says the same.
#[cfg(linux_like)] // On Windows the tests segment in place of the system, and refuse nothing.
#[test]
fn what_gso_does_not_carry_is_refused_with_gso_and_without() {
    use crate::Offload;

    let Some(net) = Net::new() else { return };
    let data = vec![7; 70_000];
    let cases = [
        (65_508, 1_200, errno::EMSGSIZE),
        (70_000, 1, errno::EMSGSIZE),
        (60_000, 1, errno::EINVAL),
        (513 * 10, 10, errno::EINVAL),
    ];
    for (backend, (len, size, code)) in BACKENDS.into_iter().flat_map(|b| cases.map(|c| (b, c))) {
        backend.make_process_default().unwrap();
        let msg = SendMsg::to(net.to(0), &data[..len]).with_segment_size(size);
        let plain = net.near.get_ref().send_batch(&[msg, msg]);
        assert_eq!(errno(plain), code, "{len} {size}");
        for gso in [true, false] {
            net.near.state().set_gso(gso);
            fault::script([]);
            assert_eq!(errno(net.near.send_batch(&[msg, msg])), code, "{len} {size} {gso}");
            assert_eq!(calls().len(), usize::from(gso), "{len} {size}");
            // The messages before it are sent.
            let before = SendMsg::to(net.to(0), b"before");
            assert_eq!(net.near.send_batch(&[before, msg]).unwrap(), 1);
        }
        assert_eq!(net.delivered(), [vec![b"before".to_vec(); 2], vec![]]);
    }
    // IPv6 carries 20 bytes more, also to a socket's peer.
    let v6 = UdpSocket::bind("[::1]:0").expect("a loopback socket");
    let to = addr(&v6);
    let near = Offload::builder().gro(false).build(UdpSocket::bind("[::1]:0").unwrap()).unwrap();
    let peer = Offload::builder().gro(false).build(UdpSocket::bind("[::1]:0").unwrap()).unwrap();
    peer.get_ref().connect(to).expect("loopback");
    for (gso, len) in [true, false].into_iter().flat_map(|gso| [(gso, 65_527), (gso, 65_528)]) {
        let msg = SendMsg::new(&data[..len]).with_segment_size(1_200);
        for (near, msg) in [(&near, msg.with_dest(to)), (&peer, msg)] {
            near.state().set_gso(gso);
            match near.send_batch(&[msg]) {
                Ok(sent) => assert_eq!((sent, len), (1, 65_527), "{gso}"),
                Err(error) => {
                    assert_eq!(
                        (error.raw_os_error(), len),
                        (Some(errno::EMSGSIZE), 65_528),
                        "{gso}"
                    );
                }
            }
        }
    }
    // The most that a kernel carries goes both ways.
    let most = SendMsg::to(net.to(0), &data[..1_280]).with_segment_size(10);
    for gso in [true, false] {
        net.near.state().set_gso(gso);
        assert_eq!(net.near.send_batch(&[most]).unwrap(), 1);
        assert_eq!(net.delivered(), [vec![vec![7; 10]; 128], vec![]]);
    }
}

#[cfg(linux_like)] // On Windows the tests segment in place of the system, and take either size.
#[test]
fn a_segment_size_that_is_set_twice_is_an_error_on_every_socket() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let control = segment_size(1);
    for size in [3, 35, 100] {
        let msg = SendMsg::to(net.to(0), &data).with_segment_size(size).with_control(&control);
        let plain = net.near.get_ref().send_batch(&[msg]).unwrap_err();
        assert_eq!(plain.kind(), io::ErrorKind::InvalidInput);
        for gso in [true, false] {
            net.near.state().set_gso(gso);
            let error = net.near.send_batch(&[msg]).unwrap_err();
            assert_eq!((error.kind(), error.raw_os_error()), (plain.kind(), None), "{size} {gso}");
        }
    }
    assert_eq!(net.delivered(), [const { Vec::<Vec<u8>>::new() }; 2]);
}
