/* Measures with OpenMPI the operation that `treefold bench stream` measures: the sum of one number from each rank
 * except the first. Rank 0 is the front-end; it broadcasts one int, and the sum is reduced to it.
 *
 * There are two phases: round trips (MPI_Bcast, then MPI_Reduce) one at a time, then MPI_Reduce alone as often as
 * possible. The broadcast number says whether there is a next round, so that the rounds end after a time limit on a
 * slow machine too. In the phase without a broadcast, the ranks agree every REDUCES_PER_LOOK rounds whether to stop.
 * Every sum is checked.
 *
 * usage: mpirun … bcast_reduce [rounds [seconds]]
 *
 * Prints one line of JSON with the field names of Treefold's output:
 * {"backends":N,"instantiate_ms":…,"roundtrip_us_p50":…,"roundtrip_us_p99":…,"waves_per_s":…}
 * instantiate_ms is MPI_Init and one checked round at rank 0. It does not include the time of mpirun before that. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_DEFAULT = 2000, WARM_UP_ROUNDS = 20, REDUCES_PER_LOOK = 10, STOP = 0, GO = 1 };

static const double SECONDS_DEFAULT = 3.0;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Reduces the sum of all rank numbers to rank 0, the front-end, and checks it. */
static void reduce_exactly(int rank, int ranks) {
    const int due = ranks * (ranks - 1) / 2;
    int sum = 0;
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && sum != due) {
        fprintf(stderr, "bcast_reduce: expected the sum %d, found %d\n", due, sum);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

static int agreed(int word) {
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return word;
}

/* Returns the nearest-rank quantile: the least value that at least this share of the values do not exceed. */
static double quantile(const double *ascending, int count, double share) {
    int rank = (int)(share * count);
    if (rank < share * count) rank++;
    return ascending[rank > 0 ? rank - 1 : 0];
}

/* Runs round trips one at a time. Rank 0 stores the time of each. Returns the number of round trips. */
static int round_trips(int rank, int ranks, double *took_us, int rounds, double seconds) {
    const double ends_at = MPI_Wtime() + seconds;
    for (int round = 0;; round++) {
        const double began_at = MPI_Wtime();
        const int goes_on = round < rounds && (round == 0 || began_at < ends_at);
        if (agreed(goes_on ? GO : STOP) == STOP) return round;
        reduce_exactly(rank, ranks);
        if (rank == 0) took_us[round] = (MPI_Wtime() - began_at) * 1e6;
    }
}

/* Runs reductions without a broadcast for some seconds. Returns the reductions per second. */
static double reduces_per_s(int rank, int ranks, double seconds) {
    const double began_at = MPI_Wtime();
    long reduces = 0;
    do {
        for (int i = 0; i < REDUCES_PER_LOOK; i++) reduce_exactly(rank, ranks);
        reduces += REDUCES_PER_LOOK;
    } while (agreed(MPI_Wtime() < began_at + seconds ? GO : STOP) == GO);
    return reduces / (MPI_Wtime() - began_at);
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS_DEFAULT;
    const double seconds = argc > 2 ? atof(argv[2]) : SECONDS_DEFAULT;
    if (rounds < 1 || seconds <= 0.0) {
        fprintf(stderr, "usage: bcast_reduce [rounds [seconds]], both above 0\n");
        return 2;
    }
    struct timespec begun, ready;
    timespec_get(&begun, TIME_UTC);
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    agreed(GO);
    reduce_exactly(rank, ranks);
    timespec_get(&ready, TIME_UTC);

    double *took_us = malloc((size_t)rounds * sizeof *took_us);
    if (took_us == NULL) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    round_trips(rank, ranks, took_us, rounds < WARM_UP_ROUNDS ? rounds : WARM_UP_ROUNDS, seconds);
    const int count = round_trips(rank, ranks, took_us, rounds, seconds);
    const double waves_per_s = reduces_per_s(rank, ranks, seconds);
    if (rank == 0) {
        qsort(took_us, (size_t)count, sizeof *took_us, by_value);
        const double instantiate_ms =
            (ready.tv_sec - begun.tv_sec) * 1e3 + (ready.tv_nsec - begun.tv_nsec) / 1e6;
        printf("{\"backends\":%d,\"instantiate_ms\":%.3f,\"roundtrip_us_p50\":%.1f,\"roundtrip_us_p99\":%.1f,"
               "\"waves_per_s\":%.1f}\n",
               ranks - 1, instantiate_ms, quantile(took_us, count, 0.50), quantile(took_us, count, 0.99),
               waves_per_s);
    }
    free(took_us);
    MPI_Finalize();
    return 0;
}
