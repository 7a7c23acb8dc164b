/* A reduce: the element-wise sum of two vectors of little-endian i64. The shorter is extended with zeros.
 *
 * A guest may overwrite its input, so the sum is written in place, into the longer of the two. It needs no other
 * memory. */
#include "treefold_guest.h"

TREEFOLD_EXPORT("treefold_reduce")
uint64_t treefold_reduce(int64_t *a, uint32_t a_bytes, int64_t *b, uint32_t b_bytes, const void *params,
                         uint32_t params_bytes) {
    (void)params;
    if (params_bytes != 0) return treefold_error("sum takes no parameters");
    if (a_bytes % 8 != 0 || b_bytes % 8 != 0) return treefold_error("a partial is whole numbers of 8 bytes");
    int64_t *longer = a_bytes >= b_bytes ? a : b;
    const int64_t *shorter = a_bytes >= b_bytes ? b : a;
    uint32_t bytes = a_bytes >= b_bytes ? a_bytes : b_bytes;
    uint32_t numbers = (a_bytes >= b_bytes ? b_bytes : a_bytes) / 8;
    for (uint32_t at = 0; at < numbers; at++) {
        if (__builtin_add_overflow(longer[at], shorter[at], &longer[at]))
            return treefold_error("overflow: a sum is outside of what 64 bits hold");
    }
    return treefold_partial(longer, bytes);
}
