/* A daemon with a loop of its own: it waits in poll, for Treefold and for its standard input alike, and no call of
 * Treefold ever waits. It echoes what it gets on any number of streams, and ends when its standard input does.
 *
 *     events HOST:PORT SERVICE ENDPOINT TOTAL */
#include "treefold.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS_MAX = 16 };

/* A stream, and the packet whose answer has found no room yet. */
struct seat {
    treefold_stream *stream;
    treefold_packet *unanswered;
};

static int failed(const char *what, const treefold_error *error) {
    fprintf(stderr, "events: %s: %s (%d)\n", what, treefold_error_message(error), (int)error->code);
    return 1;
}

static void leave(struct seat *seat) {
    treefold_packet_free(seat->unanswered);
    treefold_stream_close(seat->stream);
    memset(seat, 0, sizeof *seat);
}

/* Goes on until nothing is left to do or there is no room; the next event comes when that changes. */
static treefold_code go_on(struct seat *seat, treefold_error *error) {
    for (;;) {
        if (seat->unanswered == NULL) {
            treefold_code code = treefold_recv(seat->stream, 0, &seat->unanswered, error);
            if (code != TREEFOLD_OK) return code;
        }
        const treefold_packet *packet = seat->unanswered;
        treefold_code code =
            treefold_send_tagged(seat->stream, packet->tag, packet->data, packet->len, 0, error);
        if (code != TREEFOLD_OK) return code;
        treefold_packet_free(seat->unanswered);
        seat->unanswered = NULL;
    }
}

/* Looks at everything after an event. */
static treefold_code look(treefold_attached *attached, struct seat *seats, treefold_error *error) {
    treefold_event_clear(attached, error);
    for (struct seat *seat = seats; seat < seats + STREAMS_MAX; seat++) {
        if (seat->stream == NULL) {
            treefold_code code = treefold_accept(attached, 0, &seat->stream, error);
            if (code == TREEFOLD_AGAIN) continue;
            if (code != TREEFOLD_OK) return code;
        }
        treefold_code code = go_on(seat, error);
        if (code == TREEFOLD_OVER) leave(seat);
        else if (code != TREEFOLD_AGAIN) return code;
    }
    return TREEFOLD_OK;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s HOST:PORT SERVICE ENDPOINT TOTAL\n", argv[0]);
        return 2;
    }
    const char *at[] = {argv[1]};
    uint32_t endpoint = (uint32_t)strtoul(argv[3], NULL, 10);
    treefold_attachment attachment = {0};
    attachment.size = sizeof attachment;
    attachment.at = at;
    attachment.at_count = 1;
    attachment.service = argv[2];
    attachment.endpoints = &endpoint;
    attachment.endpoint_count = 1;
    attachment.total = (uint32_t)strtoul(argv[4], NULL, 10);

    treefold_error error;
    treefold_attached *attached = treefold_attach(&attachment, &error);
    if (attached == NULL) return failed("attach", &error);

    struct seat seats[STREAMS_MAX] = {{0}};
    struct pollfd waits[] = {{treefold_event_fd(attached), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    int status = 0;
    for (;;) {
        if (look(attached, seats, &error) != TREEFOLD_OK) {
            status = failed("look", &error);
            break;
        }
        if (poll(waits, 2, -1) < 0 && errno != EINTR) {
            perror("events: poll");
            status = 1;
            break;
        }
        char line[64];
        if (waits[1].revents != 0 && read(STDIN_FILENO, line, sizeof line) <= 0) break;
    }
    for (int at_seat = 0; at_seat < STREAMS_MAX; at_seat++) leave(&seats[at_seat]);
    if (treefold_detach(attached, 2000, &error) != TREEFOLD_OK) status = failed("detach", &error);
    return status;
}
