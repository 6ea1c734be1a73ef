/* The thread team: PyTorch's own OpenMP runtime, called through pointers that Python found in the process.
 *
 * Nothing here links to an OpenMP library, so that a second pool of threads can never come to life beside PyTorch's.
 * Without a runtime everything runs on the calling thread.
 */
#include "native.h"

static struct {
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    void (*barrier)(void);
    int (*thread)(void);
    int (*num_threads)(void);
} runtime;

typedef struct {
    Body body;
    void *arguments;
} Job;

EXPORT void use_runtime(void *parallel, void *barrier, void *thread, void *num_threads) {
    memcpy(&runtime.parallel, &parallel, sizeof parallel);
    memcpy(&runtime.barrier, &barrier, sizeof barrier);
    memcpy(&runtime.thread, &thread, sizeof thread);
    memcpy(&runtime.num_threads, &num_threads, sizeof num_threads);
}

static void member(void *pointer) {
    Job *job = pointer;
    job->body(job->arguments, runtime.thread(), runtime.num_threads());
}

void in_parallel(Body body, void *arguments, int num_threads) {
    if (num_threads < 2 || !runtime.parallel) {
        body(arguments, 0, 1);
        return;
    }
    Job job = {body, arguments};
    runtime.parallel(member, &job, (unsigned)num_threads, 0);
}

void wait_for_all(int num_threads) {
    if (num_threads > 1) runtime.barrier();
}
