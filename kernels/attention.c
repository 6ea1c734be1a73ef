/* Attention of rows over a cache that lies in blocks, with one running softmax per query.
 *
 * What a row sees is numbered 0, 1, 2, …: the prefix through its table, then its own extra slots. Tiles of 64 of these
 * numbers (attention_tile.c) are taken in order, scores are chains over the head dimension and outputs chains over the
 * numbers, so the bits of a row depend on what it sees alone: neither on its company, nor on threads, nor on chain or tree.
 */
#include "native.h"

/* ---- up to three queries of one row meet one tile ---- */

#define TOGETHER 3 /* × 4 vectors of sums; a vector of keys or values is read once for all of them */

INLINE void dot_products(const int queries, const Attention *job, const float *query, const float *keys, float *scores) {
    v8 sums[4 * TOGETHER];
    UNROLL for (int i = 0; i < 4 * queries; i++) sums[i] = set(0);
    for (int64_t c = 0; c < job->d; c++) {
        v8 value[TOGETHER];
        UNROLL for (int q = 0; q < queries; q++) value[q] = set(query[q * job->d + c]);
        UNROLL for (int v = 0; v < 4; v++) {
            v8 key = load(keys + c * TILE + 8 * v);
            UNROLL for (int q = 0; q < queries; q++) sums[4 * q + v] = fma8(value[q], key, sums[4 * q + v]);
        }
    }
    UNROLL for (int i = 0; i < 4 * queries; i++)
        store(scores + i / 4 * TILE + i % 4 * 8, sums[i] * set(job->scale));
}

INLINE void add_values(const int queries, const int vectors, float *sums, const float *keep, const float *weights,
                       const float *values, int64_t pitch, int64_t begin, int64_t end) {
    v8 sum[4 * TOGETHER];
    UNROLL for (int q = 0; q < queries; q++)
        UNROLL for (int v = 0; v < vectors; v++) sum[4 * q + v] = load(sums + q * pitch + 8 * v) * set(keep[q]);
    for (int64_t j = begin; j < end; j++) {
        v8 weight[TOGETHER];
        UNROLL for (int q = 0; q < queries; q++) weight[q] = set(weights[q * TILE + j]);
        UNROLL for (int v = 0; v < vectors; v++) {
            v8 value = load(values + j * pitch + 8 * v);
            UNROLL for (int q = 0; q < queries; q++) sum[4 * q + v] = fma8(weight[q], value, sum[4 * q + v]);
        }
    }
    UNROLL for (int q = 0; q < queries; q++)
        UNROLL for (int v = 0; v < vectors; v++) store(sums + q * pitch + 8 * v, sum[4 * q + v]);
}

/* Scores become weights e^(score − largest); returns what earlier sums must be multiplied with. */
static float soften(float *scores, int64_t begin, int64_t end, float *largest, float *total) {
    const i8 lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    const int from = (int)begin / 8, to = ((int)end + 7) / 8;
    v8 best = set(*largest), sum = set(0);
    i8 is_visible[TILE / 8];
    for (int v = from; v < to; v++) {
        i8 number = lanes + 8 * v;
        is_visible[v] = (number >= (int32_t)begin) & (number < (int32_t)end);
        v8 hidden = set(-INFINITY);
        v8 score = (v8)(((i8)load(scores + 8 * v) & is_visible[v]) | ((i8)hidden & ~is_visible[v]));
        best = max8(best, score);
    }
    float new_largest = largest8(best), keep = *largest == -INFINITY ? 0 : exp8(set(*largest - new_largest))[0];
    for (int v = from; v < to; v++) {
        v8 weight = (v8)((i8)exp8(load(scores + 8 * v) - set(new_largest)) & is_visible[v]);
        store(scores + 8 * v, weight);
        sum = sum + weight;
    }
    *total = *total * keep + sum8(sum);
    *largest = new_largest;
    return keep;
}

INLINE void score(const int queries, const Attention *job, Scratch *scratch, const float *query, int64_t q,
                  int64_t begin, int64_t end) {
    for (int64_t j = begin / 32 * 32; j < end; j += 32)
        dot_products(queries, job, query, scratch->keys + j, scratch->scores[q] + j);
}

