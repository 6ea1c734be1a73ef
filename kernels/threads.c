/* The thread team: PyTorch's own OpenMP threads, started through pointers that Python found in the process.
 *
 * Nothing here links to an OpenMP library, so that a second pool of threads can never come to life beside PyTorch's.
 * Without a runtime everything runs on the calling thread.
 */
#include "native.h"
#ifndef _WIN32
#include <sched.h>
#endif

#define SPINS 20000 /* looks at a barrier before a thread lets others run: about 0.1 ms */

static struct {
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    int (*thread)(void);
    int (*num_threads)(void);
} runtime;

typedef struct {
    Body body;
    void *arguments;
    Barrier barrier;
} Job;

EXPORT void use_runtime(void *parallel, void *thread, void *num_threads) {
    memcpy(&runtime.parallel, &parallel, sizeof parallel);
    memcpy(&runtime.thread, &thread, sizeof thread);
    memcpy(&runtime.num_threads, &num_threads, sizeof num_threads);
}

static void member(void *pointer) {
    Job *job = pointer;
    Team team = {runtime.thread(), runtime.num_threads(), &job->barrier};
    job->body(job->arguments, &team);
}

void in_parallel(Body body, void *arguments, int num_threads) {
    Job job = {body, arguments, {0, 0}};
    if (num_threads < 2 || !runtime.parallel) {
        Team alone = {0, 1, &job.barrier};
        body(arguments, &alone);
        return;
    }
    runtime.parallel(member, &job, (unsigned)num_threads, 0);
}

INLINE void pause_briefly(int spins) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
#ifndef _WIN32
    if (spins > SPINS) sched_yield();
#else
    (void)spins;
#endif
}

/* OpenMP's own barrier makes a system call each time; a layer has eight of them, half a millisecond in a pass. */
void wait_for_all(const Team *team) {
    Barrier *barrier = team->barrier;
    if (team->num_threads < 2) return;
    int num_passed = __atomic_load_n(&barrier->num_passed, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&barrier->num_arrived, 1, __ATOMIC_ACQ_REL) == team->num_threads) {
        __atomic_store_n(&barrier->num_arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&barrier->num_passed, num_passed + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int spins = 0; __atomic_load_n(&barrier->num_passed, __ATOMIC_ACQUIRE) == num_passed;) {
        pause_briefly(spins);
        if (spins <= SPINS) spins++;
    }
}
