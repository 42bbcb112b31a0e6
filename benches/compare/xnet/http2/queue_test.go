// Measures the queue of golang.org/x/net's http2, inside that package: `queue.sh` lays this file beside its sources.
package http2

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// The entries of a turn.
const entries = 25

// Pushes and pops empty frames for MMSG_QUEUE_MS milliseconds, as that package's own benchmark does, and prints the
// nanoseconds of an entry.
func TestMmsgQueue(t *testing.T) {
	milliseconds, err := strconv.Atoi(os.Getenv("MMSG_QUEUE_MS"))
	if err != nil {
		t.Skip("MMSG_QUEUE_MS is not set")
	}
	var pool writeQueuePool
	turn := func() {
		queue := pool.get()
		for range entries {
			queue.push(FrameWriteRequest{})
		}
		for !queue.empty() {
			if _, popped := queue.consume(1); !popped {
				t.Fatal("an empty frame is popped whole")
			}
		}
		pool.put(queue)
	}
	for range 1000 {
		turn()
	}
	turns, begin := 0, time.Now()
	for time.Since(begin) < time.Duration(milliseconds)*time.Millisecond {
		for range 100 {
			turn()
		}
		turns += 100
	}
	fmt.Printf("http2,%.2f\n", float64(time.Since(begin).Nanoseconds())/float64(turns*entries))
}
