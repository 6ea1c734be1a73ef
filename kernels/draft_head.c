/* One step of a drafting head in one parallel region: token and feature are joined, go through one layer, become logits.
 *
 * Knows an EAGLE head's inside; nothing of sequences or of who drafts.
 */
#include "native.h"

typedef struct {
    const Matrix *embedding, *fuse, *words;
    const float *token_norm, *feature_norm, *norm, *ones; /* (hidden,) */
    float eps;
} DraftHead;

typedef struct {
    const DraftHead *head;
    const Stack *stack;     /* one layer; its x is where the guesses come out */
    const int64_t *tokens;  /* (rows,), −1 for none */
    const float *felt;      /* (rows, hidden) */
    float *joined, *normed; /* room: (rows, 2 · hidden), (told, hidden) */
    float *logits;          /* (told, words): of the last `told` rows */
    int64_t told;
} DraftStep;

static void join_rows(const DraftStep *step, const Team *team) {
    const DraftHead *head = step->head;
    const int64_t hidden = head->embedding->in;
    int64_t begin, end;
    share(step->stack->rows, team, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        float *token = step->joined + row * 2 * hidden, *feature = token + hidden;
        if (step->tokens[row] < 0) {
            memset(token, 0, (size_t)hidden * sizeof *token);
        } else {
            embed_row(head->embedding, step->tokens[row], token);
            norm_row(token, head->ones, token, hidden, head->eps);
            norm_row(token, head->token_norm, token, hidden, head->eps);
        }
        norm_row(step->felt + row * hidden, head->feature_norm, feature, hidden, head->eps);
    }
}

static void draft_step_body(void *pointer, const Team *team) {
    const DraftStep *step = pointer;
    const DraftHead *head = step->head;
    const Stack *stack = step->stack;
    const int64_t hidden = head->embedding->in;
    join_rows(step, team);
    wait_for_all(team);
    Linear fuse = {head->fuse, stack->weights[0]->qkv, step->joined, 0, 0, stack->x, stack->rows};
    linear_part(&fuse, team);
    wait_for_all(team);
    layer_part(stack, 0, step->told ? head->words : 0, team);
    Norm norm = {stack->x + (stack->rows - step->told) * hidden, head->norm, step->normed, step->told, hidden, head->eps};
    norm_part(&norm, team);
    wait_for_all(team);
    Linear words = {head->words, 0, step->normed, 0, 0, step->logits, step->told};
    linear_part(&words, team);
}

EXPORT void draft_step(const DraftStep *step, int64_t num_threads) {
    in_parallel(draft_step_body, (void *)step, (int)num_threads);
}
