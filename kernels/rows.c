/* What happens to each row or head by itself: RMSNorm, rotary positions with the write to the cache, SwiGLU. */
#include "native.h"

/* ---- RMSNorm ---- */

INLINE void norm_row(const float *x, const float *weight, float *y, int64_t n, float eps) {
    v8 sums[4] = {set(0), set(0), set(0), set(0)};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        UNROLL for (int j = 0; j < 4; j++) sums[j] = fma8(load(x + i + 8 * j), load(x + i + 8 * j), sums[j]);
    for (; i + 8 <= n; i += 8) sums[0] = fma8(load(x + i), load(x + i), sums[0]);
    float sum = sum8((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < n; i++) sum = sum + x[i] * x[i];
    float scale = 1 / sqrtf(sum / (float)n + eps);
    for (i = 0; i + 8 <= n; i += 8) store(y + i, load(x + i) * set(scale) * load(weight + i));
    for (; i < n; i++) y[i] = x[i] * scale * weight[i];
}

void norm_part(const Norm *job, const Team *team) {
    int64_t begin, end;
    share(job->rows, team, &begin, &end);
    for (int64_t row = begin; row < end; row++)
        norm_row(job->x + row * job->hidden, job->weight, job->y + row * job->hidden, job->hidden, job->eps);
}

static void norm_body(void *job, const Team *team) { norm_part(job, team); }

EXPORT void rms_norm(const float *x, const float *weight, float *y, int64_t rows, int64_t hidden, float eps,
                     int64_t num_threads) {
    Norm job = {x, weight, y, rows, hidden, eps};
    in_parallel(norm_body, &job, (int)num_threads);
}

/* ---- rotary positions ---- */

INLINE void write_cache(int64_t kind, void *cache, int64_t at, const float *head, int64_t d) {
    if (kind == FLOAT32) {
        memcpy((float *)cache + at, head, (size_t)d * sizeof *head);
        return;
    }
    uint16_t *to = (uint16_t *)cache + at;
    for (int64_t i = 0; i < d; i += 8) {
        float floats[8] = {0};
        uint16_t halves[8];
        int64_t n = d - i < 8 ? d - i : 8;
        memcpy(floats, head + i, (size_t)n * sizeof *floats);
        if (kind == FLOAT16)
            store_half(halves, load(floats));
        else
            store_bfloat(halves, load(floats));
        memcpy(to + i, halves, (size_t)n * sizeof *halves);
    }
}

/* x (d,) → y (d,): first halves a, second halves b become a·cos − b·sin and b·cos + a·sin. */
INLINE void rotate(const float *x, const float *cos, const float *sin, float *y, int64_t d) {
    const int64_t half = d / 2;
    int64_t i = 0;
    for (; i + 8 <= half; i += 8) {
        v8 a = load(x + i), b = load(x + half + i), c = load(cos + i), s = load(sin + i);
        store(y + i, a * c - b * s);
        store(y + half + i, b * c + a * s);
    }
    for (; i < half; i++) {
        float a = x[i], b = x[half + i];
        y[i] = a * cos[i] - b * sin[i];
        y[half + i] = b * cos[i] + a * sin[i];
    }
}

static void rope_head(const Rope *job, int64_t row, int64_t head) {
    const int64_t d = job->d, is_query = head < job->heads, kv_head = head - job->heads;
    const float *x = is_query ? job->q + row * job->q_stride + head * d : job->k + row * job->k_stride + kv_head * d;
    const float *weight = is_query ? job->query_norm : job->key_norm;
    float normed[MOST_DIM], rotated[MOST_DIM], *y = is_query ? job->out + (row * job->heads + head) * d : rotated;
    if (weight) norm_row(x, weight, normed, d, job->eps), x = normed;
    if (job->cos)
        rotate(x, job->cos + row * (d / 2), job->sin + row * (d / 2), y, d);
    else
        memcpy(y, x, (size_t)d * sizeof *y);
    if (is_query) return;
    int64_t at = (job->slots[row] * job->kv_heads + kv_head) * d;
    write_cache(job->kind, job->keys, at, rotated, d);
    write_cache(job->kind, job->values, at, job->v + row * job->v_stride + kv_head * d, d);
}

void rope_part(const Rope *job, const Team *team) {
    const int64_t heads = job->heads + job->kv_heads;
    int64_t begin, end;
    share(job->rows * heads, team, &begin, &end);
    for (int64_t i = begin; i < end; i++) rope_head(job, i / heads, i % heads);
}

static void rope_body(void *job, const Team *team) { rope_part(job, team); }

EXPORT void rope(const Rope *job, int64_t num_threads) { in_parallel(rope_body, (void *)job, (int)num_threads); }

/* ---- SwiGLU ---- */

void swiglu_columns(const Swiglu *job, int64_t begin, int64_t end) {
    for (int64_t row = 0; row < job->rows; row++) {
        const float *gate = job->gate + row * job->pitch, *up = job->up + row * job->pitch;
        float *y = job->y + row * job->inner;
        for (int64_t i = begin; i < end; i += 8) {
            float gates[8] = {0}, ups[8] = {0};
            int64_t n = end - i < 8 ? end - i : 8;
            v8 g, u;
            if (n == 8) {
                g = load(gate + i), u = load(up + i);
            } else {
                memcpy(gates, gate + i, (size_t)n * sizeof *gates), g = load(gates);
                memcpy(ups, up + i, (size_t)n * sizeof *ups), u = load(ups);
            }
            v8 product = g / (set(1) + exp8(-g)) * u;
            if (n == 8)
                store(y + i, product);
            else
                memcpy(y + i, &product, (size_t)n * sizeof *y);
        }
    }
}

static void swiglu_body(void *pointer, const Team *team) {
    const Swiglu *job = pointer;
    int64_t begin, end;
    share((job->inner + 7) / 8, team, &begin, &end);
    swiglu_columns(job, 8 * begin, 8 * end < job->inner ? 8 * end : job->inner);
}

EXPORT void swiglu(const float *gate_up, float *y, int64_t rows, int64_t inner, int64_t num_threads) {
    Swiglu job = {gate_up, gate_up + inner, y, rows, inner, 2 * inner};
    in_parallel(swiglu_body, &job, (int)num_threads);
}
