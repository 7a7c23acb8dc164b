/* A front-end that starts its own network from a topology file. Its back-ends are a program that attaches (daemon.c), which
 * answers with its process id. It prints the hosts of the endpoints, asks once, and prints the greatest process id.
 *
 *     up TOPOLOGY BACK-END [TREEFOLD] */
#include "treefold.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_MS = 10000, ADDR_BYTES = 64 };

static int failed(const char *what, const treefold_error *error) {
    fprintf(stderr, "up: %s: %s (%d)\n", what, treefold_error_message(error), (int)error->code);
    return EXIT_FAILURE;
}

/* Prints the address of each endpoint's host, as long as there are endpoints. */
static uint32_t show_hosts(const treefold_connection *connection) {
    char addr[ADDR_BYTES];
    size_t count;
    uint32_t endpoint = 0;
    while (treefold_endpoint_addr(connection, "hosts", endpoint, addr, sizeof addr, &count, NULL) == TREEFOLD_OK)
        printf("endpoint %" PRIu32 " is at %s\n", endpoint++, addr);
    return endpoint;
}

static treefold_code ask(const treefold_connection *connection, treefold_error *error) {
    treefold_opening opening = {0};
    opening.size = sizeof opening;
    opening.service = "hosts";
    opening.up_filter = "max";
    treefold_front *front = treefold_open(connection, &opening, error);
    if (front == NULL) return error->code;
    treefold_wave *wave = NULL;
    treefold_packet *packet = NULL;
    int64_t greatest;
    treefold_code code = treefold_front_send(front, NULL, 0, PATIENCE_MS, NULL, error);
    if (code == TREEFOLD_OK) code = treefold_front_recv(front, PATIENCE_MS, &wave, error);
    if (code == TREEFOLD_OK) code = treefold_wave_packet(wave, 0, &packet, error);
    if (code == TREEFOLD_OK) code = treefold_packet_i64(packet, 0, &greatest, error);
    if (code == TREEFOLD_OK) printf("greatest of %zu: %" PRId64 "\n", wave->contributors, greatest);
    treefold_packet_free(packet);
    treefold_wave_free(wave);
    treefold_front_close(front);
    return code;
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: up TOPOLOGY BACK-END [TREEFOLD]\n");
        return 2;
    }
    const char *back_end[] = {argv[2], "{attach}", "hosts", "{number}", "{total}"};
    treefold_raising raising = {0};
    raising.size = sizeof raising;
    raising.topology = argv[1];
    raising.back_end = back_end;
    raising.back_end_count = sizeof back_end / sizeof *back_end;
    raising.program = argc > 3 ? argv[3] : NULL;
    raising.local = 1;
    treefold_error error;
    treefold_connection *connection = treefold_up(&raising, &error);
    if (connection == NULL) return failed("up", &error);
    int status = show_hosts(connection) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    if (ask(connection, &error) != TREEFOLD_OK) status = failed("ask", &error);
    treefold_disconnect(connection);
    return status;
}
