/* Over a whole row of logits: the largest, and the softmax. Rows are dealt to the threads. */
#include "native.h"

typedef struct {
    const float *logits; /* (rows, vocab) */
    float *y;
    int64_t *best;
    int64_t rows, vocab;
    float temperature;
} Vocabulary;

INLINE v8 load_some(const float *x, int64_t i, int64_t n) {
    if (i + 8 <= n) return load(x + i);
    v8 a = set(-INFINITY);
    memcpy(&a, x + i, (size_t)(n - i) * sizeof *x);
    return a;
}

/* The largest entry; NaN if there is one anywhere. */
static float largest_of(const float *x, int64_t n) {
    v8 best[4] = {set(-INFINITY), set(-INFINITY), set(-INFINITY), set(-INFINITY)};
    i8 is_nan = {0};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        UNROLL for (int j = 0; j < 4; j++) {
            v8 a = load(x + i + 8 * j);
            is_nan |= a != a;
            best[j] = max8(best[j], a);
        }
    for (; i < n; i += 8) {
        v8 a = load_some(x, i, n);
        is_nan |= a != a;
        best[0] = max8(best[0], a);
    }
    for (int lane = 0; lane < 8; lane++)
        if (is_nan[lane]) return NAN;
    return largest8(max8(max8(best[0], best[1]), max8(best[2], best[3])));
}

/* ---- argmax ---- */

static void argmax_body(void *pointer, const Team *team) {
    const Vocabulary *job = pointer;
    int64_t begin, end;
    share(job->rows, team, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        const float *x = job->logits + row * job->vocab;
        float best = largest_of(x, job->vocab);
        int64_t i = 0;
        if (isfinite(best))
            while (x[i] != best) i++;
        job->best[row] = isfinite(best) ? i : -1;
    }
}

EXPORT void argmax(const float *logits, int64_t *best, int64_t rows, int64_t vocab, int64_t num_threads) {
    Vocabulary job = {logits, 0, best, rows, vocab, 1};
    in_parallel(argmax_body, &job, rows > 1 ? (int)num_threads : 1);
}

/* ---- softmax ---- */

static void softmax_body(void *pointer, const Team *team) {
    const Vocabulary *job = pointer;
    int64_t begin, end;
    share(job->rows, team, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        const float *x = job->logits + row * job->vocab;
        float *y = job->y + row * job->vocab;
        const v8 temperature = set(job->temperature), largest = set(largest_of(x, job->vocab)) / temperature;
        double total = 0; /* of sums of 1,024 entries: neither order nor length costs accuracy */
        for (int64_t i = 0; i < job->vocab; i += 1024) {
            v8 sum = set(0);
            int64_t end = i + 1024 < job->vocab ? i + 1024 : job->vocab, j = i;
            for (; j + 8 <= end; j += 8) {
                v8 weight = exp8(load(x + j) / temperature - largest);
                sum = sum + weight;
                store(y + j, weight);
            }
            if (j < end) {
                v8 weight = exp8(load_some(x, j, job->vocab) / temperature - largest);
                sum = sum + weight;
                memcpy(y + j, &weight, (size_t)(end - j) * sizeof *y);
            }
            total += sum8(sum);
        }
        const float share_of_one = (float)(1 / total);
        int64_t i = 0;
        for (; i + 8 <= job->vocab; i += 8) store(y + i, load(y + i) * set(share_of_one));
        for (; i < job->vocab; i++) y[i] = y[i] * share_of_one;
    }
}

EXPORT void softmax(const float *logits, float *y, int64_t rows, int64_t vocab, float temperature, int64_t num_threads) {
    Vocabulary job = {logits, y, 0, rows, vocab, temperature};
    in_parallel(softmax_body, &job, rows > 1 ? (int)num_threads : 1);
}
