/*
 * Search for the worst multiset: what is asked, what is known, and what separation.c and complete.c share.
 *
 * A search takes one row A of one (nx, ny) after another while it stays in the cache. A column (all ny <= nx of one nx)
 * depends on nothing but its nx and the columns before it in its block, so blocks may be shared among threads in any way:
 * what is found does not depend on it.
 */

#ifndef SEARCH_H
#define SEARCH_H

#include "kernel.h"

enum { ALWAYS, UNTIL_A_CUT, NEVER, ONE_KIND }; /* Settle of result.py */

/* What depends on the constraint alone (library.py, `Tables`). */
typedef struct {
    whole K, affected;      /* voters, and how many of them may move */
    double x, y, Delta, q;  /* see corners.py; Delta = 0: four corners */
    whole stride;           /* entries of a row of `mass` */
    const double *mass;     /* Pr[Bin(a, Delta) = t] at [a * stride + t] */
    const whole *terms;     /* T of result.terms_of at M * Delta, by M = 0..affected */
    const double *tail;     /* what leaves the window of a local second difference, as a share of its maximum, by M */
    double most_mean;       /* MAX_EVALUATED_MEAN */
    whole most_entries;     /* MAX_TABLE_ENTRIES */
    whole most_passed;      /* MAX_PASSED_ENTRIES */
} Tables;

/* One search: what is asked, and what is found. */
typedef struct {
    const double *signed_values; /* g(0..K) */
    double fuzz;                 /* bound on the rounding of a row */
    double above, start, seconds; /* seconds: how long it may take; DBL_MAX: any time */
    whole width, first, stride;  /* rows with ny <= width; blocks of columns first, first + stride, ... */
    whole spacing;               /* of these, only the columns whose nx it divides; beyond 1 nothing is bounded */
    whole settle, most;
    const volatile int *stop;    /* not 0 once the search is to end at once; NULL: nobody says so */
    /* found */
    double value, left_out;
    whole counts[CORNERS];
    whole kept;          /* cuts in the heap */
    double *cut_values;  /* [most] */
    whole *cuts;         /* [most * CORNERS] */
} Search;

typedef struct {
    const Tables *tables;
    Search *search;
    double deadline;    /* by `now` */
    double value;       /* largest of this column, at least that of the start */
    int has_cut, has_reach; /* of this column */
    double *column, *row, *turned, *steepest, *bounds; /* K + 1 each */
    double *outer, *inner;                             /* K + 1 each: a row's blossoms as they pass (complete.c) */
    whole levels;               /* budgets of voters off their ends that are told apart: 0..r, or 1: any */
    double *high, *low, *best, *place; /* levels * (K + 1) each: of each budget, by N (complete.c) */
    double *above, *below;                             /* stride each */
    whole *open, *starts;                              /* K + 1 each */
    double *face_high, *face_low;                      /* high and low of the column's first row */
    int has_face;
    whole reach_row;                                   /* ny of the row whose own blossoms made high and low */
    int failed;
} State;

static inline int out_of_time(State *state) {
    if (!state->failed && is_over(state->deadline, state->search->stop)) state->failed = OUT_OF_TIME;
    return state->failed;
}

/* Multisets at or below this may be left out: `Collector.level`, with what this column has found. */
static inline double level_of(const State *state) {
    const Search *search = state->search;
    return search->most ? search->above : largest(search->above, state->value);
}

/* Whether what the sieves leave open is to be searched completely. */
static inline int goes_on(const State *state) {
    whole settle = state->search->settle;
    return settle == ALWAYS || (settle == UNTIL_A_CUT && !state->has_cut);
}

static inline void leave_out(State *state, double bound) {
    state->search->left_out = largest(state->search->left_out, bound);
}

/* Whether a value is of interest: the worst of its column, or a cut that the heap would take. That there is a cut is
 * noted here, as what the heap takes depends on the columns before. */
static inline int wanted(State *state, double value) {
    const Search *search = state->search;
    if (search->most && value > search->above) state->has_cut = 1;
    if (value > state->value) return 1;
    return search->most && value > search->above && (search->kept < search->most || value >= search->cut_values[0]);
}

/* Values by N of the voters off their ends within a budget; the whole array where budgets are not told apart. */
static inline double *within(const State *state, double *values, whole budget) {
    return state->levels > 1 ? values + budget * (state->tables->K + 1) : values;
}

/* Number of ways in which p and p' may share a budget, of those told apart. */
static inline whole splits_of(const State *state, whole moving) { return state->levels > 1 ? moving + 1 : 1; }

/* The largest and the least phi = q A[j] + A[n - j] of a row. */
LOOP void extremes(const double *restrict a, whole n, double q, double *restrict most, double *restrict least) {
    double high = -DBL_MAX, low = DBL_MAX;
    for (whole j = 0; j <= n; j++) {
        double value = q * a[j] + a[n - j];
        high = largest(high, value);
        low = smallest(low, value);
    }
    *most = high;
    *least = low;
}

static inline const double *mass_of(const Tables *tables, whole trials) { return tables->mass + trials * tables->stride; }

/* The multiset of a skeleton with some voters off their ends. */
static inline void fill(whole *counts, whole nx, whole ny, whole n0, whole n1, whole down, whole up_to_one,
                        whole down_from_one, whole up) {
    counts[ZERO] = n0 - up - down;
    counts[ONE] = n1 - up_to_one - down_from_one;
    counts[XY] = nx;
    counts[YX] = ny;
    counts[UP] = up;
    counts[DOWN] = down;
    counts[UP_TO_ONE] = up_to_one;
    counts[DOWN_FROM_ONE] = down_from_one;
}

/* separation.c */
void offer(State *state, double value, const whole *counts);

/* complete.c */
double reach_bound(const State *state, whole n, whole moving, int mirrored);
void step_reach(State *state, double *high, double *low, whole n, double t, double complement, whole moving);
void copy_reach(const State *state, double *high, double *low, const double *from_high, const double *from_low, whole n,
                whole moving);
void search_row(State *state, const double *A, whole n, whole nx, whole ny, whole moving, int mirrored);
void search_row_one_kind(State *state, const double *A, whole n, whole nx, whole ny, whole moving);
void search_skeleton(State *state, const double *A, whole n, whole n1, whole nx, whole ny, whole moving);

#endif