INLINE void gather(const int queries, const Attention *job, Scratch *scratch, int64_t q, int64_t begin, int64_t end) {
    const int64_t padded = (job->d + 7) / 8 * 8;
    const float *values = scratch->values;
    float keep[TOGETHER], *scores = scratch->scores[q], *sums = scratch->sums + q * padded;
    UNROLL for (int i = 0; i < queries; i++)
        keep[i] = soften(scores + i * TILE, begin, end, &scratch->largest[q + i], &scratch->total[q + i]);
    int64_t c = 0;
    for (; c + 32 <= padded; c += 32) add_values(queries, 4, sums + c, keep, scores, values + c, padded, begin, end);
    for (; c < padded; c += 8) add_values(queries, 1, sums + c, keep, scores, values + c, padded, begin, end);
}

/* ---- the queries of a few rows of one sequence that read one key head ---- */

typedef struct {
    int64_t row, num_rows, kv_head, group;               /* rows row … row + num_rows − 1; query heads per key head */
    int64_t first, num_queries;                          /* numbered in the block: row · group + head of the group */
    int64_t lowest[MOST_QUERIES], visible[MOST_QUERIES]; /* each row sees numbers lowest … visible − 1 */
} Unit;

static void find_visible(const Attention *job, Unit *unit) {
    for (int64_t r = 0; r < unit->num_rows; r++) {
        int64_t visible = num_visible(job, unit->row + r);
        unit->visible[r] = visible;
        unit->lowest[r] = job->window && visible > job->window ? visible - job->window : 0;
    }
}

INLINE int64_t head_of(const Unit *unit, int64_t q) { return unit->kv_head * unit->group + (unit->first + q) % unit->group; }
INLINE int64_t row_of(const Unit *unit, int64_t q) { return (unit->first + q) / unit->group; }

/* How many queries from q on belong to one row and may go together. */
static int64_t together(const Unit *unit, int64_t q) {
    int64_t left = unit->group - (unit->first + q) % unit->group;
    if (left > unit->num_queries - q) left = unit->num_queries - q;
    return left < TOGETHER ? left : TOGETHER;
}

/* Which numbers of a tile each row sees, and whether some are its own: those no other row may read for it. */
typedef struct {
    int64_t begin[MOST_QUERIES], end[MOST_QUERIES], is_own[MOST_QUERIES];
} Sight;

/* The queries that see something of the tile now loaded: those of row `owner`, or of all rows that share it (−1). */
static __attribute__((noinline)) void meet(const Attention *job, Scratch *scratch, const Unit *unit, const Sight *sight,
                                           int64_t owner) {
    for (int step = 0; step < 2; step++) /* first keys and then values: each alone stays in the nearest cache */
        for (int64_t q = 0, count; q < unit->num_queries; q += count) {
            const int64_t r = row_of(unit, q), begin = sight->begin[r], end = sight->end[r];
            const float *query = job->queries + ((unit->row + r) * job->heads + head_of(unit, q)) * job->d;
            count = together(unit, q);
            if (end <= begin || (owner < 0 ? sight->is_own[r] : r != owner)) continue;
            switch (count) {
            case 1: step ? gather(1, job, scratch, q, begin, end) : score(1, job, scratch, query, q, begin, end); break;
            case 2: step ? gather(2, job, scratch, q, begin, end) : score(2, job, scratch, query, q, begin, end); break;
            default: step ? gather(3, job, scratch, q, begin, end) : score(3, job, scratch, query, q, begin, end);
            }
        }
}

