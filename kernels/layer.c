/* Transformer layers over rows, one after another, in one parallel region: the parts of the other files and barriers.
 *
 * Knows the Llama family's layer: RMSNorm, attention with rotary positions, RMSNorm, SwiGLU, two residual additions.
 */
#include "native.h"

typedef struct {
    const Matrix *qkv, *output, *gate, *up, *down;
    const float *attention_norm, *mlp_norm, *qkv_bias, *query_norm, *key_norm;
    int64_t hidden, inner, heads, kv_heads, d, window;
    float eps, scale;
} Weights;

typedef struct {
    Attention attention; /* what the rows see; the rest is filled in for each layer */
    const float *cos, *sin;
    const int32_t *slots;
} Place;

typedef struct {
    const Weights *const *weights; /* one of each of these four per layer */
    const Place *const *places;
    void *const *keys, *const *values;
    float *const *taps; /* per layer where to keep what comes out of it, (rows, hidden), or 0 */
    int64_t num_layers, rows, kind;
    float *x;                                                   /* (rows, hidden), in and out */
    float *normed, *qkv, *queries, *attended, *gate, *up, *inner; /* room for what lies between */
} Stack;

static void attend_part(const Stack *stack, int64_t index, const Team *team) {
    const Weights *w = stack->weights[index];
    const Place *place = stack->places[index];
    const float *q = stack->qkv, *k = q + w->heads * w->d, *v = k + w->kv_heads * w->d;
    const int64_t stride = (w->heads + 2 * w->kv_heads) * w->d;
    Rope rope = {q, k, v, place->cos, place->sin, w->query_norm, w->key_norm, stack->queries, stack->keys[index],
                 stack->values[index], place->slots, stack->rows, w->heads, w->kv_heads, w->d, stack->kind,
                 stride, stride, stride, w->eps};
    rope_part(&rope, team);
    wait_for_all(team);
    Attention see = place->attention;
    see.queries = stack->queries, see.out = stack->attended, see.keys = stack->keys[index];
    see.values = stack->values[index], see.kind = stack->kind, see.window = w->window, see.scale = w->scale;
    see.heads = w->heads, see.kv_heads = w->kv_heads, see.d = w->d;
    attention_part(&see, team);
    wait_for_all(team);
}

/* A thread makes the same columns of gate and up, so it can join them without waiting; inner is a multiple of 16. */
static void feed_part(const Stack *stack, int64_t index, const Team *team) {
    const Weights *w = stack->weights[index];
    int64_t begin, end;
    Linear gate = {w->gate, w->up, stack->normed, 0, 0, stack->gate, stack->rows};
    linear_part(&gate, team);
    Linear up = {w->up, w->down, stack->normed, 0, 0, stack->up, stack->rows};
    linear_part(&up, team);
    Swiglu swiglu = {stack->gate, stack->up, stack->inner, stack->rows, w->inner, w->inner};
    share(num_panels(w->gate), team, &begin, &end);
    swiglu_columns(&swiglu, begin * PANEL, end * PANEL);
}

/* following: the matrix that the rows meet afterwards, or 0. */
static void layer_part(const Stack *stack, int64_t index, const Matrix *following, const Team *team) {
    const Weights *w = stack->weights[index];
    const int64_t rows = stack->rows;
    Norm norm = {stack->x, w->attention_norm, stack->normed, rows, w->hidden, w->eps};
    norm_part(&norm, team);
    wait_for_all(team);
    Linear qkv = {w->qkv, w->output, stack->normed, w->qkv_bias, 0, stack->qkv, rows};
    linear_part(&qkv, team);
    wait_for_all(team);
    attend_part(stack, index, team);
    Linear output = {w->output, w->gate, stack->attended, 0, stack->x, stack->x, rows};
    linear_part(&output, team);
    wait_for_all(team);
    norm.weight = w->mlp_norm;
    norm_part(&norm, team);
    wait_for_all(team);
    feed_part(stack, index, team);
    wait_for_all(team);
    Linear down = {w->down, following, stack->inner, 0, stack->x, stack->x, rows};
    linear_part(&down, team);
    wait_for_all(team);
}

/* Nobody writes x before all have read it here: two barriers lie in between. */
static void tap_part(const Stack *stack, int64_t index, const Team *team) {
    const int64_t hidden = stack->weights[index]->hidden;
    int64_t begin, end;
    share(stack->rows * hidden, team, &begin, &end);
    memcpy(stack->taps[index] + begin, stack->x + begin, (size_t)(end - begin) * sizeof *stack->x);
}

static void layers_body(void *pointer, const Team *team) {
    const Stack *stack = pointer;
    for (int64_t i = 0; i < stack->num_layers; i++) {
        layer_part(stack, i, i + 1 < stack->num_layers ? stack->weights[i + 1]->qkv : 0, team);
        if (stack->taps[i]) tap_part(stack, i, team);
    }
}

EXPORT void layers(const Stack *stack, int64_t num_threads) {
    in_parallel(layers_body, (void *)stack, (int)num_threads);
}
