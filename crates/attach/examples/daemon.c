/* A tool's daemon: attaches to a network, and answers each packet with its process id and its host's load.
 *
 *     daemon HOST:PORT SERVICE ENDPOINT TOTAL [CLUSTER]
 *
 * If a front-end opens a stream with the filter "sum", it gets one packet back for each packet that it sends: the sum
 * of all ids and the sum of all loads. The daemon ends when its first stream ends. docs/attach.md shows how to build
 * it. */
#define _DEFAULT_SOURCE /* getloadavg */
#include "attach.h"
#include <unistd.h>

/* Puts the answer into the row: `i64 f64`. */
static treefold_code fill(treefold_row *row, treefold_error *error) {
    double load = 0;
    if (getloadavg(&load, 1) != 1) load = 0; /* some systems have no load average */
    treefold_code code = treefold_row_i64(row, (int64_t)getpid(), error);
    return code == TREEFOLD_OK ? treefold_row_f64(row, load, error) : code;
}

/* Answers packet after packet. TREEFOLD_OVER is the normal end. */
static treefold_code serve(treefold_stream *stream, treefold_row *row, treefold_error *error) {
    for (;;) {
        treefold_packet *packet = NULL;
        treefold_code code = treefold_recv(stream, -1, &packet, error);
        if (code != TREEFOLD_OK) return code;
        uint64_t tag = packet->tag;
        treefold_packet_free(packet);
        code = fill(row, error);
        if (code == TREEFOLD_OK) code = treefold_send_row_tagged(stream, tag, row, -1, error);
        if (code != TREEFOLD_OK) return code;
    }
}

int main(int argc, char **argv) {
    treefold_attached *attached = attach_as_told(argc, argv);
    treefold_error error;
    int status = EXIT_SUCCESS;
    treefold_row *row = treefold_row_new();
    treefold_stream *stream = NULL;
    if (treefold_accept(attached, -1, &stream, &error) != TREEFOLD_OK) {
        status = failed(argv[0], "accept", &error);
    } else if (serve(stream, row, &error) != TREEFOLD_OVER) {
        status = failed(argv[0], "serve", &error);
    }
    treefold_stream_close(stream);
    treefold_row_free(row);
    if (treefold_detach(attached, 2000, &error) != TREEFOLD_OK) status = failed(argv[0], "detach", &error);
    return status;
}
