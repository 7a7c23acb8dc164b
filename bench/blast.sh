#!/usr/bin/env bash
# Measures BLAST over 1 to 16 partitions beside one blastn over the whole, on generated sequences: latency, calls per second of four
# clients, and that all answers are equal. Needs blastn and makeblastdb (ncbi-blast+), jq and awk.
#
#   bench/blast.sh [SEQUENCES]      default: 100000 sequences of 600 letters
#
# TREEFOLD names the command (target/release/treefold by default), ROUNDS the rounds (5). All cases alternate round by round.
set -euo pipefail
cd "$(dirname "$0")/.."

sequences=${1:-100000}
rounds=${ROUNDS:-5}
treefold=${TREEFOLD:-${CARGO_TARGET_DIR:-target}/release/treefold}
treefold=$(realpath "$treefold")
split=$PWD/apps/blast/split.sh
format='6 score bitscore evalue sseqid pident length'
counts=(1 2 4 8 16)

for needed in blastn makeblastdb jq awk; do
	command -v "$needed" >/dev/null || { echo "skipped: there is no $needed" >&2; exit 77; }
done
work=$(mktemp -d)
nodes=()
clean() {
	for node in ${nodes[@]+"${nodes[@]}"}; do kill "$node" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap clean EXIT
cd "$work"

# Random sequences; one in a thousand holds a mutated copy of the query.
awk -v sequences="$sequences" -v seed=58 '
	function letters(n,   text) { text = ""; while (n--) text = text substr("ACGT", 1 + int(4 * rand()), 1); return text }
	function mutated(text,   at, out) {
		out = ""
		for (at = 1; at <= length(text); at++) out = out (rand() < 0.08 ? letters(1) : substr(text, at, 1))
		return out
	}
	BEGIN {
		srand(seed); query = letters(300)
		print ">query\n" query > "query.fa"
		for (number = 0; number < sequences; number++)
			print ">s" number "\n" (number % 1000 == 500 ? letters(150) mutated(query) letters(150) : letters(600)) > "all.fa"
	}'
jq -Rs . query.fa > query.json
makeblastdb -in all.fa -dbtype nucl -out whole >/dev/null

# Two nodes of one processor each for each number of partitions; with one partition, one node.
port=7860
declare -A at
for count in "${counts[@]}"; do
	"$split" all.fa "$count" "parts$count" nucl >/dev/null
	serve="exec=blast:command=blastn -db db -evalue 1e-10 -outfmt \"$format\":dir=parts$count/{partition}:reduce=top-k:k=10"
	at[$count]=127.0.0.1:$port
	middle=$((count / 2))
	if [ "$count" = 1 ]; then
		"$treefold" node --cluster "blast$count" --listen 127.0.0.1:$port --processors 1 --serve "$serve:partitions=0/1" \
			>"node$count.log" 2>&1 &
		nodes+=($!)
	else
		"$treefold" node --cluster "blast$count" --listen 127.0.0.1:$port --processors 1 \
			--serve "$serve:partitions=0-$((middle - 1))/$count" >"node$count.log" 2>&1 &
		nodes+=($!)
		"$treefold" node --cluster "blast$count" --listen 127.0.0.1:$((port + 1)) --join 127.0.0.1:$port --processors 1 \
			--serve "$serve:partitions=$middle-$((count - 1))/$count" >>"node$count.log" 2>&1 &
		nodes+=($!)
	fi
	port=$((port + 2))
done
call() { "$treefold" call blast/run --cluster "blast$1" --at "${at[$1]}" --deadline 120s --params @query.json "${@:2}"; }
for count in "${counts[@]}"; do
	until call "$count" >"answer$count" 2>/dev/null; do sleep 0.2; done
done

whole() { blastn -db whole -query query.fa -evalue 1e-10 -outfmt "$format" -num_threads "$1"; }
# by score, and lines of one score by their bytes, as top-k orders them
whole 1 | LC_ALL=C sort -t $'\t' -k1,1nr | sed 10q | cut -f 1,3,4 | sort > wanted
for count in "${counts[@]}"; do
	grep -v '^full: ' "answer$count" | cut -f 1,3,4 | sort | diff - wanted >&2 ||
		{ echo "$count partitions: another answer than blastn's" >&2; exit 1; }
done
echo "all answers equal those of blastn over the whole: score, E-value and sequence of the best 10" >&2

now() { date +%s%N; }
for ((round = 0; round < rounds; round++)); do
	for threads in 1 2; do
		began=$(now)
		whole "$threads" >/dev/null
		echo "blastn-$threads $((($(now) - began) / 1000))" >> latencies
	done
	for count in "${counts[@]}"; do
		echo "$count $(call "$count" -o json | jq .elapsed_us)" >> latencies
		began=$(now)
		seq 8 | xargs -P 4 -I{} "$treefold" call blast/run --cluster "blast$count" --at "${at[$count]}" --deadline 120s \
			--params @query.json -o json >/dev/null
		echo "$count $((($(now) - began) / 1000))" >> bursts
	done
done
median() { grep "^$1 " "$2" | cut -d' ' -f2 | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
printf '%-12s %12s %10s\n' partitions 'median ms' 'calls/s'
for threads in 1 2; do
	printf '%-12s %12.0f\n' "blastn -t $threads" "$(($(median "blastn-$threads" latencies) / 1000))"
done
for count in "${counts[@]}"; do
	printf '%-12s %12.0f %10.2f\n' "$count" "$(($(median "$count" latencies) / 1000))" \
		"$(awk -v us="$(median "$count" bursts)" 'BEGIN { print 8e6 / us }')"
done
