/* What the C kernels share: constants, the thread team, and the records of arguments.
 *
 * Knows nothing of Python, which compiles all sources as one unit (build.py). An operation is a `…_part` function that
 * does one thread's share of it: kernels run them alone, a layer runs them one after another with barriers in between.
 */
#pragma once
#include "vectors.h"

#define PANEL 16     /* outputs side by side in a packed weight matrix */
#define MOST_DIM 256 /* of a head; kernels/rope.py has the same and checks it */
#define LINE 64      /* bytes that memory hands over at a time */
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum kind { FLOAT32 = 0, FLOAT16 = 1, INT8 = 2, BFLOAT16 = 3 };

/* ---- the thread team ---- */

typedef struct {
    int num_arrived, num_passed; /* threads at the barrier now, barriers passed so far */
} Barrier;

typedef struct {
    int thread, num_threads;
    Barrier *barrier;
} Team;

typedef void (*Body)(void *arguments, const Team *team);
void in_parallel(Body body, void *arguments, int num_threads);
void wait_for_all(const Team *team);

/* This thread takes the items begin … end − 1 of `num_items`. */
INLINE void share(int64_t num_items, const Team *team, int64_t *begin, int64_t *end) {
    *begin = num_items * team->thread / team->num_threads;
    *end = num_items * (team->thread + 1) / team->num_threads;
}

/* ---- the operations, as one thread of a team runs them; the records have twins in the Python modules ---- */

typedef struct {
    const void *data;   /* panels of PANEL outputs: (panels, in, PANEL) */
    const float *scale; /* (out,), int8 only */
    int64_t out, in, kind;
} Matrix;

typedef struct {
    const Matrix *matrix, *next;      /* next: what the same rows meet afterwards (fetched in advance), or 0 */
    const float *x, *bias, *residual; /* x (rows, in); bias (out,) or 0; residual (rows, out) or 0 */
    float *y;                         /* (rows, out) */
    int64_t rows;
} Linear;

void linear_part(const Linear *job, const Team *team);

INLINE int64_t num_panels(const Matrix *matrix) { return (matrix->out + PANEL - 1) / PANEL; }

typedef struct {
    const float *queries;           /* (rows, heads, d) */
    const void *keys, *values;      /* (slots, kv_heads, d) */
    const int32_t *tables;          /* (sequences, max_blocks) */
    const int32_t *sequence;        /* (rows,), or 0: all of sequence 0 */
    const int32_t *prefix, *extra;  /* (rows,), or 0: row r sees context + r + 1; (rows, num_extra) */
    float *out;                     /* (rows, heads, d) */
    int64_t rows, heads, kv_heads, d, kind, max_blocks, block_size, num_extra, context, window;
    float scale;
} Attention;

void attention_part(const Attention *job, const Team *team);

typedef struct {
    const float *x, *weight; /* (rows, hidden), (hidden,) */
    float *y;
    int64_t rows, hidden;
    float eps;
} Norm;

void norm_part(const Norm *job, const Team *team);

typedef struct {
    const float *q, *k, *v;               /* (rows, heads | kv_heads, d), a row every `stride` floats */
    const float *cos, *sin;               /* (rows, d / 2), or 0: no rotation */
    const float *query_norm, *key_norm;   /* (d,), or 0 */
    float *out;                           /* (rows, heads, d): the rotated queries */
    void *keys, *values;                  /* (slots, kv_heads, d) */
    const int32_t *slots;                 /* (rows,) */
    int64_t rows, heads, kv_heads, d, kind, q_stride, k_stride, v_stride;
    float eps;
} Rope;

void rope_part(const Rope *job, const Team *team);

typedef struct {
    const float *gate, *up; /* (rows, inner), a row every `pitch` floats */
    float *y;               /* (rows, inner) */
    int64_t rows, inner, pitch;
} Swiglu;

/* Columns begin … end − 1 of all rows. */
void swiglu_columns(const Swiglu *job, int64_t begin, int64_t end);
