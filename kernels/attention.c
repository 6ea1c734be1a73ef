/* Attention of rows over a cache that lies in blocks, with one running softmax per query.
 *
 * What a row sees is numbered 0, 1, 2, …: the prefix through its table, then its own extra slots. Tiles of 64 of these
 * numbers (attention_tile.c) are taken in order, scores are chains over the head dimension and outputs chains over the
 * numbers, so the bits of a row depend on what it sees alone: neither on its company, nor on threads, nor on chain or tree.
 */
#include "native.h"

/* ---- one query meets one tile ---- */

INLINE void dot_products(const int vectors, const Attention *job, const float *query, const float *keys, float *scores) {
    v8 sums[8];
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = set(0);
    for (int64_t c = 0; c < job->d; c++) {
        v8 value = set(query[c]);
        UNROLL for (int v = 0; v < vectors; v++) sums[v] = fma8(value, load(keys + c * TILE + 8 * v), sums[v]);
    }
    UNROLL for (int v = 0; v < vectors; v++) store(scores + 8 * v, sums[v] * set(job->scale));
}

INLINE void add_values(const int vectors, float *sums, float keep, const float *weights, const float *values,
                       int64_t pitch, int64_t begin, int64_t end) {
    v8 sum[8];
    UNROLL for (int v = 0; v < vectors; v++) sum[v] = load(sums + 8 * v) * set(keep);
    for (int64_t j = begin; j < end; j++) {
        v8 weight = set(weights[j]);
        UNROLL for (int v = 0; v < vectors; v++) sum[v] = fma8(weight, load(values + j * pitch + 8 * v), sum[v]);
    }
    UNROLL for (int v = 0; v < vectors; v++) store(sums + 8 * v, sum[v]);
}

/* Scores become weights e^(score − largest); returns what earlier sums must be multiplied with. */
static float soften(float *scores, int64_t begin, int64_t end, float *largest, float *total) {
    const i8 lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    v8 best = set(*largest), sum = set(0);
    i8 is_visible[TILE / 8];
    for (int v = 0; v < TILE / 8; v++) {
        i8 number = lanes + 8 * v;
        is_visible[v] = (number >= (int32_t)begin) & (number < (int32_t)end);
        v8 hidden = set(-INFINITY);
        v8 score = (v8)(((i8)load(scores + 8 * v) & is_visible[v]) | ((i8)hidden & ~is_visible[v]));
        best = max8(best, score);
    }
    float new_largest = largest8(best), keep = *largest == -INFINITY ? 0 : exp8(set(*largest - new_largest))[0];
    for (int v = 0; v < TILE / 8; v++) {
        v8 weight = (v8)((i8)exp8(load(scores + 8 * v) - set(new_largest)) & is_visible[v]);
        store(scores + 8 * v, weight);
        sum = sum + weight;
    }
    *total = *total * keep + sum8(sum);
    *largest = new_largest;
    return keep;
}

static __attribute__((noinline)) void meet(const Attention *job, Scratch *scratch, const float *query, int64_t index,
                                           int64_t begin, int64_t end) {
    const int64_t padded = (job->d + 7) / 8 * 8;
    float scores[TILE];
    if (end > TILE / 2) {
        dot_products(8, job, query, scratch->keys, scores);
    } else {
        dot_products(4, job, query, scratch->keys, scores);
        memset(scores + TILE / 2, 0, sizeof scores / 2);
    }
    float keep = soften(scores, begin, end, &scratch->largest[index], &scratch->total[index]);
    float *sums = scratch->sums + index * padded;
    const float *values = scratch->values;
    int64_t c = 0;
    for (; c + 64 <= padded; c += 64) add_values(8, sums + c, keep, scores, values + c, padded, begin, end);
    for (; c + 32 <= padded; c += 32) add_values(4, sums + c, keep, scores, values + c, padded, begin, end);
    for (; c < padded; c += 8) add_values(1, sums + c, keep, scores, values + c, padded, begin, end);
}

/* ---- the queries of a few rows of one sequence that read one key head ---- */

typedef struct {
    int64_t row, num_rows, kv_head, num_queries; /* rows row … row + num_rows − 1 */
    int64_t row_of[MOST_QUERIES], head_of[MOST_QUERIES];
    int64_t lowest[MOST_QUERIES], visible[MOST_QUERIES]; /* each row sees numbers lowest … visible − 1 */
} Unit;

