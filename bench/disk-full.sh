#!/usr/bin/env bash
# A feed whose journal's disk fills up, with real processes: the origin must say so, acknowledge nothing that is not on the
# disk, keep the journal whole, and go on when there is room. Mounts a small file system, and removes it. Exit code 77 if it
# may not mount one.
#
# usage: bench/disk-full.sh [PROGRAM [wait|kill]]    the program treefold; default: treefold in PATH
# wait: room is made while the origin waits; kill: the origin is killed while the disk is full. Default: both.
set -euo pipefail
treefold=${1:-treefold}
mode=${2:-}
if [ -z "$mode" ]; then
	for mode in wait kill; do "$0" "$treefold" "$mode"; done
	exit
fi
events=3000
dir=$(mktemp -d)
pids=()
clean() {
	for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	umount "$dir/disk" 2>/dev/null || true
	rm -rf "$dir"
}
trap clean EXIT
fail() { echo "disk-full: $1" >&2; tail -n 5 "$dir"/*.log >&2; exit 1; }
# until COMMAND…: waits until it succeeds
until_so() {
	local what=$1; shift
	for _ in $(seq 600); do if "$@"; then return 0; fi; sleep 0.1; done
	fail "still not so: $what"
}

mkdir "$dir/disk"
if ! mount -t tmpfs -o size=8m tmpfs "$dir/disk" 2>/dev/null; then
	echo "skipped: disk-full.sh must be allowed to mount a file system" >&2
	exit 77
fi
head -c 7M /dev/zero > "$dir/disk/filler"
: > "$dir/feed.log"

"$treefold" node --listen 127.0.0.1:0 --serve mirror=flights:partitions=0/1 --cluster disk-full > "$dir/node.log" 2>&1 &
pids+=($!)
address() { node=$(grep -o -m 1 '127\.0\.0\.1:[0-9]*' "$dir/node.log") || return 1; }
until_so "the node listens" address
feed() {
	"$treefold" mirror feed flights tcp:127.0.0.1:0 --journal "$dir/disk/journal" --at "$node" --cluster disk-full \
		> /dev/null 2>> "$dir/feed.log" &
	origin=$!
	pids+=("$origin")
}
source_address() { source=$(grep -o 'tcp:127\.0\.0\.1:[0-9]*' "$dir/feed.log" | tail -n 1) && [ "$source" != "${last_source:-}" ]; }
connect() {
	until_so "the source listens" source_address
	last_source=$source
	exec 3<>"/dev/tcp/127.0.0.1/${source##*:}"
	cat <&3 > "$dir/answers.log" &
	pids+=($!)
}
acknowledged() { { grep -o '"s":[0-9]*' "$dir/answers.log" || echo '"s":0'; } | tail -n 1 | cut -d: -f2; }
is_acknowledged() { [ "$(acknowledged)" = "$1" ]; }

feed
connect
pad=$(printf 'x%.0s' $(seq 1000))
event() {
	echo "{\"stream\":\"s\",\"number\":$1,\"key\":\"k$(($1 % 50))\",\"type\":\"t\",\"fields\":{\"n\":$1,\"pad\":\"$pad\"}}"
}
for number in $(seq $events); do event "$number"; done >&3 &
pids+=($!)

until_so "the origin says that the disk is full" grep -q 'is full' "$dir/feed.log"
sleep 1
held=$(acknowledged)
[ "$held" -lt "$events" ] || fail "all $events events are acknowledged although the disk is full"
echo "full: $held of $events events are acknowledged"
grep -m 1 'is full' "$dir/feed.log"

if [ "$mode" = kill ]; then
	# Another origin goes on with the journal: nothing that was acknowledged is lost.
	kill -9 "$origin"
	wait "$origin" 2>/dev/null || true
	rm "$dir/disk/filler"
	feed
	connect
	for number in $(seq $((held + 1)) $events); do event "$number"; done >&3
else
	rm "$dir/disk/filler"
fi
until_so "all events are acknowledged" is_acknowledged "$events"
grep -q damaged "$dir/feed.log" && fail "the journal is damaged"
keys=$("$treefold" mirror status flights --at "$node" --cluster disk-full -o json | grep -o '"keys": *[0-9]*' | grep -o '[0-9]*$')
[ "$keys" = 50 ] || fail "the mirror has $keys keys, not 50"
values=$("$treefold" call flights/get --at "$node" --cluster disk-full --params '{"keys": ["k0", "k1"]}' | grep -o '"n": *[0-9]*' | grep -o '[0-9]*$' | sort -n | tail -n 1)
[ "$values" = "$events" ] || fail "the last value is $values, not $events"
echo "$mode: all $events events are acknowledged, and the mirror has the last value of each key"
