/* Products with a packed matrix: y = x · Wᵀ (· scale) (+ bias) (+ residual), for one row or a thousand.
 *
 * Outputs lie in panels of 16, and each of them is a single chain of fused multiply-adds over k = 0, 1, 2, …: the same
 * chain in every tile shape below and on every processor that fuses, hence the same bits for any number of rows.
 */
#include "native.h"

#define CHUNK 96  /* rows that meet all panels before others do: their inputs stay in a cache */
#define STREAMS 4 /* panels that are read or fetched side by side: one alone uses half of the memory's bandwidth */

/* Tiles have 1, 2 or 4 panels side by side: enough sums to hide an addition's latency, few enough to stay in registers.
 * most_rows: of a tile. least, most: rows for which so many panels are taken; what is left over goes one by one. */
#ifdef HAS_AVX512 /* 32 registers of 16 floats */
#define VECTORS 1 /* that hold the outputs of a panel */
#define MOST_ROWS 12
static const int64_t most_rows[3] = {6, 12, 6}, least[3] = {1, 7, 1}, most[3] = {CHUNK, CHUNK, 6};
#else /* 16 registers of 8 floats */
#define VECTORS 2
#define MOST_ROWS 6
static const int64_t most_rows[3] = {6, 3, 1}, least[3] = {1, 1, 1}, most[3] = {CHUNK, 3, 1};
#endif

INLINE v16 widen(const int kind, const char *w) {
    switch (kind) {
    case FLOAT16: return load16_half((const uint16_t *)w);
    case INT8: return load16_int8((const int8_t *)w);
    case BFLOAT16: return load16_bfloat((const uint16_t *)w);
    default: return load16((const float *)w);
    }
}

INLINE int64_t width(const int kind) { return kind == FLOAT32 ? 4 : kind == INT8 ? 1 : 2; }

/* Scale, bias and residual, in this order; the last panel may be partly padding. */
static void finish(const Linear *job, int64_t row, int64_t output, const float *sums) {
    const Matrix *m = job->matrix;
    float *y = job->y + row * m->out + output;
    const float *scale = m->scale ? m->scale + output : 0, *bias = job->bias ? job->bias + output : 0;
    const float *residual = job->residual ? job->residual + row * m->out + output : 0;
    int64_t n = m->out - output < PANEL ? m->out - output : PANEL, i = 0;
    for (; i + 8 <= n; i += 8) {
        v8 sum = load(sums + i);
        if (scale) sum = sum * load(scale + i);
        if (bias) sum = sum + load(bias + i);
        if (residual) sum = sum + load(residual + i);
        store(y + i, sum);
    }
    for (; i < n; i++) {
        float sum = sums[i];
        if (scale) sum = sum * scale[i];
        if (bias) sum = sum + bias[i];
        if (residual) sum = sum + residual[i];
        y[i] = sum;
    }
}

/* ---- a tile: weights go straight from memory into registers ---- */

/* Input k of `panels` panels (side by side in w) meets `rows` rows. */
INLINE void step(const int kind, const int rows, const int panels, const char *w, const float *x, int64_t in, v16 *sums) {
    const int64_t apart = in * PANEL * width(kind);
    if (panels == 1 || rows >= VECTORS * panels) { /* the weights stay, a row's value comes and goes */
        v16 weights[4];
        UNROLL for (int i = 0; i < panels; i++) weights[i] = widen(kind, w + i * apart);
        UNROLL for (int r = 0; r < rows; r++) {
            v16 value = set16(x[r * in]);
            UNROLL for (int i = 0; i < panels; i++) sums[i * rows + r] = fma16(value, weights[i], sums[i * rows + r]);
        }
        return;
    }
    v16 values[MOST_ROWS]; /* the other way round */
    UNROLL for (int r = 0; r < rows; r++) values[r] = set16(x[r * in]);
    UNROLL for (int i = 0; i < panels; i++) {
        v16 weights = widen(kind, w + i * apart);
        UNROLL for (int r = 0; r < rows; r++) sums[i * rows + r] = fma16(values[r], weights, sums[i * rows + r]);
    }
}

