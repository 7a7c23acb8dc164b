package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// firstAnswerTimeout limits the time until answers are exact.
	firstAnswerTimeout = 30 * time.Second
	// steadyFor is the time for which answers must have been exact before the first call is measured.
	steadyFor = 2 * time.Second
	// warmUp is the time that the pipeline runs before it is measured.
	warmUp = 500 * time.Millisecond
)

// servers are processes of this program. They end when their standard input is closed.
type servers struct {
	commands []*exec.Cmd
	inputs   []io.Closer
	addrs    []string
}

func startServers(nodes int) (*servers, error) {
	all := &servers{}
	program, err := os.Executable()
	if err != nil {
		return all, err
	}
	for number := range nodes {
		command := exec.Command(program, "serve", strconv.Itoa(number))
		command.Stderr = os.Stderr
		input, inputErr := command.StdinPipe()
		output, outputErr := command.StdoutPipe()
		if err := errors.Join(inputErr, outputErr, command.Start()); err != nil {
			return all, err
		}
		all.commands, all.inputs = append(all.commands, command), append(all.inputs, input)
		line, err := bufio.NewReader(output).ReadBytes('\n')
		if err != nil {
			return all, fmt.Errorf("server %d has ended: %w", number, err)
		}
		var addr string
		if err := json.Unmarshal(line, &addr); err != nil {
			return all, err
		}
		all.addrs = append(all.addrs, addr)
	}
	return all, nil
}

func (s *servers) end() {
	for number, command := range s.commands {
		_ = s.inputs[number].Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	}
}

// figures are the measured figures, in the words of `treefold bench call`.
type figures struct {
	Peer              string  `json:"peer"`
	Mode              string  `json:"mode"`
	Partial           string  `json:"partial"`
	Nodes             int     `json:"nodes"`
	InFlight          int     `json:"in_flight"`
	Rounds            int     `json:"rounds"`
	RoundtripP50      float64 `json:"roundtrip_us_p50"`
	RoundtripP99      float64 `json:"roundtrip_us_p99"`
	RoundtripCPU      float64 `json:"roundtrip_cpu_us"`
	ClientRoundtrip   float64 `json:"client_roundtrip_cpu_us"`
	CallsPerSecond    float64 `json:"calls_per_s"`
	CPUPerCall        float64 `json:"cpu_us_per_call"`
	ClientCPUsPerCall float64 `json:"client_cpu_us_per_call"`
}

func measure(asked plan, kind string, caller *caller, servers *servers) (figures, error) {
	measured := figures{
		Peer: "go", Mode: "unary", Partial: kind, Nodes: asked.nodes, InFlight: asked.inFlight, Rounds: asked.rounds,
	}
	if err := awaitExactAnswers(caller, kind); err != nil {
		return measured, err
	}
	before, err := momentOf(servers, 0)
	if err != nil {
		return measured, err
	}
	took := make([]time.Duration, asked.rounds)
	for round := range took {
		askedAt := time.Now()
		if err := caller.call(kind); err != nil {
			return measured, err
		}
		took[round] = time.Since(askedAt)
	}
	after, err := momentOf(servers, uint64(asked.rounds))
	if err != nil {
		return measured, err
	}
	_, measured.RoundtripCPU, measured.ClientRoundtrip = before.until(after)
	slices.Sort(took)
	measured.RoundtripP50, measured.RoundtripP99 = quantileUs(took, 0.5), quantileUs(took, 0.99)
	before, after, err = pipeline(asked, kind, caller, servers)
	if err == nil && after.calls == before.calls {
		err = errors.New("no call ended while throughput was measured; increase -seconds")
	}
	measured.CallsPerSecond, measured.CPUPerCall, measured.ClientCPUsPerCall = before.until(after)
	return measured, err
}

func awaitExactAnswers(caller *caller, kind string) error {
	begun := time.Now()
	steady := begun
	for time.Since(steady) < steadyFor {
		if err := caller.call(kind); err != nil {
			if time.Since(begun) > firstAnswerTimeout {
				return err
			}
			steady = time.Now()
		}
	}
	return nil
}

// pipeline keeps calls in flight and measures in the middle.
func pipeline(asked plan, kind string, caller *caller, servers *servers) (before, after moment, err error) {
	var calls atomic.Uint64
	var stop atomic.Bool
	var open sync.WaitGroup
	failures := make([]error, asked.inFlight)
	for number := range failures {
		open.Go(func() {
			for !stop.Load() {
				if failures[number] = caller.call(kind); failures[number] != nil {
					return
				}
				calls.Add(1)
			}
		})
	}
	time.Sleep(warmUp)
	before, beforeErr := momentOf(servers, calls.Load())
	time.Sleep(time.Duration(asked.seconds * float64(time.Second)))
	after, afterErr := momentOf(servers, calls.Load())
	stop.Store(true)
	open.Wait()
	return before, after, errors.Join(append(failures, beforeErr, afterErr)...)
}

// moment has the calls and the processor time up to one moment.
type moment struct {
	at                 time.Time
	calls              uint64
	serversCPU, ownCPU time.Duration
}

func momentOf(servers *servers, calls uint64) (moment, error) {
	now := moment{calls: calls}
	var err error
	if now.ownCPU, err = cpuTime(os.Getpid()); err != nil {
		return now, err
	}
	for _, command := range servers.commands {
		spent, err := cpuTime(command.Process.Pid)
		if err != nil {
			return now, fmt.Errorf("a server has ended: %w", err)
		}
		now.serversCPU += spent
	}
	now.at = time.Now()
	return now, nil
}

// until returns calls per second, and the processor time per call in microseconds: of all processes, and of the caller.
func (m moment) until(later moment) (perSecond, cpuUs, clientUs float64) {
	calls := float64(later.calls - m.calls)
	own := later.ownCPU - m.ownCPU
	all := later.serversCPU - m.serversCPU + own
	return calls / later.at.Sub(m.at).Seconds(), all.Seconds() * 1e6 / calls, own.Seconds() * 1e6 / calls
}

// cpuTime returns the processor time of a process, user and kernel together. The clock's number is that of
// clock_getcpuclockid.
func cpuTime(process int) (time.Duration, error) {
	const sched = 2
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^process)<<3|sched, &spent); err != nil {
		return 0, err
	}
	return time.Duration(spent.Nano()), nil
}

// quantileUs returns the nearest-rank quantile of ascending durations in microseconds.
func quantileUs(ascending []time.Duration, share float64) float64 {
	rank := int(math.Ceil(share * float64(len(ascending))))
	return ascending[min(max(rank, 1), len(ascending))-1].Seconds() * 1e6
}
