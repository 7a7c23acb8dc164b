/* Shared by the examples: attaching according to the command line, and reporting errors.
 *
 *     PROGRAM HOST:PORT SERVICE ENDPOINT TOTAL [CLUSTER]
 *
 * If the cluster has a token, it is in the environment variable TREEFOLD_TOKEN, where no list of processes shows it. */
#ifndef EXAMPLES_ATTACH_H
#define EXAMPLES_ATTACH_H

#include "treefold.h"
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *program, const char *what, const treefold_error *error) {
    fprintf(stderr, "%s: %s: %s (%d)\n", program, what, treefold_error_message(error), (int)error->code);
    return EXIT_FAILURE;
}

/* Attaches; ends the program if that fails. */
static treefold_attached *attach_as_told(int argc, char **argv) {
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: %s HOST:PORT SERVICE ENDPOINT TOTAL [CLUSTER]\n", argv[0]);
        exit(2);
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
    attachment.cluster = argc > 5 ? argv[5] : NULL;

    treefold_error error;
    treefold_attached *attached = treefold_attach(&attachment, &error);
    if (attached == NULL) exit(failed(argv[0], "attach", &error));
    return attached;
}

#endif
