package up

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	spare     = 48 << 20 // bytes that may at least be thrown away before the collector runs
	tuneEvery = 250 * time.Millisecond
)

// collect has the collector run less often while little memory is in use, until ctx ends: each of its runs takes its time from
// the failures in hand, and with a few megabytes in use there would be one for every fifteen. It leaves a process alone that has
// no limit of memory, near which the collector runs as often as it must.
func collect(ctx context.Context) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		return
	}
	tick := time.NewTicker(tuneEvery)
	defer tick.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for is := 0; ; {
		metrics.Read(live)
		// To set it stops the program for a moment.
		if want := percent(live[0].Value.Uint64()); want < is || want > is+is/4 {
			debug.SetGCPercent(want)
			is = want
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// percent returns by how many percent the memory may grow that is in use: to twice as much, or by spare if that is more.
func percent(live uint64) int {
	return max(100, int(spare*100/max(live, 4<<20)))
}