/* Rows that see this part of the prefix alone share one widened tile; a row with slots of its own gets its own. */
static void attend_tile(const Attention *job, Scratch *scratch, const Unit *unit, int64_t first) {
    Sight sight;
    int64_t shared_begin = TILE, shared_end = 0, shared_row = 0;
    const int64_t from = row_of(unit, 0), to = row_of(unit, unit->num_queries - 1) + 1;
    for (int64_t r = from; r < to; r++) {
        sight.begin[r] = unit->lowest[r] > first ? unit->lowest[r] - first : 0;
        sight.end[r] = unit->visible[r] - first < TILE ? unit->visible[r] - first : TILE;
        sight.is_own[r] = first + sight.end[r] > prefix_of(job, unit->row + r);
        if (sight.is_own[r] || sight.end[r] <= sight.begin[r]) continue;
        if (sight.begin[r] < shared_begin) shared_begin = sight.begin[r];
        if (sight.end[r] > shared_end) shared_end = sight.end[r], shared_row = r;
    }
    if (shared_end > shared_begin) {
        load_for(job, scratch, unit->row + shared_row, unit->kv_head, first, shared_begin, shared_end);
        meet(job, scratch, unit, &sight, -1);
    }
    for (int64_t r = from; r < to; r++) {
        if (!sight.is_own[r] || sight.end[r] <= sight.begin[r]) continue;
        load_for(job, scratch, unit->row + r, unit->kv_head, first, sight.begin[r], sight.end[r]);
        meet(job, scratch, unit, &sight, r);
    }
}

static void attend(const Attention *job, Scratch *scratch, const Unit *unit) {
    const int64_t d = job->d, padded = (d + 7) / 8 * 8;
    int64_t start = INT64_MAX, last = 0;
    for (int64_t r = row_of(unit, 0); r <= row_of(unit, unit->num_queries - 1); r++) {
        last = unit->visible[r] > last ? unit->visible[r] : last;
        start = unit->lowest[r] < start ? unit->lowest[r] : start;
    }
    for (int64_t q = 0; q < unit->num_queries; q++) scratch->largest[q] = -INFINITY, scratch->total[q] = 0;
    memset(scratch->sums, 0, (size_t)(unit->num_queries * padded) * sizeof(float));
    for (int64_t first = start / TILE * TILE; first < last; first += TILE) attend_tile(job, scratch, unit, first);
    for (int64_t q = 0; q < unit->num_queries; q++) {
        float *out = job->out + ((unit->row + row_of(unit, q)) * job->heads + head_of(unit, q)) * d;
        for (int64_t c = 0; c < d; c++) out[c] = scratch->sums[q * padded + c] / scratch->total[q];
    }
}

/* ---- one thread's share, and the whole ---- */

static int64_t block_length(const Attention *job, int64_t row) {
    const int64_t group = job->heads / job->kv_heads, most = group < MOST_QUERIES ? MOST_QUERIES / group : 1;
    int64_t length = 1;
    while (length < most && row + length < job->rows &&
           (!job->sequence || job->sequence[row + length] == job->sequence[row]))
        length++;
    return length;
}

/* Few rows: equal runs of queries. Many: every n-th unit of n threads, because late rows of a prompt see more. */
void attention_part(const Attention *job, const Team *team) {
    Scratch scratch;
    const int64_t group = job->heads / job->kv_heads, is_many = job->rows > 8 * team->num_threads;
    int64_t from, to, position = 0, number = 0;
    share(job->rows * job->heads, team, &from, &to);
    for (int64_t row = 0, length; row < job->rows; row += length) {
        length = block_length(job, row);
        for (int64_t kv_head = 0; kv_head < job->kv_heads; kv_head++, number++, position += length * group) {
            int64_t begin = is_many || from < position ? 0 : from - position;
            int64_t end = is_many || to > position + length * group ? length * group : to - position;
            if (is_many && number % team->num_threads != team->thread) continue;
            for (; begin < end; begin += MOST_QUERIES) {
                int64_t count = end - begin < MOST_QUERIES ? end - begin : MOST_QUERIES;
                Unit unit = {row, length, kv_head, group, begin, count};
                find_visible(job, &unit);
                attend(job, &scratch, &unit);
            }
        }
    }
}

static void attention_body(void *job, const Team *team) { attention_part(job, team); }

EXPORT void attention(const Attention *job, int64_t num_threads) {
    in_parallel(attention_body, (void *)job, (int)num_threads);
}
