package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The work is that of bench/peers/rust/src/work.rs, byte for byte.
const (
	k         = 10
	textBytes = 100
	headBytes = 12
	scores    = 10_007
	step      = 7_919
)

type row struct {
	score float64
	text  []byte
}

func bestFirst(a, b row) int { return cmp.Compare(b.score, a.score) }

// rowsOf returns the rows of a server, highest score first.
func rowsOf(partition int) []row {
	rows := make([]row, k)
	for number := range rows {
		score := float64((partition*k+number)*step%scores) / scores
		text := fmt.Sprintf("partition %d row %d ", partition, number)
		rows[number] = row{score, []byte(text + strings.Repeat("x", textBytes-len(text)))}
	}
	slices.SortFunc(rows, bestFirst)
	return rows
}

func encode(rows []row) []byte {
	bytes := make([]byte, 0, len(rows)*(headBytes+textBytes))
	for _, row := range rows {
		bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(row.score))
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(len(row.text)))
		bytes = append(bytes, row.text...)
	}
	return bytes
}

// expected is the answer that a call must have.
type expected struct {
	sum  int64
	best []row
}

func expectedOf(nodes int) expected {
	var all []row
	for partition := range nodes {
		all = append(all, rowsOf(partition)...)
	}
	slices.SortFunc(all, bestFirst)
	return expected{int64(nodes) * int64(nodes-1) / 2, all[:min(k, len(all))]}
}

// checkSum folds the integers of all servers and compares the sum.
func (e *expected) checkSum(partials [][]byte) error {
	var sum int64
	for _, partial := range partials {
		if len(partial) != 8 {
			return fmt.Errorf("an integer has %d bytes, expected 8", len(partial))
		}
		sum += int64(binary.LittleEndian.Uint64(partial))
	}
	if sum != e.sum {
		return fmt.Errorf("the sum is %d, expected %d", sum, e.sum)
	}
	return nil
}

// checkBest keeps the best rows of all servers and compares them.
func (e *expected) checkBest(partials [][]byte) error {
	// Partials are sorted, so a row that is not among the best ends its partial.
	best := make([]row, 0, k+1)
	for _, partial := range partials {
		for len(partial) > 0 {
			if len(partial) < headBytes {
				return fmt.Errorf("a row ends early")
			}
			score := math.Float64frombits(binary.LittleEndian.Uint64(partial))
			length := int(binary.LittleEndian.Uint32(partial[8:]))
			partial = partial[headBytes:]
			if length > len(partial) {
				return fmt.Errorf("a row ends early")
			}
			if len(best) == k && score <= best[k-1].score {
				break
			}
			found := row{score, partial[:length]}
			at, _ := slices.BinarySearchFunc(best, found, bestFirst)
			best = slices.Insert(best, at, found)
			best = best[:min(k, len(best))]
			partial = partial[length:]
		}
	}
	same := func(a, b row) bool { return a.score == b.score && string(a.text) == string(b.text) }
	if !slices.EqualFunc(best, e.best, same) {
		return fmt.Errorf("the best rows are not the expected ones")
	}
	return nil
}
