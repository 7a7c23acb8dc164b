// Command peers measures scatter-gather calls over server processes with gRPC in Go.
//
// The work, the phases and the printed figures are those of bench/peers/rust: one line of JSON for each kind of partial.
// Every server is a process of this program. Messages are raw bytes, so no peer pays for protobuf.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// nodesMax is the greatest number of servers. Their rows must be fewer than the scores.
const nodesMax = 1000

// gcPercent makes the caller collect garbage less often. Its live heap is a few MB, so the default would collect
// many times per second.
const gcPercent = 400

type plan struct {
	nodes    int
	partials []string
	rounds   int
	inFlight int
	seconds  float64
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		partition, err := strconv.Atoi(os.Args[2])
		if err != nil {
			return fmt.Errorf("partition: expected a number, found %q", os.Args[2])
		}
		return serve(partition)
	}
	var asked plan
	flag.IntVar(&asked.nodes, "nodes", 16, "number of servers; each is a process")
	partials := flag.String("partials", "int,topk", "kinds of partials that servers return")
	flag.IntVar(&asked.rounds, "rounds", 1000, "number of calls made one after another")
	flag.IntVar(&asked.inFlight, "in-flight", 64, "number of calls in flight while throughput is measured")
	flag.Float64Var(&asked.seconds, "seconds", 3, "duration of the throughput measurement, in seconds")
	flag.Parse()
	asked.partials = strings.Split(*partials, ",")
	if asked.nodes < 1 || asked.nodes > nodesMax {
		return fmt.Errorf("-nodes is %d; allowed: from 1 to %d", asked.nodes, nodesMax)
	}
	if asked.rounds < 1 || asked.inFlight < 1 || asked.seconds <= 0 {
		return fmt.Errorf("-rounds, -in-flight and -seconds must be positive")
	}
	debug.SetGCPercent(gcPercent)
	servers, err := startServers(asked.nodes)
	defer servers.end()
	if err != nil {
		return err
	}
	caller, err := connect(servers.addrs, asked.partials)
	if err != nil {
		return err
	}
	for _, kind := range asked.partials {
		measured, err := measure(asked, kind, caller, servers)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(measured); err != nil {
			return err
		}
	}
	return nil
}