/* While it works through its panels it fetches as many lines of the panels that come after (`ahead`). */
INLINE void tile(const int kind, const int rows, const int panels, const Linear *job, int64_t row, int64_t panel,
                 const char *const *ahead) {
    const int64_t in = job->matrix->in, size = PANEL * width(kind), chunk = STREAMS * LINE / size;
    const char *w = (const char *)job->matrix->data + panel * in * size;
    const float *x = job->x + row * in;
    v16 sums[24];
    UNROLL for (int i = 0; i < rows * panels; i++) sums[i] = set16(0);
    int64_t k = 0, offset = 0;
    for (; k + chunk <= in; k += chunk, offset += panels * LINE) {
        UNROLL for (int i = 0; i < STREAMS * panels; i++)
            __builtin_prefetch(ahead[i % STREAMS] + offset + i / STREAMS * LINE, 0, 2);
        UNROLL for (int64_t i = 0; i < chunk; i++, w += size, x++) step(kind, rows, panels, w, x, in, sums);
    }
    for (; k < in; k++, w += size, x++) step(kind, rows, panels, w, x, in, sums);
    UNROLL for (int i = 0; i < rows * panels; i++) {
        float finished[PANEL];
        store16(finished, sums[i]);
        finish(job, row + i % rows, (panel + i / rows) * PANEL, finished);
    }
}

typedef struct {
    int64_t begin, end; /* this thread's panels */
    const char *next;   /* its first panel of the matrix that comes after, or 0 */
    int64_t next_bytes; /* of a panel there */
} Span;

/* One function per stored type and tile shape, so that each inner loop has all registers to itself. */
typedef void Tile(const Linear *job, int64_t row, int64_t panel, const char *const *ahead);
#define SHAPE(kind, rows, panels)                                                                            \
    static __attribute__((noinline)) void tile_##kind##_##rows##x##panels(                                   \
        const Linear *job, int64_t row, int64_t panel, const char *const *ahead) {                           \
        tile(kind, rows, panels, job, row, panel, ahead);                                                    \
    }
#define UP_TO_6(kind, panels)                                                                                \
    SHAPE(kind, 1, panels) SHAPE(kind, 2, panels) SHAPE(kind, 3, panels)                                     \
    SHAPE(kind, 4, panels) SHAPE(kind, 5, panels) SHAPE(kind, 6, panels)
#define NAMES_UP_TO_6(kind, panels)                                                                          \
    tile_##kind##_1x##panels, tile_##kind##_2x##panels, tile_##kind##_3x##panels,                            \
    tile_##kind##_4x##panels, tile_##kind##_5x##panels, tile_##kind##_6x##panels
#ifdef HAS_AVX512
#define SHAPES(kind)                                                                                         \
    UP_TO_6(kind, 1) UP_TO_6(kind, 4)                                                                        \
    SHAPE(kind, 6, 2) SHAPE(kind, 7, 2) SHAPE(kind, 8, 2) SHAPE(kind, 9, 2)                                  \
    SHAPE(kind, 10, 2) SHAPE(kind, 11, 2) SHAPE(kind, 12, 2)
