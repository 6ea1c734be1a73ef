/* Keys and values of 64 tokens, gathered through a block table and widened for the queries that share them.
 *
 * Knows nothing of queries. What a row sees is numbered 0, 1, 2, …: the prefix through its table, then its own extra
 * slots; a tile is 64 of these numbers.
 */
#include "native.h"

#define TILE 64         /* tokens */
#define MOST_QUERIES 32 /* that share a tile of keys and values once it is widened */

typedef struct {
    float keys[MOST_DIM * TILE];    /* (d, TILE): turned, so that a vector holds 8 tokens */
    float values[TILE * MOST_DIM];  /* (TILE, d rounded up to 8) */
    float scores[MOST_QUERIES][TILE], sums[MOST_QUERIES * MOST_DIM];
    float largest[MOST_QUERIES], total[MOST_QUERIES];
} Scratch;

/* ---- what a row sees ---- */

static int64_t prefix_of(const Attention *job, int64_t row) {
    return job->prefix ? job->prefix[row] : job->context + row + 1;
}

static int64_t num_visible(const Attention *job, int64_t row) {
    const int32_t *extra = job->extra + row * job->num_extra;
    int64_t count = 0;
    while (count < job->num_extra && extra[count] >= 0) count++;
    return prefix_of(job, row) + count;
}

/* Slots of numbers begin … end − 1 of `row`. */
static void find_slots(const Attention *job, int64_t row, int64_t begin, int64_t end, int64_t *slots) {
    const int32_t *table = job->tables + (job->sequence ? job->sequence[row] : 0) * job->max_blocks;
    const int32_t *extra = job->extra + row * job->num_extra;
    int64_t prefix = prefix_of(job, row), block = begin / job->block_size, inside = begin % job->block_size;
    for (int64_t number = begin; number < end; number++) {
        *slots++ = number < prefix ? table[block] * job->block_size + inside : extra[number - prefix];
        if (++inside == job->block_size) inside = 0, block++;
    }
}

/* ---- a tile of keys and values, widened ---- */

INLINE v8 load_stored(const int kind, const char *head, int64_t c) {
    if (kind == FLOAT32) return load((const float *)head + c);
    return kind == FLOAT16 ? load_half((const uint16_t *)head + c) : load_bfloat((const uint16_t *)head + c);
}

/* The last d − c < 8 numbers of a head, then zeros. */
INLINE v8 load_rest(const int kind, const char *head, int64_t c, int64_t d) {
    char rest[32] = {0};
    const int64_t size = kind == FLOAT32 ? 4 : 2;
    memcpy(rest, head + c * size, (size_t)((d - c) * size));
    return load_stored(kind, rest, 0);
}

INLINE void transpose(v8 *a) {
#ifdef HAS_AVX2
    __m256 pairs[8], fours[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps((__m256)a[i], (__m256)a[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps((__m256)a[i], (__m256)a[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) {
        UNROLL for (int j = 0; j < 2; j++) {
            fours[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
            fours[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xee);
        }
    }
    UNROLL for (int i = 0; i < 4; i++) {
        a[i] = (v8)_mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        a[i + 4] = (v8)_mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
#else
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++) {
            float upper = a[j][i];
            a[j][i] = a[i][j];
            a[i][j] = upper;
        }
#endif
}

/* Eight tokens' heads, turned: vector c of `keys` gets their c-th numbers. */
INLINE void turn(const int kind, const char *const *tokens, int64_t d, float *keys) {
    v8 square[8];
    int64_t c = 0;
    for (; c + 8 <= d; c += 8) {
        UNROLL for (int i = 0; i < 8; i++) square[i] = load_stored(kind, tokens[i], c);
        transpose(square);
        UNROLL for (int i = 0; i < 8; i++) store(keys + (c + i) * TILE, square[i]);
    }
    if (c == d) return;
    for (int i = 0; i < 8; i++) square[i] = load_rest(kind, tokens[i], c, d);
    transpose(square);
    for (int64_t i = 0; i < d - c; i++) store(keys + (c + i) * TILE, square[i]);
}

/* Reads one byte of each line of a token's key and value. The lines lie scattered, so no prefetcher finds them, and most
 * of a burst of prefetches would be dropped; bare loads run as far ahead as the processor can. */
INLINE void touch(const Attention *job, int64_t at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += LINE) {
        (void)*((const volatile char *)job->keys + at + i);
        (void)*((const volatile char *)job->values + at + i);
    }
}

/* Numbers first + begin … first + end − 1 of `row`. No other slot is read, so garbage there cannot matter. */
INLINE void load_tile(const int kind, const Attention *job, Scratch *scratch, int64_t row, int64_t kv_head,
                      int64_t first, int64_t begin, int64_t end) {
    const int64_t d = job->d, padded = (d + 7) / 8 * 8, size = kind == FLOAT32 ? 4 : 2;
    const char *keys[TILE];
    int64_t slots[TILE];
    find_slots(job, row, first + begin, first + end, slots + begin);
    for (int64_t j = begin; j < end; j++) touch(job, (slots[j] * job->kv_heads + kv_head) * d * size, d * size);
    for (int64_t j = begin; j < end; j++) {
        const int64_t at = (slots[j] * job->kv_heads + kv_head) * d * size;
        const char *value = (const char *)job->values + at;
        float *to = scratch->values + j * padded;
        int64_t c = 0;
        keys[j] = (const char *)job->keys + at;
        for (; c + 8 <= d; c += 8) store(to + c, load_stored(kind, value, c));
        if (c < d) store(to + c, load_rest(kind, value, c, d));
    }
    /* lanes before and after repeat a visible token; their scores are thrown away */
    for (int64_t j = begin / 8 * 8; j < begin; j++) keys[j] = keys[begin];
    for (int64_t j = end; j % 8; j++) keys[j] = keys[end - 1];
    for (int64_t j = begin / 8 * 8; j < end; j += 8) turn(kind, keys + j, d, scratch->keys + j);
}

static void load_for(const Attention *job, Scratch *scratch, int64_t row, int64_t kv_head, int64_t first, int64_t begin,
                     int64_t end) {
    switch (job->kind) {
    case FLOAT16: load_tile(FLOAT16, job, scratch, row, kv_head, first, begin, end); break;
    case BFLOAT16: load_tile(BFLOAT16, job, scratch, row, kv_head, first, begin, end); break;
    default: load_tile(FLOAT32, job, scratch, row, kv_head, first, begin, end);
    }
}
