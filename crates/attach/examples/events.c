/* A daemon with a loop of its own: it waits in poll, for Treefold and for its standard input alike, and no call of
 * Treefold ever waits. It echoes what it gets on any number of streams, and ends when its standard input does.
 *
 *     events HOST:PORT SERVICE ENDPOINT TOTAL [CLUSTER] */
#include "attach.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS_MAX = 16 };

/* A stream, and the packet whose answer has found no room yet. */
struct seat {
    treefold_stream *stream;
    treefold_packet *unanswered;
};

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

/* Serves a seat until nothing is left to do there. A stream that is over makes room for one that may have waited for
 * it, and of that no other event will tell. */
static treefold_code serve(treefold_attached *attached, struct seat *seat, treefold_error *error) {
    for (;;) {
        if (seat->stream == NULL) {
            treefold_code code = treefold_accept(attached, 0, &seat->stream, error);
            if (code != TREEFOLD_OK) return code;
        }
        treefold_code code = go_on(seat, error);
        if (code != TREEFOLD_OVER) return code;
        leave(seat);
    }
}

/* Looks at everything after an event. */
static treefold_code look(treefold_attached *attached, struct seat *seats, treefold_error *error) {
    treefold_event_clear(attached, error);
    for (struct seat *seat = seats; seat < seats + STREAMS_MAX; seat++) {
        treefold_code code = serve(attached, seat, error);
        if (code != TREEFOLD_AGAIN) return code;
    }
    return TREEFOLD_OK;
}

int main(int argc, char **argv) {
    treefold_attached *attached = attach_as_told(argc, argv);
    treefold_error error;
    struct seat seats[STREAMS_MAX] = {{0}};
    struct pollfd waits[] = {{treefold_event_fd(attached), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    int status = EXIT_SUCCESS;
    for (;;) {
        if (look(attached, seats, &error) != TREEFOLD_OK) {
            status = failed(argv[0], "look", &error);
            break;
        }
        if (poll(waits, 2, -1) < 0 && errno != EINTR) {
            perror(argv[0]);
            status = EXIT_FAILURE;
            break;
        }
        char line[64];
        if (waits[1].revents != 0 && read(STDIN_FILENO, line, sizeof line) <= 0) break;
    }
    for (int at_seat = 0; at_seat < STREAMS_MAX; at_seat++) leave(&seats[at_seat]);
    if (treefold_detach(attached, 2000, &error) != TREEFOLD_OK) status = failed(argv[0], "detach", &error);
    return status;
}
