/* What a reduce or a filter for Treefold is written with in C; the specification is docs/wasm.md.
 *
 *   clang --target=wasm32 -O2 -ffreestanding -nostdlib -Wl,--no-entry -o guest.wasm guest.c
 *
 * A guest includes this header once, and defines either treefold_reduce, or treefold_filter_open and
 * treefold_filter_up and what else of a filter it needs, each marked TREEFOLD_EXPORT(its name).
 */
#ifndef TREEFOLD_GUEST_H
#define TREEFOLD_GUEST_H

#include <stddef.h>
#include <stdint.h>

#define TREEFOLD_EXPORT(name) __attribute__((export_name(name), used, visibility("default")))

enum { TREEFOLD_ENDPOINT = 0, TREEFOLD_CHILD = 1 };

/* A packet of a wave, and where it comes from. Like all that comes in, it is the guest's to overwrite. */
struct treefold_piece {
    uint32_t kind;   /* TREEFOLD_ENDPOINT or TREEFOLD_CHILD */
    uint32_t number; /* of the endpoint or child */
    uint8_t *data;   /* a multiple of 8 */
    uint32_t bytes;
};

/* A packet that a filter gives. */
struct treefold_packet {
    const uint8_t *data;
    uint32_t bytes;
};

/* One partial. */
static inline uint64_t treefold_partial(const void *data, uint32_t bytes) {
    return (uint64_t)(uintptr_t)data << 32 | bytes;
}

/* Any number of packets. */
static inline uint64_t treefold_packets(const struct treefold_packet *packets, uint32_t count) {
    return (uint64_t)(uintptr_t)packets << 32 | count;
}

/* No result, but the reason why, in UTF-8. */
static inline uint64_t treefold_error(const char *text) {
    uint32_t bytes = 0;
    while (text[bytes] != 0) bytes++;
    return (uint64_t)(uintptr_t)text << 32 | UINT32_C(1) << 31 | bytes;
}

/* This guest speaks version 1; never called. */
TREEFOLD_EXPORT("treefold_abi_v1") void treefold_abi_v1(void) {}

/* Room for what comes in, which lasts until the next call of this function: always the same place, the first multiple
 * of 8 behind the guest's data, and the memory grown when that is not enough. A guest that needs a heap of its own
 * defines TREEFOLD_OWN_ALLOC and writes this function itself. */
#ifndef TREEFOLD_OWN_ALLOC
extern unsigned char __heap_base;

TREEFOLD_EXPORT("treefold_alloc") void *treefold_alloc(uint32_t bytes) {
    const uint32_t page = 65536;
    uintptr_t start = ((uintptr_t)&__heap_base + 7) & ~(uintptr_t)7;
    uint64_t end = (uint64_t)start + bytes;
    uint64_t room = (uint64_t)__builtin_wasm_memory_size(0) * page;
    if (end > room) {
        size_t pages = (size_t)((end - room + page - 1) / page);
        if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return NULL;
    }
    return (void *)start;
}
#endif

#endif