/* Queries begin … end − 1 of the block of rows, numbered (head in its group) · num_rows + row. */
static void make_unit(const Attention *job, Unit *unit, int64_t begin, int64_t end) {
    for (int64_t r = 0; r < unit->num_rows; r++) {
        int64_t visible = num_visible(job, unit->row + r);
        unit->visible[r] = visible;
        unit->lowest[r] = job->window && visible > job->window ? visible - job->window : 0;
    }
    unit->num_queries = end - begin;
    for (int64_t q = begin; q < end; q++) {
        unit->row_of[q - begin] = q % unit->num_rows;
        unit->head_of[q - begin] = unit->kv_head * (job->heads / job->kv_heads) + q / unit->num_rows;
    }
}

INLINE void meet_one(const Attention *job, Scratch *scratch, const Unit *unit, int64_t q, const int64_t *begin,
                     const int64_t *end) {
    int64_t r = unit->row_of[q];
    const float *query = job->queries + ((unit->row + r) * job->heads + unit->head_of[q]) * job->d;
    meet(job, scratch, query, q, begin[r], end[r]);
}

/* Rows that see this part of the prefix alone share one widened tile; a row with slots of its own gets its own. */
static void attend_tile(const Attention *job, Scratch *scratch, const Unit *unit, int64_t first) {
    int64_t begin[MOST_QUERIES], end[MOST_QUERIES], is_own[MOST_QUERIES];
    int64_t shared_begin = TILE, shared_end = 0, shared_row = 0;
    for (int64_t r = 0; r < unit->num_rows; r++) {
        begin[r] = unit->lowest[r] > first ? unit->lowest[r] - first : 0;
        end[r] = unit->visible[r] - first < TILE ? unit->visible[r] - first : TILE;
        is_own[r] = first + end[r] > prefix_of(job, unit->row + r);
        if (is_own[r] || end[r] <= begin[r]) continue;
        if (begin[r] < shared_begin) shared_begin = begin[r];
        if (end[r] > shared_end) shared_end = end[r], shared_row = r;
    }
    if (shared_end > shared_begin)
        load_for(job, scratch, unit->row + shared_row, unit->kv_head, first, shared_begin, shared_end);
    for (int64_t q = 0; q < unit->num_queries; q++) {
        int64_t r = unit->row_of[q];
        if (!is_own[r] && end[r] > begin[r]) meet_one(job, scratch, unit, q, begin, end);
    }
    for (int64_t r = 0; r < unit->num_rows; r++) {
        if (!is_own[r] || end[r] <= begin[r]) continue;
        load_for(job, scratch, unit->row + r, unit->kv_head, first, begin[r], end[r]);
        for (int64_t q = 0; q < unit->num_queries; q++)
            if (unit->row_of[q] == r) meet_one(job, scratch, unit, q, begin, end);
    }
}

static void attend(const Attention *job, Scratch *scratch, const Unit *unit) {
    const int64_t d = job->d, padded = (d + 7) / 8 * 8;
    int64_t start = INT64_MAX, last = 0;
    for (int64_t r = 0; r < unit->num_rows; r++) {
        last = unit->visible[r] > last ? unit->visible[r] : last;
        start = unit->lowest[r] < start ? unit->lowest[r] : start;
    }
    for (int64_t q = 0; q < unit->num_queries; q++) scratch->largest[q] = -INFINITY, scratch->total[q] = 0;
    memset(scratch->sums, 0, (size_t)(unit->num_queries * padded) * sizeof(float));
    for (int64_t first = start / TILE * TILE; first < last; first += TILE) attend_tile(job, scratch, unit, first);
    for (int64_t q = 0; q < unit->num_queries; q++) {
        float *out = job->out + ((unit->row + unit->row_of[q]) * job->heads + unit->head_of[q]) * d;
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
                Unit unit = {.row = row, .num_rows = length, .kv_head = kv_head};
                make_unit(job, &unit, begin, end < begin + MOST_QUERIES ? end : begin + MOST_QUERIES);
                attend(job, &scratch, &unit);
            }
        }
    }
}

static void attention_body(void *job, const Team *team) { attention_part(job, team); }

EXPORT void attention(const Attention *job, int64_t num_threads) {
    in_parallel(attention_body, (void *)job, (int)num_threads);
}
