#!/bin/sh
# Splits sequences into BLAST databases, one for each partition, whose statistics are those of all sequences together.
#
#   split.sh FASTA PARTITIONS DIRECTORY nucl|prot
#
# Makes DIRECTORY/0/db, DIRECTORY/1/db, and so on. Each sequence goes to the partition that has the fewest letters so far.
# A search in a partition computes E-values from the number of sequences and of letters in its database. An alias file
# (NSEQ, LENGTH) sets both to those of all partitions, so E-values are those of one search over everything.
set -eu

usage() {
	echo "split.sh: $1" >&2
	echo "usage: split.sh FASTA PARTITIONS DIRECTORY nucl|prot" >&2
	exit 2
}

[ $# -eq 4 ] || usage "4 arguments are needed, and $# were given"
fasta=$1 partitions=$2 directory=${3%/} type=$4
[ -r "$fasta" ] || usage "$fasta can't be read"
case $partitions in
'' | *[!0-9]* | 0*) usage "PARTITIONS is $partitions; allowed: 1 or more" ;;
esac
case $type in
nucl) alias=db.nal ;;
prot) alias=db.pal ;;
*) usage "the type is $type; allowed: nucl, prot" ;;
esac
command -v makeblastdb >/dev/null || usage "makeblastdb is missing: install NCBI BLAST+ (Debian: ncbi-blast+)"
[ ! -e "$directory" ] || usage "$directory exists already"

work=$directory.unfinished
mkdir "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
awk -v partitions="$partitions" -v directory="$work" '
	/^>/ {
		at = 0
		for (other = 1; other < partitions; other++) if (letters[other] < letters[at]) at = other
		count[at]++
		file = directory "/" at ".fa"
	}
	file == "" { print "split.sh: " FILENAME " does not begin with >" > "/dev/stderr"; exit 1 }
	{ print > file }
	!/^>/ { letters[at] += length($0) }
	END {
		for (at = 0; at < partitions && file != ""; at++) if (count[at] == 0) {
			print "split.sh: fewer than " partitions " sequences" > "/dev/stderr"
			exit 1
		}
	}' "$fasta"

partition=0 sequences=0 letters=0
while [ "$partition" -lt "$partitions" ]; do
	here=$work/$partition
	mkdir "$here"
	makeblastdb -in "$work/$partition.fa" -dbtype "$type" -title "$fasta, part $partition" -out "$here/part" >/dev/null
	rm "$work/$partition.fa"
	# as in "4,000 sequences; 3,992,653 total bases"
	info=$(blastdbcmd -db "$here/part" -dbtype "$type" -info | tr -d ',' | grep ' sequences; ')
	sequences=$((sequences + $(echo "$info" | awk '{ print $1 }')))
	letters=$((letters + $(echo "$info" | awk '{ print $3 }')))
	partition=$((partition + 1))
done

partition=0
while [ "$partition" -lt "$partitions" ]; do
	printf 'TITLE %s\nDBLIST part\nNSEQ %s\nLENGTH %s\n' "$fasta" "$sequences" "$letters" >"$work/$partition/$alias"
	partition=$((partition + 1))
done
mv "$work" "$directory"
echo "$directory: $sequences sequences, $letters letters in $partitions partitions"
