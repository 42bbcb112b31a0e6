// Sends and receives batches with golang.org/x/net's ipv4.PacketConn, as that library's own benchmark does: M messages
// of 15 bytes over loopback, then the receive of M.
//
// xnet MILLISECONDS prints a line for each size of batch: name, size, and per datagram: elapsed and CPU time in
// nanoseconds, allocations. `compare beside-xnet` prints the same for this crate; compare.sh runs both in turn.
package main

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
)

var payload = []byte("fifteen bytes !")

// Bytes of each receive buffer.
const slotLen = 1500

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: xnet MILLISECONDS")
	}
	milliseconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	near, far := bind(), bind()
	// Room for the largest batch, beyond the system's limit if the process has the privilege.
	if err := far.SetReadBuffer(4 << 20); err != nil {
		log.Fatal(err)
	}
	force(far, 4<<20)
	for size := 1; size <= 512; size *= 2 {
		measure(near, far, size, time.Duration(milliseconds)*time.Millisecond)
	}
}

func bind() *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

func force(conn *net.UDPConn, size int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		log.Fatal(err)
	}
	// Without the privilege, the buffer keeps the size set before.
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, size)
	})
}

func measure(near, far *net.UDPConn, size int, slice time.Duration) {
	send, recv := make([]ipv4.Message, size), make([]ipv4.Message, size)
	for i := range send {
		send[i] = ipv4.Message{Buffers: [][]byte{payload}, Addr: far.LocalAddr()}
		recv[i] = ipv4.Message{Buffers: [][]byte{make([]byte, slotLen)}}
	}
	out, in := ipv4.NewPacketConn(near), ipv4.NewPacketConn(far)
	turn := func() {
		write(out, send)
		read(in, recv)
	}
	for range 3 {
		turn()
	}
	check(recv, near.LocalAddr())

	allocations, cpu, begin := allocated(), cpuTime(), time.Now()
	datagrams := 0
	for time.Since(begin) < slice {
		turn()
		datagrams += size
	}
	wall := time.Since(begin)
	cpu = cpuTime() - cpu
	allocations = allocated() - allocations
	each := func(total float64) float64 { return total / float64(datagrams) }
	fmt.Printf("x/net,%d,%.1f,%.1f,%.3f\n", size, each(float64(wall.Nanoseconds())),
		each(float64(cpu.Nanoseconds())), each(float64(allocations)))
}

func write(conn *ipv4.PacketConn, messages []ipv4.Message) {
	for len(messages) > 0 {
		n, err := conn.WriteBatch(messages, 0)
		if err != nil {
			log.Fatal(err)
		}
		messages = messages[n:]
	}
}

func read(conn *ipv4.PacketConn, messages []ipv4.Message) {
	for len(messages) > 0 {
		n, err := conn.ReadBatch(messages, 0)
		if err != nil {
			log.Fatal(err)
		}
		messages = messages[n:]
	}
}

// check ends the program unless the messages are those sent.
func check(messages []ipv4.Message, from net.Addr) {
	for _, message := range messages {
		data := message.Buffers[0][:message.N]
		if !bytes.Equal(data, payload) || message.Addr.String() != from.String() {
			log.Fatalf("%q came from %v", data, message.Addr)
		}
	}
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// cpuTime returns the CPU time of the process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
