/* A daemon with its own event loop: it waits in poll, for Treefold and for its standard input at once, and no call of
 * Treefold ever waits. It echoes the packets of up to STREAMS_MAX streams, and ends when its standard input ends.
 *
 *     events HOST:PORT SERVICE ENDPOINT TOTAL [CLUSTER] */
#include "attach.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS_MAX = 16 };

/* A stream, and its packet whose answer had no room yet. */
struct seat {
    treefold_stream *stream;
    treefold_packet *unanswered;
};

static void leave(struct seat *seat) {
    treefold_packet_free(seat->unanswered);
    treefold_stream_close(seat->stream);
    memset(seat, 0, sizeof *seat);
}

/* Echoes until no packet is left or there is no room. The next event comes when that changes. */
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

/* Serves a seat until nothing is left to do there. When a stream is over, its seat takes the next waiting stream at
 * once, because no other event will report that one. */
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

/* Checks all seats after an event. */
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
