// Goroutines: step by step the programs of src/experiments/threads/ops.rs. A thread is joined by a channel of its own, which
// is how Go does it; lock and condition are those of package sync.
//
// Arguments: operation, workers, samples, threads. Output: a line of JSON per sample.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	run   = 10 * time.Millisecond
	batch = 1000
	meet  = 200 * time.Millisecond
	fibN  = 25
)

var workers int

func fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

// A thread that can be joined.
type thread chan int

func start(f func() int) thread {
	end := make(thread, 1)
	go func() { end <- f() }()
	return end
}

func (end thread) join() int { return <-end }

// One thread at a time.
func createJoin(n int) (time.Duration, int) {
	begin := time.Now()
	for i := 0; i < n; i++ {
		start(func() int { return i }).join()
	}
	return time.Since(begin), n
}

// A thousand at a time, joined in the order in which they were started.
func batches(n int) (time.Duration, int) {
	times := (n + batch - 1) / batch
	threads := make([]thread, batch)
	begin := time.Now()
	for t := 0; t < times; t++ {
		for i := range threads {
			threads[i] = start(func() int { return t })
		}
		for _, thread := range threads {
			thread.join()
		}
	}
	return time.Since(begin), times * batch
}

// First a thread for each worker, which computes until all of them run, then each of these starts its share.
func spread(workers, threads int, f func()) time.Duration {
	first := workers
	if threads < first {
		first = threads
	}
	var arrived, begin int64
	ends := make([]thread, first)
	for index := range ends {
		index := index
		ends[index] = start(func() int {
			if atomic.AddInt64(&arrived, 1) == int64(first) {
				atomic.StoreInt64(&begin, time.Now().UnixNano())
			}
			for come := time.Now(); atomic.LoadInt64(&begin) == 0; {
				if time.Since(come) > meet {
					runtime.Gosched()
				}
			}
			var own []thread
			for i := index; i < threads; i += first {
				own = append(own, start(func() int { f(); return 0 }))
			}
			for _, thread := range own {
				thread.join()
			}
			return int(time.Now().UnixNano() - atomic.LoadInt64(&begin))
		})
	}
	longest := 0
	for _, end := range ends {
		if ns := end.join(); ns > longest {
			longest = ns
		}
	}
	return time.Duration(longest)
}

// Two threads for each worker, which do nothing else. Time of one switch of a worker.
func yields(n int) (time.Duration, int) {
	return spread(workers, 2*workers, func() {
		for i := 0; i < n; i++ {
			runtime.Gosched()
		}
	}), 2 * n
}

// So many threads lock and unlock, n times together.
func locks(workers, threads, n int) (time.Duration, int) {
	var mutex sync.Mutex
	count, each := 0, (n+threads-1)/threads
	time := spread(workers, threads, func() {
		for i := 0; i < each; i++ {
			mutex.Lock()
			count++
			mutex.Unlock()
		}
	})
	if count != each*threads {
		fail("a lock that does not lock")
	}
	return time, each * threads
}

// Two threads take turns by a lock and a condition.
func handOver(n int) (time.Duration, int) {
	var mutex sync.Mutex
	cond := sync.NewCond(&mutex)
	now := 0
	takeTurns := func(mine int) int {
		for i := 0; i < n; i++ {
			mutex.Lock()
			for now != mine {
				cond.Wait()
			}
			now = 1 - mine
			cond.Signal()
			mutex.Unlock()
		}
		return 0
	}
	begin := time.Now()
	other := start(func() int { return takeTurns(1) })
	takeTurns(0)
	other.join()
	return time.Since(begin), 2 * n
}

// A number goes to and fro by two channels that hold one.
func toAndFro(n int) (time.Duration, int) {
	to, back := make(chan int, 1), make(chan int, 1)
	begin := time.Now()
	other := start(func() int {
		for i := 0; i < n; i++ {
			back <- <-to + 1
		}
		return 0
	})
	x := 0
	for i := 0; i < n; i++ {
		to <- x
		x = <-back
	}
	other.join()
	if x != n {
		fail("a channel that loses or repeats")
	}
	return time.Since(begin), 2 * n
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	first := start(func() int { return fib(n - 1) })
	second := fib(n - 2)
	return first.join() + second
}

// Fork and join: a thread for one half of the work, the other half oneself.
func forkJoin(n int) (time.Duration, int) {
	a, b := 0, 1
	for i := 0; i < fibN; i++ {
		a, b = b, a+b
	}
	threads := b - 1
	times := (n + threads - 1) / threads
	begin := time.Now()
	for t := 0; t < times; t++ {
		if fib(fibN) != a {
			fail("threads that do not return what they should")
		}
	}
	return time.Since(begin), times * threads
}

func resident() float64 {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		fail(err.Error())
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, _ := strconv.Atoi(fields[1])
			return float64(kib) * 1024
		}
	}
	fail("no VmRSS in /proc/self/status")
	return 0
}

// Resident bytes of threads that wait for one condition, for each, their handles included. The last to come wakes the
// thread that counts.
func memory(threads int) float64 {
	start(func() int { return 0 }).join()
	var mutex sync.Mutex
	opened, allHere := sync.NewCond(&mutex), sync.NewCond(&mutex)
	waiting, open := 0, false
	before := resident()
	var ends []thread
	for i := 0; i < threads; i++ {
		ends = append(ends, start(func() int {
			mutex.Lock()
			if waiting++; waiting == threads {
				allHere.Signal()
			}
			for !open {
				opened.Wait()
			}
			mutex.Unlock()
			return 0
		}))
	}
	mutex.Lock()
	for waiting < threads {
		allHere.Wait()
	}
	mutex.Unlock()
	bytes := (resident() - before) / float64(threads)
	mutex.Lock()
	open = true
	mutex.Unlock()
	opened.Broadcast()
	for _, end := range ends {
		end.join()
	}
	return bytes
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println(runtime.Version())
		return
	}
	if len(os.Args) != 5 {
		fail("usage: OPERATION WORKERS SAMPLES THREADS, as `mad bench threads` starts it")
	}
	op := os.Args[1]
	workers, _ = strconv.Atoi(os.Args[2])
	samples, _ := strconv.Atoi(os.Args[3])
	threads, _ := strconv.Atoi(os.Args[4])
	if workers < 1 {
		fail("no workers")
	}
	runtime.GOMAXPROCS(workers)
	programs := map[string]struct {
		least int
		run   func(int) (time.Duration, int)
	}{
		"createjoin": {100, createJoin},
		"batch":      {batch, batches},
		"yield":      {100, yields},
		"handoff":    {1000, handOver},
		"mutex":      {100000, func(n int) (time.Duration, int) { return locks(1, 1, n) }},
		"mutex4":     {100000, func(n int) (time.Duration, int) { return locks(workers, 4, n) }},
		"channel":    {1000, toAndFro},
		"fib":        {1, forkJoin},
	}
	if op == "memory" {
		fmt.Printf("{\"op\":\"memory\",\"bytes\":%.1f}\n", memory(threads))
		return
	}
	program, known := programs[op]
	if !known {
		fail("no such operation")
	}
	n := program.least
	// Thrice, since another process may hold up one.
	for long := 0; long < 3; {
		if time, _ := program.run(n); time >= run {
			long++
		} else {
			n, long = 2*n, 0
		}
	}
	for i := 0; i < samples; i++ {
		time, operations := program.run(n)
		fmt.Printf("{\"op\":%q,\"ns\":%.3f}\n", op, float64(time.Nanoseconds())/float64(operations))
	}
}
