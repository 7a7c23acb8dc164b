package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
)

const (
	// deadline of each call. No call is to miss it.
	deadline = 30 * time.Second
	// keepAlive is the interval between two keep-alive pings of a connection.
	keepAlive = 20 * time.Second
	// windowBytes is the window of a stream and of a connection. Set explicitly, it also turns off gRPC's
	// estimate of the bandwidth, which sends a ping with the answers.
	windowBytes = 1 << 20
)

// raw sends messages that are bytes.
type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*message.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

// partials is the service of one partition.
type partials interface {
	integer() []byte
	topk() []byte
}

type partition struct {
	number int64
	rows   []row
}

func (p *partition) integer() []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(p.number))
}

func (p *partition) topk() []byte { return encode(p.rows) }

func method(name string, answer func(partials) []byte) grpc.MethodDesc {
	handler := func(service any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		bytes := answer(service.(partials))
		return &bytes, nil
	}
	return grpc.MethodDesc{MethodName: name, Handler: handler}
}

var description = grpc.ServiceDesc{
	ServiceName: "peers.Partials",
	HandlerType: (*partials)(nil),
	Methods:     []grpc.MethodDesc{method("Int", partials.integer), method("Topk", partials.topk)},
}

// serve serves one partition until the caller closes standard input.
func serve(number int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(raw{}),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))),
		grpc.StaticStreamWindowSize(windowBytes),
		grpc.StaticConnWindowSize(windowBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepAlive / 2, PermitWithoutStream: true}),
	)
	server.RegisterService(&description, &partition{int64(number), rowsOf(number)})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	if err := json.NewEncoder(os.Stdout).Encode(listener.Addr().String()); err != nil {
		return err
	}
	return server.Serve(listener)
}

// caller sends a unary call to every server at once and folds the answers.
type caller struct {
	connections []*grpc.ClientConn
	expected    expected
}

func connect(addrs []string, kinds []string) (*caller, error) {
	for _, kind := range kinds {
		if kind != "int" && kind != "topk" {
			return nil, fmt.Errorf("-partials: expected int or topk, found %q", kind)
		}
	}
	caller := &caller{expected: expectedOf(len(addrs))}
	for _, addr := range addrs {
		connection, err := grpc.NewClient(
			"passthrough:///"+addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{})),
			grpc.WithDisableServiceConfig(),
			grpc.WithDisableRetry(),
			grpc.WithIdleTimeout(0),
			grpc.WithStaticStreamWindowSize(windowBytes),
			grpc.WithStaticConnWindowSize(windowBytes),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, PermitWithoutStream: true}),
		)
		if err != nil {
			return nil, err
		}
		caller.connections = append(caller.connections, connection)
	}
	return caller, nil
}

// call makes one call and checks the answer.
func (c *caller) call(kind string) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	path := "/peers.Partials/Int"
	if kind == "topk" {
		path = "/peers.Partials/Topk"
	}
	answers := make([][]byte, len(c.connections))
	failures := make([]error, len(c.connections))
	var open sync.WaitGroup
	for number, connection := range c.connections {
		open.Go(func() {
			var request []byte
			failures[number] = connection.Invoke(ctx, path, &request, &answers[number])
		})
	}
	open.Wait()
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	if kind == "topk" {
		return c.expected.checkBest(answers)
	}
	return c.expected.checkSum(answers)
}
