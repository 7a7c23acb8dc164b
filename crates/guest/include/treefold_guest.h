/* A header for writing Treefold reduces and filters in C; the specification is docs/wasm.md.
 *
 *   clang --target=wasm32 -O2 -ffreestanding -nostdlib -Wl,--no-entry -o guest.wasm guest.c
 *
 * A guest includes this header once. It defines either treefold_reduce, or treefold_filter_open,
 * treefold_filter_up and the optional functions of a filter. Each is marked TREEFOLD_EXPORT(its name).
 */
#ifndef TREEFOLD_GUEST_H
#define TREEFOLD_GUEST_H

#include <stddef.h>
#include <stdint.h>

#define TREEFOLD_EXPORT(name) __attribute__((export_name(name), used, visibility("default")))

enum { TREEFOLD_ENDPOINT = 0, TREEFOLD_CHILD = 1 };

/* A packet of a wave, with its source. The guest may overwrite it, as all its input. */
struct treefold_piece {
    uint32_t kind;   /* TREEFOLD_ENDPOINT or TREEFOLD_CHILD */
    uint32_t number; /* number of the endpoint or child */
    uint8_t *data;   /* its address is a multiple of 8 */
    uint32_t bytes;
};

/* A packet that a filter returns. */
struct treefold_packet {
    const uint8_t *data;
    uint32_t bytes;
};

/* Returns one partial. */
static inline uint64_t treefold_partial(const void *data, uint32_t bytes) {
    return (uint64_t)(uintptr_t)data << 32 | bytes;
}

/* Returns any number of packets. */
static inline uint64_t treefold_packets(const struct treefold_packet *packets, uint32_t count) {
    return (uint64_t)(uintptr_t)packets << 32 | count;
}

/* Returns an error with a text in UTF-8. */
static inline uint64_t treefold_error(const char *text) {
    uint32_t bytes = 0;
    while (text[bytes] != 0) bytes++;
    return (uint64_t)(uintptr_t)text << 32 | UINT32_C(1) << 31 | bytes;
}

/* Declares that this guest uses version 1 of the ABI; never called. */
TREEFOLD_EXPORT("treefold_abi_v1") void treefold_abi_v1(void) {}

/* Returns a buffer for the input, which is valid until the next call of this function. It is always at the same
 * address, the first multiple of 8 behind the guest's data; the memory grows if it is too small. A guest with its
 * own heap defines TREEFOLD_OWN_ALLOC and implements this function itself. */
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
