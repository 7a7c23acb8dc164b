/* A front-end: it opens two streams to the daemons of a service (events.c), sends a number down both, and waits in poll for the
 * waves of either. The daemons echo the number, so it prints the number, and the sum of all echoes.
 *
 *     front HOST:PORT SERVICE [CLUSTER] */
#include "treefold.h"
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { STREAMS = 2, NUMBER = 7, PATIENCE_MS = 10000 };

/* A stream, and the name of the filter that folds its waves. */
struct question {
    const char *filter;
    treefold_front *front;
};

static int failed(const char *what, const treefold_error *error) {
    fprintf(stderr, "front: %s: %s (%d)\n", what, treefold_error_message(error), (int)error->code);
    return EXIT_FAILURE;
}

static treefold_connection *connect_as_told(int argc, char **argv, treefold_error *error) {
    const char *at[] = {argv[1]};
    treefold_connecting connecting = {0};
    connecting.size = sizeof connecting;
    connecting.at = at;
    connecting.at_count = 1;
    connecting.cluster = argc > 3 ? argv[3] : NULL;
    return treefold_connect(&connecting, error);
}

/* Opens a question's stream, and asks. */
static treefold_code ask(treefold_connection *connection, const char *service, struct question *question,
                         treefold_error *error) {
    treefold_opening opening = {0};
    opening.size = sizeof opening;
    opening.service = service;
    opening.up_filter = question->filter;
    opening.context = question;
    question->front = treefold_open(connection, &opening, error);
    if (question->front == NULL) return error->code;
    treefold_row *row = treefold_row_new();
    treefold_code code = treefold_row_i64(row, NUMBER, error);
    if (code == TREEFOLD_OK) code = treefold_front_send_row(question->front, row, PATIENCE_MS, NULL, error);
    treefold_row_free(row);
    return code;
}

/* Prints an answer: the filter, the number that it made, and how many endpoints are in it. */
static treefold_code show(const struct question *question, const treefold_wave *wave, treefold_error *error) {
    treefold_packet *packet;
    treefold_code code = treefold_wave_packet(wave, 0, &packet, error);
    if (code != TREEFOLD_OK) return code;
    int64_t number;
    code = treefold_packet_i64(packet, 0, &number, error);
    treefold_packet_free(packet);
    if (code != TREEFOLD_OK) return code;
    printf("%s: %" PRId64 " of %zu\n", question->filter, number, wave->contributors);
    return TREEFOLD_OK;
}

/* Waits for the answers to all questions, in any order. */
static treefold_code listen_to(treefold_connection *connection, treefold_error *error) {
    struct pollfd waits = {treefold_connection_fd(connection), POLLIN, 0};
    for (int answers = 0; answers < STREAMS;) {
        poll(&waits, 1, PATIENCE_MS);
        treefold_code code = treefold_connection_clear(connection, error);
        while (code == TREEFOLD_OK) {
            void *context;
            treefold_wave *wave;
            code = treefold_recv_any(connection, 0, &context, &wave, error);
            if (code != TREEFOLD_OK) break;
            code = show(context, wave, error);
            treefold_wave_free(wave);
            answers++;
        }
        if (code != TREEFOLD_AGAIN) return code;
        if (waits.revents == 0) return code; /* nothing came in time */
    }
    return TREEFOLD_OK;
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: front HOST:PORT SERVICE [CLUSTER]\n");
        return 2;
    }
    treefold_error error;
    treefold_connection *connection = connect_as_told(argc, argv, &error);
    if (connection == NULL) return failed("connect", &error);
    struct question questions[STREAMS] = {{"max", NULL}, {"sum", NULL}};
    int status = EXIT_SUCCESS;
    for (int at = 0; at < STREAMS && status == EXIT_SUCCESS; at++)
        if (ask(connection, argv[2], &questions[at], &error) != TREEFOLD_OK) status = failed("ask", &error);
    if (status == EXIT_SUCCESS && listen_to(connection, &error) != TREEFOLD_OK) status = failed("listen", &error);
    for (int at = 0; at < STREAMS; at++) treefold_front_close(questions[at].front);
    treefold_disconnect(connection);
    return status;
}