#define TABLE(kind)                                                                                          \
    {{NAMES_UP_TO_6(kind, 1)},                                                                               \
     {0, 0, 0, 0, 0, tile_##kind##_6x2, tile_##kind##_7x2, tile_##kind##_8x2, tile_##kind##_9x2,             \
      tile_##kind##_10x2, tile_##kind##_11x2, tile_##kind##_12x2},                                           \
     {NAMES_UP_TO_6(kind, 4)}}
#else
#define SHAPES(kind) UP_TO_6(kind, 1) SHAPE(kind, 1, 2) SHAPE(kind, 2, 2) SHAPE(kind, 3, 2) SHAPE(kind, 1, 4)
#define TABLE(kind)                                                                                          \
    {{NAMES_UP_TO_6(kind, 1)}, {tile_##kind##_1x2, tile_##kind##_2x2, tile_##kind##_3x2}, {tile_##kind##_1x4}}
#endif
SHAPES(FLOAT32) SHAPES(FLOAT16) SHAPES(INT8) SHAPES(BFLOAT16)
static Tile *const tiles[4][3][MOST_ROWS] = {TABLE(FLOAT32), TABLE(FLOAT16), TABLE(INT8), TABLE(BFLOAT16)};

/* Where the panels lie that this thread needs after the four that `panel` is one of; past its last the next matrix's. */
static void look_ahead(const Linear *job, const Span *span, int64_t panel, const char **ahead) {
    const Matrix *m = job->matrix;
    const int64_t bytes = m->in * PANEL * width((int)m->kind), quarter = (panel - span->begin) % STREAMS;
    for (int64_t i = 0; i < STREAMS; i++) {
        int64_t wanted = panel - quarter + STREAMS + i;
        const char *start = (const char *)m->data + panel * bytes; /* what is there already, if nothing is to come */
        if (wanted < span->end)
            start = (const char *)m->data + wanted * bytes;
        else if (span->next)
            start = span->next + (wanted - span->end) * span->next_bytes;
        ahead[i] = start + quarter * (bytes / STREAMS);
    }
}

/* Rows begin … end − 1 meet this thread's panels: the first tile of a panel brings it, the others find it near. */
static void multiply(const Linear *job, const Span *span, int64_t begin, int64_t end) {
    const char *ahead[STREAMS], *nothing[STREAMS];
    for (int i = 0; i < STREAMS; i++) nothing[i] = (const char *)job->x;
    int64_t panel = span->begin;
    for (int size = 2; size >= 0; size--) {
        if (end - begin < least[size] || end - begin > most[size]) continue;
        for (; panel + (1 << size) <= span->end; panel += 1 << size) {
            look_ahead(job, span, panel, ahead);
            for (int64_t row = begin, tile_rows; row < end; row += tile_rows) {
                int64_t tiles_left = (end - row + most_rows[size] - 1) / most_rows[size];
                tile_rows = (end - row + tiles_left - 1) / tiles_left;
                tiles[job->matrix->kind][size][tile_rows - 1](job, row, panel, row == begin ? ahead : nothing);
            }
        }
    }
}

/* ---- reading rows ---- */

/* Row `token` of a packed matrix: its values lie PANEL apart. */
static void embed_row(const Matrix *m, int64_t token, float *y) {
    const int64_t first = token / PANEL * m->in * PANEL + token % PANEL;
    const v8 scale = set(m->scale ? m->scale[token] : 1);
    for (int64_t k = 0; k < m->in; k += 8) {
        const int64_t n = m->in - k < 8 ? m->in - k : 8, at = first + k * PANEL;
        float floats[8] = {0};
        uint16_t halves[8] = {0};
        for (int64_t i = 0; i < n; i++) {
            if (m->kind == FLOAT32)
                floats[i] = ((const float *)m->data)[at + i * PANEL];
            else if (m->kind == INT8)
                floats[i] = ((const int8_t *)m->data)[at + i * PANEL];
            else
                halves[i] = ((const uint16_t *)m->data)[at + i * PANEL];
        }
        v8 values = m->kind == FLOAT16 ? load_half(halves) : m->kind == BFLOAT16 ? load_bfloat(halves) : load(floats);
        values = values * scale;
        memcpy(y + k, &values, (size_t)n * sizeof *y);
    }
}

EXPORT void embed(const Matrix *matrix, const int64_t *tokens, int64_t rows, float *y) {
    for (int64_t row = 0; row < rows; row++) embed_row(matrix, tokens[row], y + row * matrix->in);
}

/* ---- one thread's share, and the whole ---- */

void linear_part(const Linear *job, const Team *team) {
    Span span = {0};
    share(num_panels(job->matrix), team, &span.begin, &span.end);
    if (job->next) {
        int64_t begin, end;
        share(num_panels(job->next), team, &begin, &end);
        span.next_bytes = job->next->in * PANEL * width((int)job->next->kind);
        span.next = (const char *)job->next->data + begin * span.next_bytes;
    }
    for (int64_t row = 0; row < job->rows; row += CHUNK)
        multiply(job, &span, row, job->rows - row < CHUNK ? job->rows : row + CHUNK);
}

static void linear_body(void *job, const Team *team) { linear_part(job, team); }

EXPORT void linear(const Matrix *matrix, const float *x, int64_t rows, const float *bias, float *y, int64_t num_threads) {
    Linear job = {matrix, 0, x, bias, 0, y, rows};
    in_parallel(linear_body, &job, (int)num_threads);
}
