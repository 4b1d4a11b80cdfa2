/*
 * Compiled kernel: inner loops of darrm_opt in C. Each computes the same as a NumPy module, which states the inequalities
 * and their proofs and runs where there is no library.
 *
 *   separation.c  the worst multiset, by sieves           design/separation/: pruned.py, first_order.py, binomials.py
 *   complete.c    the same where sieves do not suffice    design/separation/separable.py
 *   monotone.c    the same for a monotone gamma           design/separation/monotone.py
 *   arcs.c        the same for voters with a profile      design/separation/arcs.py
 *   rows.c        rows of the constraint                  design/polar_form.py
 *   bits.c        one step of the recursion on bits       accounting/bits/backward_step.py
 *
 * The rounding bounds rest on IEEE double arithmetic, rounded to nearest, one rounding for each written operation:
 *   -ffp-contract=off          no product is fused with a sum (each u of STEP_ERROR counts one of the two)
 *   no -ffast-math, no -Ofast  nothing is reordered or replaced by a reciprocal
 *   FLT_EVAL_METHOD == 0       no excess precision
 * -ffinite-math-only and -fno-signed-zeros only say that there are no NaN and no infinities (levels are clamped to
 * +-DBL_MAX by the caller) and that -0 is 0; they let a compiler vectorise maxima, which are exact in any order.
 */

#ifndef KERNEL_H
#define KERNEL_H

#define _POSIX_C_SOURCE 200809L
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "products and sums must be rounded to double one by one"
#endif
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
#error "-ffast-math, and what it consists of, voids the rounding bounds"
#endif

#ifdef KERNEL_CLONES /* one more copy of the inner loops, for processors with AVX2; the same operations, four at a time */
#define LOOP __attribute__((target_clones("avx2", "default"))) static
#else
#define LOOP static
#endif

#define EXPORT __attribute__((visibility("default"))) /* of all else, nothing is seen outside the library */

#define CORNERS 8
#define MAX_VERTICES 64 /* of the region of a voter: 8 for one (epsilon, Delta), more for a profile */
enum { ZERO, ONE, XY, YX, UP, DOWN, UP_TO_ONE, DOWN_FROM_ONE }; /* the order of corners.py */
enum { DONE, OUT_OF_TIME, OUT_OF_MEMORY };

typedef int64_t whole;

static inline double largest(double a, double b) { return a > b ? a : b; }
static inline double smallest(double a, double b) { return a < b ? a : b; }
static inline whole lesser(whole a, whole b) { return a < b ? a : b; }
static inline whole greater(whole a, whole b) { return a > b ? a : b; }

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline double deadline_in(double seconds) { return seconds < DBL_MAX ? now() + seconds : DBL_MAX; }

/* Whether a search is to end: its time is up, or its caller says so. */
static inline int is_over(double deadline, const volatile int *stop) {
    return (stop && *stop) || (deadline < DBL_MAX && now() > deadline);
}

/* One de Casteljau step in place: n + 1 coefficients become n. */
LOOP void step(double *restrict a, whole n, double t, double complement) {
    for (whole j = 0; j < n; j++) a[j] = complement * a[j] + t * a[j + 1];
}

#endif
