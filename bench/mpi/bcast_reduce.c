/* What OpenMPI asks for the same as `treefold bench stream` measures: one number from each rank but the first, added
 * up. Rank 0 is the front-end; it broadcasts one int and has the sum reduced to it.
 *
 * Two phases: round trips (MPI_Bcast, then MPI_Reduce) one at a time, then MPI_Reduce alone as often as it goes. What
 * is broadcast says whether there is a next round, so that the rounds end after a while on however slow a machine;
 * without a broadcast, ranks agree on an end every REDUCES_PER_LOOK rounds. Every sum is checked.
 *
 * usage: mpirun … bcast_reduce [rounds [seconds]]
 *
 * Prints one line of JSON, named as Treefold's own:
 * {"backends":N,"instantiate_ms":…,"roundtrip_us_p50":…,"roundtrip_us_p99":…,"waves_per_s":…}
 * instantiate_ms is MPI_Init and one checked round at rank 0; what mpirun took before that, it can't know. */

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

/* Each rank gives its number, and rank 0, which is 0, is the front-end. */
static void reduce_exactly(int rank, int ranks) {
    const int due = ranks * (ranks - 1) / 2;
    int sum = 0;
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && sum != due) {
        fprintf(stderr, "bcast_reduce: a sum was %d, not %d\n", sum, due);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

static int agreed(int word) {
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return word;
}

/* The least value that at least this share of them does not exceed. */
static double quantile(const double *ascending, int count, double share) {
    int rank = (int)(share * count);
    if (rank < share * count) rank++;
    return ascending[rank > 0 ? rank - 1 : 0];
}

/* Round trips one at a time; at rank 0, how long each took. Gives how many there were. */
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

/* Reductions without a broadcast, for so long; gives how many a second. */
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
