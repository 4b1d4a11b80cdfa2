/*
 * Separation kernel: the searches of darrm_opt/design/separation, and the rows of the constraint, compiled.
 *
 * The NumPy modules state each inequality and its proof (pruned.py, first_order.py, binomials.py, separable.py,
 * monotone.py); this file evaluates the same ones in the same doubles, one row A of one (nx, ny) after another while it
 * stays in the cache. A column (all ny <= nx of one nx) depends on nothing but its nx, so columns may be shared among
 * threads in any way: what is found does not depend on it.
 *
 * The rounding bounds rest on IEEE double arithmetic, rounded to nearest, one rounding for each written operation:
 *   -ffp-contract=off          no product is fused with a sum (each u of STEP_ERROR counts one of the two)
 *   no -ffast-math, no -Ofast  nothing is reordered or replaced by a reciprocal
 *   FLT_EVAL_METHOD == 0       no excess precision
 * -ffinite-math-only and -fno-signed-zeros only say that there are no NaN and no infinities (levels are clamped to
 * +-DBL_MAX by the caller) and that -0 is 0; they let a compiler vectorise maxima, which are exact in any order.
 */

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

#ifndef SOURCE_CHECKSUM
#error "the checksum of this file tells library.py whether a library is stale: hatch_build.py states it"
#endif

#define CORNERS 8
enum { ZERO, ONE, XY, YX, UP, DOWN, UP_TO_ONE, DOWN_FROM_ONE }; /* the order of corners.py */
enum { DONE, OUT_OF_TIME, OUT_OF_MEMORY };
enum { ALWAYS, UNTIL_A_CUT, NEVER }; /* Settle of pruned.py */

#define MOST_SIEVED_MEAN 2.0   /* with more voters off their ends a row's blossoms cost no more than its sieves */
#define ROWS_BETWEEN_BOUNDS 8 /* rows of a column between two computations of max|D| and max|second difference| */

typedef int64_t whole;

static inline double largest(double a, double b) { return a > b ? a : b; }
static inline double smallest(double a, double b) { return a < b ? a : b; }
static inline whole lesser(whole a, whole b) { return a < b ? a : b; }
static inline whole greater(whole a, whole b) { return a > b ? a : b; }

uint32_t source_checksum(void) { return SOURCE_CHECKSUM; }

/* ------------------------------------------------------------------------------------------------- tables and search */

/* What depends on the constraint alone (library.py, `Tables`). */
typedef struct {
    whole K, affected;      /* voters, and how many of them may move */
    double x, y, Delta, q;  /* see corners.py; Delta = 0: four corners */
    whole stride;           /* entries of a row of `mass` */
    const double *mass;     /* Pr[Bin(a, Delta) = t] at [a * stride + t] */
    const whole *terms;     /* T of binomials.terms_of at M * Delta, by M = 0..affected */
    const double *tail;     /* what leaves the window of a local second difference, as a share of its maximum, by M */
    double most_mean;       /* MAX_EVALUATED_MEAN */
    whole most_entries;     /* MAX_TABLE_ENTRIES */
} Tables;

/* One search: what is asked, and what is found. */
typedef struct {
    const double *signed_values; /* g(0..K) */
    double fuzz;                 /* bound on the rounding of a row */
    double above, start, seconds; /* seconds: how long it may take; DBL_MAX: any time */
    whole width, first, stride;  /* rows with ny <= width; columns nx = first, first + stride, ... */
    whole settle, most;
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
    double *column, *row, *turned, *steepest, *bounds, *high, *low; /* K + 1 each */
    double *above, *below;                             /* stride each */
    whole *open, *starts;                              /* K + 1 each */
    double *table, *crossed;                           /* blossoms of a row */
    whole table_room;
    int failed;
} State;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double deadline_in(double seconds) { return seconds < DBL_MAX ? now() + seconds : DBL_MAX; }

static int out_of_time(State *state) {
    if (!state->failed && state->deadline < DBL_MAX && now() > state->deadline) state->failed = OUT_OF_TIME;
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

/* The total order of finds: a larger value first, then the smaller counts. Nothing rests on the order of discovery. */
static int comes_first(double a, const whole *a_counts, double b, const whole *b_counts) {
    if (a != b) return a > b;
    for (int k = 0; k < CORNERS; k++)
        if (a_counts[k] != b_counts[k]) return a_counts[k] < b_counts[k];
    return 0;
}

static void copy_cut(Search *search, whole to, double value, const whole *counts) {
    search->cut_values[to] = value;
    memcpy(search->cuts + to * CORNERS, counts, CORNERS * sizeof(whole));
}

/* The heap keeps the first `most` cuts in that order, the last of them on top. */
static void keep_cut(Search *search, double value, const whole *counts) {
    double *values = search->cut_values;
    whole *cuts = search->cuts, at;
    if (search->kept < search->most) {
        for (at = search->kept++; at > 0; at = (at - 1) / 2) {
            whole up = (at - 1) / 2;
            if (!comes_first(values[up], cuts + up * CORNERS, value, counts)) break;
            copy_cut(search, at, values[up], cuts + up * CORNERS);
        }
        copy_cut(search, at, value, counts);
        return;
    }
    if (!comes_first(value, counts, values[0], cuts)) return;
    for (at = 0;;) {
        whole down = 2 * at + 1;
        if (down >= search->kept) break;
        if (down + 1 < search->kept
            && comes_first(values[down], cuts + down * CORNERS, values[down + 1], cuts + (down + 1) * CORNERS))
            down++;
        if (comes_first(values[down], cuts + down * CORNERS, value, counts)) break;
        copy_cut(search, at, values[down], cuts + down * CORNERS);
        at = down;
    }
    copy_cut(search, at, value, counts);
}

static void offer_value(State *state, double value, const whole *counts) {
    Search *search = state->search;
    state->value = largest(state->value, value);
    if (comes_first(value, counts, search->value, search->counts)) {
        search->value = value;
        memcpy(search->counts, counts, sizeof search->counts);
    }
}

static void offer(State *state, double value, const whole *counts) {
    Search *search = state->search;
    offer_value(state, value, counts);
    if (search->most && value > search->above) keep_cut(search, value, counts);
}

/* Whether a value is of interest: the worst of its column, or a cut that the heap would take. That there is a cut is
 * noted here, as what the heap takes depends on the columns before. */
static inline int wanted(State *state, double value) {
    const Search *search = state->search;
    if (search->most && value > search->above) state->has_cut = 1;
    if (value > state->value) return 1;
    return search->most && value > search->above && (search->kept < search->most || value >= search->cut_values[0]);
}

/* ------------------------------------------------------------------------------------------------------- inner loops */

/* One de Casteljau step in place: n + 1 coefficients become n. */
LOOP void step(double *restrict a, whole n, double t, double complement) {
    for (whole j = 0; j < n; j++) a[j] = complement * a[j] + t * a[j + 1];
}

LOOP void step_to(double *restrict to, const double *restrict a, whole n, double t, double complement) {
    for (whole j = 0; j < n; j++) to[j] = complement * a[j] + t * a[j + 1];
}

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

/* max|D| and max|second difference| of a row, as computed. */
LOOP void differences(const double *restrict a, whole n, double *restrict slope, double *restrict bend) {
    double first = 0.0, second = 0.0;
    for (whole j = 0; j < n; j++) first = largest(first, fabs(a[j + 1] - a[j]));
    for (whole j = 0; j + 1 < n; j++) second = largest(second, fabs((a[j + 2] - a[j + 1]) - (a[j + 1] - a[j])));
    *slope = first;
    *bend = second;
}

/* Sieve 2 with every voter on the steepest kind of both ends, for each n1; returns the largest bound. */
LOOP double steepest_kind(const double *restrict a, whole n, double q, double mean, double *restrict steep,
                          double *restrict bounds) {
    steep[0] = n ? largest(0.0, a[1] - a[0]) : 0.0;
    for (whole j = 1; j < n; j++) steep[j] = largest(largest(0.0, a[j + 1] - a[j]), a[j - 1] - a[j]);
    if (n) steep[n] = largest(0.0, a[n - 1] - a[n]);
    double high = -DBL_MAX;
    for (whole j = 0; j <= n; j++) {
        bounds[j] = (q * a[j] + a[n - j]) + mean * largest(q * steep[j], steep[n - j]);
        high = largest(high, bounds[j]);
    }
    return high;
}

LOOP void minimum_into(double *restrict to, const double *restrict a, whole many) {
    for (whole j = 0; j < many; j++) to[j] = smallest(to[j], a[j]);
}

static void turn(double *a, whole n) {
    for (whole j = 0; 2 * j <= n; j++) {
        double swap = -a[j];
        a[j] = -a[n - j];
        a[n - j] = swap;
    }
}

LOOP void reflect(double *restrict to, const double *restrict a, whole n) {
    for (whole j = 0; j <= n; j++) to[j] = -a[n - j];
}

LOOP void maximum_into(double *restrict to, const double *restrict a, whole many) {
    for (whole j = 0; j < many; j++) to[j] = largest(to[j], a[j]);
}

/* best[j] = max(best[j], q own[j] + other[j]) */
LOOP void join_into(double *restrict best, const double *restrict own, const double *restrict other, whole many, double q) {
    for (whole j = 0; j < many; j++) best[j] = largest(best[j], q * own[j] + other[j]);
}

/* ------------------------------------------------------------------------------------------- means over the binomials */

static inline const double *mass_of(const Tables *tables, whole trials) { return tables->mass + trials * tables->stride; }

/* E[A(N + Bin(plus, Delta) - Bin(minus, Delta))]: `binomials.expected`. */
static double expected(const Tables *tables, const double *A, whole N, whole plus, whole minus, whole terms) {
    const double *up = mass_of(tables, plus), *down = mass_of(tables, minus);
    whole most = lesser(terms, plus), least = lesser(terms, minus);
    double mean = 0.0;
    for (whole t = 0; t <= most; t++) {
        double inner = 0.0;
        for (whole u = 0; u <= least; u++) inner += down[u] * A[N + t - u];
        mean += up[t] * inner;
    }
    return mean;
}

/*
 * A bound on that mean over all a <= plus, a' <= minus: `binomials.bound_by_extremes`, E max(above[X], below[Y]) with both
 * non-decreasing, in O(T): a pair counts at the larger of its two, weighed by the other's chance to be no larger.
 */
static double bound_by_extremes(State *state, const double *A, whole n, whole N, whole plus, whole minus, whole terms) {
    const double *up = mass_of(state->tables, plus), *down = mass_of(state->tables, minus);
    whole most = lesser(terms, plus), least = lesser(terms, minus);
    double *above = state->above, *below = state->below, mean = 0.0, chance = 0.0;
    above[0] = below[0] = A[N];
    for (whole t = 1; t <= most; t++) above[t] = largest(above[t - 1], A[lesser(N + t, n)]);
    for (whole u = 1; u <= least; u++) below[u] = largest(below[u - 1], A[greater(N - u, 0)]);
    for (whole t = 0, u = 0; t <= most; t++) {
        while (u <= least && below[u] <= above[t]) chance += down[u++];
        mean += up[t] * (chance * above[t]);
    }
    chance = 0.0;
    for (whole u = 0, t = 0; u <= least; u++) {
        while (t <= most && above[t] < below[u]) chance += up[t++];
        mean += down[u] * (chance * below[u]);
    }
    return mean;
}

/* `pruned._local_bend` before the tail: max|second difference| near N. */
static double bend_near(const double *A, whole n, whole N, whole window) {
    double bend = 0.0;
    for (whole j = greater(0, N - window - 2); j <= lesser(n - 2, N + window + 1); j++)
        bend = largest(bend, fabs((A[j + 2] - A[j + 1]) - (A[j + 1] - A[j])));
    return bend;
}

/* ----------------------------------------------------------------------------------------------------- complete search */

/* The multiset of a skeleton with some voters off their ends. */
static void fill(whole *counts, whole nx, whole ny, whole n0, whole n1, whole down, whole up_to_one, whole down_from_one,
                 whole up) {
    counts[ZERO] = n0 - up - down;
    counts[ONE] = n1 - up_to_one - down_from_one;
    counts[XY] = nx;
    counts[YX] = ny;
    counts[UP] = up;
    counts[DOWN] = down;
    counts[UP_TO_ONE] = up_to_one;
    counts[DOWN_FROM_ONE] = down_from_one;
}

static void running_maximum(double *table, whole rows, whole columns) {
    for (whole a = 0; a < rows; a++) {
        double *row = table + a * columns;
        for (whole b = 1; b < columns; b++) row[b] = largest(row[b], row[b - 1]);
        if (a) maximum_into(row, row - columns, columns);
    }
}

static void within_budget(double *to, const double *table, whole rows, whole columns, whole budget) {
    for (whole a = 0; a < rows; a++)
        for (whole b = 0; b < columns; b++)
            to[a * columns + b] = a + b <= budget ? table[a * columns + b] : -DBL_MAX;
    running_maximum(to, rows, columns);
}

/* The (a, a') within a box and a budget that attains the table's maximum there. */
static void argmax_within(const double *table, whole columns, whole A, whole A1, whole budget, whole *a, whole *a1) {
    double best = -DBL_MAX;
    *a = *a1 = 0;
    for (whole i = 0; i <= A; i++)
        for (whole k = 0; k <= A1 && i + k <= budget; k++)
            if (table[i * columns + k] > best) best = table[i * columns + k], *a = i, *a1 = k;
}

/*
 * Offer the worst multiset of one skeleton: `separable.offer_worst_of_skeleton`.
 * mine: U_n1(a, a'), (m0 + 1) x (m1 + 1); theirs: U_n0(b', b), (m1 + 1) x (m0 + 1); m = least of n and M.
 */
static void join_skeleton(State *state, const double *mine, const double *theirs, whole nx, whole ny, whole n0, whole n1,
                          whole moving) {
    whole m0 = lesser(n0, moving), m1 = lesser(n1, moving), many = (m0 + 1) * (m1 + 1);
    double *own = malloc(2 * (size_t)many * sizeof(double)), *other = own + many, q = state->tables->q;
    if (!own) {
        state->failed = OUT_OF_MEMORY;
        return;
    }
    double best = -DBL_MAX;
    whole best_A = 0, best_A1 = 0, best_used = 0;
    int bound = moving < n0 + n1; /* whether the budget binds: then it is split in every way */
    for (whole used = bound ? 0 : moving; used <= moving; used++) {
        within_budget(own, mine, m0 + 1, m1 + 1, used);
        within_budget(other, theirs, m1 + 1, m0 + 1, bound ? moving - used : moving);
        for (whole A = 0; A <= m0; A++)
            for (whole A1 = 0; A1 <= m1; A1++) {
                double value = q * own[A * (m1 + 1) + A1]
                               + other[lesser(n1 - A1, m1) * (m0 + 1) + lesser(n0 - A, m0)];
                if (value > best) best = value, best_A = A, best_A1 = A1, best_used = used;
            }
        if (out_of_time(state)) break;
    }
    if (!state->failed && wanted(state, best)) {
        whole a, a1, b, b1, counts[CORNERS], left = bound ? moving - best_used : moving;
        argmax_within(mine, m1 + 1, best_A, best_A1, best_used, &a, &a1);
        argmax_within(theirs, m0 + 1, lesser(n1 - best_A1, m1), lesser(n0 - best_A, m0), left, &b1, &b);
        fill(counts, nx, ny, n0, n1, a, a1, b1, b);
        offer(state, best, counts);
    }
    free(own);
}

/* U_N(a, a') for all a <= m, a' <= m1 as a table, by binomial masses on both sides of the values near N: `expected_all`. */
static void skeleton_table(State *state, double *to, const double *A, whole n, whole N, whole m, whole m1, whole terms) {
    const Tables *tables = state->tables;
    double *inner = state->above; /* E A(N + t - Bin(a', Delta)) for each t */
    for (whole a1 = 0; a1 <= m1; a1++) {
        const double *down = mass_of(tables, a1);
        whole most = lesser(terms, m), least = lesser(terms, a1);
        for (whole t = 0; t <= most; t++) {
            inner[t] = 0.0;
            for (whole u = 0; u <= least; u++) inner[t] += down[u] * A[lesser(greater(N + t - u, 0), n)];
        }
        for (whole a = 0; a <= m; a++) {
            const double *up = mass_of(tables, a);
            double mean = 0.0;
            for (whole t = 0; t <= lesser(terms, a); t++) mean += up[t] * inner[t];
            to[a * (m1 + 1) + a1] = mean;
        }
    }
}

/* Search one skeleton completely: `pruned._search_skeleton`. */
static void search_skeleton(State *state, const double *A, whole n, whole n1, whole nx, whole ny, whole moving) {
    whole n0 = n - n1, m0 = lesser(n0, moving), m1 = lesser(n1, moving), many = (m0 + 1) * (m1 + 1);
    whole terms = lesser(state->tables->terms[moving], moving);
    double *mine = malloc(2 * (size_t)many * sizeof(double)), *theirs = mine + many;
    if (!mine) {
        state->failed = OUT_OF_MEMORY;
        return;
    }
    skeleton_table(state, mine, A, n, n1, m0, m1, terms);
    skeleton_table(state, theirs, A, n, n0, m1, m0, terms);
    join_skeleton(state, mine, theirs, nx, ny, n0, n1, moving);
    free(mine);
}

/*
 * The blossoms of a whole row, one run of n - a - a' + 1 entries for each (a, a') with a + a' <= moving: entry j is
 * U_N(a, a') at N = a' + j (a voters at Delta, a' at 1 - Delta, j at 1). `separable._near_end_table`.
 */
static inline double *run_of(const State *state, whole n, whole a, whole a1) {
    return state->table + state->starts[a] + a1 * (n - a + 1) - a1 * (a1 - 1) / 2;
}

static int row_table(State *state, const double *A, whole n, whole moving) {
    double Delta = state->tables->Delta;
    whole entries = 0;
    for (whole a = 0; a <= moving; a++) { /* runs of n - a + 1, n - a, ... entries */
        whole runs = moving - a + 1;
        state->starts[a] = entries;
        entries += runs * (n - a + 1) - runs * (runs - 1) / 2;
    }
    if (entries > state->table_room) {
        free(state->table);
        free(state->crossed);
        state->table = malloc((size_t)entries * sizeof(double));
        state->crossed = malloc((size_t)entries * sizeof(double));
        state->table_room = state->table && state->crossed ? entries : 0;
        if (!state->table_room) return state->failed = OUT_OF_MEMORY;
    }
    for (whole a = 0; a <= moving; a++) {
        if (a)
            step_to(run_of(state, n, a, 0), run_of(state, n, a - 1, 0), n - a + 1, Delta, 1.0 - Delta);
        else
            memcpy(state->table, A, (size_t)(n + 1) * sizeof(double));
        for (whole a1 = 1; a1 <= moving - a; a1++)
            step_to(run_of(state, n, a, a1), run_of(state, n, a, a1 - 1), n - a - a1 + 1, 1.0 - Delta, Delta);
    }
    return DONE;
}

/* Of the runs with a + a' = w, entry A of each: [w][A][a], where a block w has n - w + 1 rows of w + 1. */
static inline double *crossed_of(const State *state, whole n, whole w, whole A) {
    return state->crossed + (w * (w + 1) / 2 * (n + 1) - (w - 1) * w * (w + 1) / 3) + A * (w + 1);
}

/*
 * Reach of a row: the largest and the least U_N(a, a') for each N. With each side at its largest, whatever the other
 * does, phi <= q high[n1] + high[n0] on a whole skeleton. Every U of the next row of a column is x U_N + y U_N+1 of this
 * one, so one step of both bounds them there, at the rounding of one step of each entry.
 */
static void note_reach(State *state, whole n, int mirrored) {
    double *high = mirrored ? state->low : state->high, *low = mirrored ? state->high : state->low;
    for (whole N = 0; N <= n; N++) high[N] = -DBL_MAX, low[N] = DBL_MAX;
    for (whole a = 0; a <= n; a++)
        for (whole a1 = 0; a1 <= n - a; a1++) {
            maximum_into(high + a1, run_of(state, n, a, a1), n - a - a1 + 1);
            minimum_into(low + a1, run_of(state, n, a, a1), n - a - a1 + 1);
        }
    if (mirrored) { /* U_N(a, a') of the mirrored row is -U_n-N(a', a) */
        turn(state->high, n);
        turn(state->low, n);
    }
    state->has_reach = 1;
}

static double reach_bound(const State *state, whole n, int mirrored) {
    double most, least;
    extremes(mirrored ? state->low : state->high, n, state->tables->q, &most, &least);
    return mirrored ? -least : most;
}

/*
 * Search every skeleton of a row where everybody may move (M = n): `separable.search_separable`.
 *
 * With V(a, a')[j] the running maximum of U over both numbers, a skeleton's value at (A, A') is
 * q V(A, A')[n1 - A'] + V(n1 - A', n0 - A)[A]. The second lies on the run (b, n - A - A' - b) for b = n1 - A', at entry A:
 * `crossed` holds those entries, [w = n - A - A'][A][b], so that both are read in order, for all n1 at once.
 */
static void search_free_row(State *state, const double *A, whole n, whole nx, whole ny, int mirrored) {
    double q = state->tables->q, *best = state->bounds;
    if (row_table(state, A, n, n)) return;
    note_reach(state, n, mirrored);
    double bound = reach_bound(state, n, mirrored);
    if (bound <= level_of(state)) {
        leave_out(state, bound);
        return;
    }
    for (whole a = 0; a <= n; a++)
        for (whole a1 = 0; a1 <= n - a; a1++) {
            double *run = run_of(state, n, a, a1);
            whole many = n - a - a1 + 1, w = a + a1;
            if (a) maximum_into(run, run_of(state, n, a - 1, a1), many);       /* the same N: entry j */
            if (a1) maximum_into(run, run_of(state, n, a, a1 - 1) + 1, many);  /* one less at 1 - Delta */
            double *to = crossed_of(state, n, w, 0) + a;
            for (whole j = 0; j < many; j++) to[j * (w + 1)] = run[j];
        }
    for (whole j = 0; j <= n; j++) best[j] = -DBL_MAX;
    for (whole a = 0; a <= n; a++)
        for (whole a1 = 0; a1 <= n - a; a1++) {
            whole w = n - a - a1;
            join_into(best + a1, run_of(state, n, a, a1), crossed_of(state, n, w, a), w + 1, q);
        }
    for (whole n1 = 0; n1 <= n; n1++) {
        if (!wanted(state, best[n1])) continue;
        whole n0 = n - n1, best_A = 0, best_A1 = 0, counts[CORNERS];
        for (whole a = 0; a <= n0; a++)
            for (whole a1 = 0; a1 <= n1; a1++) {
                whole w = n - a - a1;
                if (q * run_of(state, n, a, a1)[n1 - a1] + crossed_of(state, n, w, a)[n1 - a1] == best[n1]) {
                    best_A = a, best_A1 = a1;
                    a = n0; /* found */
                    break;
                }
            }
        /* a running maximum does not say where it lies: walk down while the value stays the same */
        whole a = best_A, a1 = best_A1, b1 = n1 - best_A1, b = n0 - best_A;
        for (int going = 1; going;) {
            double here = run_of(state, n, a, a1)[n1 - a1];
            if (a && run_of(state, n, a - 1, a1)[n1 - a1] == here) a--;
            else if (a1 && run_of(state, n, a, a1 - 1)[n1 - a1 + 1] == here) a1--;
            else going = 0;
        }
        for (int going = 1; going;) {
            double here = run_of(state, n, b1, b)[n0 - b];
            if (b1 && run_of(state, n, b1 - 1, b)[n0 - b] == here) b1--;
            else if (b && run_of(state, n, b1, b - 1)[n0 - b + 1] == here) b--;
            else going = 0;
        }
        fill(counts, nx, ny, n0, n1, a, a1, b1, b);
        offer(state, best[n1], counts);
    }
}

/* Search every skeleton of a row where only some near-end voters may move (M < n). */
static void search_bound_row(State *state, const double *A, whole n, whole nx, whole ny, whole moving) {
    if (row_table(state, A, n, moving)) return;
    double *mine = malloc(2 * (size_t)((moving + 1) * (moving + 1)) * sizeof(double));
    if (!mine) {
        state->failed = OUT_OF_MEMORY;
        return;
    }
    for (whole n1 = 0; n1 <= n && !out_of_time(state); n1++) {
        whole n0 = n - n1, m0 = lesser(n0, moving), m1 = lesser(n1, moving);
        double *theirs = mine + (m0 + 1) * (m1 + 1);
        for (whole a = 0; a <= m0; a++)
            for (whole a1 = 0; a1 <= m1; a1++) {
                int known = a + a1 <= moving;
                mine[a * (m1 + 1) + a1] = known ? run_of(state, n, a, a1)[n1 - a1] : -DBL_MAX;
                theirs[a1 * (m0 + 1) + a] = known ? run_of(state, n, a1, a)[n0 - a] : -DBL_MAX;
            }
        join_skeleton(state, mine, theirs, nx, ny, n0, n1, moving);
    }
    free(mine);
}

static void search_row(State *state, const double *A, whole n, whole nx, whole ny, whole moving, int mirrored) {
    if (moving >= n)
        search_free_row(state, A, n, nx, ny, mirrored);
    else
        search_bound_row(state, A, n, nx, ny, moving);
}

/* ------------------------------------------------------------------------------------------------------------- sieves */

/* `first_order._pick`: the kind (0 none, 1, 2), its lower slope, the best rival's upper slope. */
static int pick(double one, double one_e, double two, double two_e, double *low, double *rival) {
    double high1 = one + one_e, high2 = two + two_e;
    if (one <= 0 && two <= 0) {
        *low = 0.0;
        *rival = largest(high1, high2);
        return 0;
    }
    if (one >= two) {
        *low = one - one_e;
        *rival = largest(high2, 0.0);
        return 1;
    }
    *low = two - two_e;
    *rival = largest(high1, 0.0);
    return 2;
}

typedef struct {
    double down, up, up_to_one, down_from_one;
} Slopes;

static Slopes slopes_at(const double *A, whole n, whole n1, double q) {
    whole n0 = n - n1;
    Slopes slopes = {q * (A[lesser(n1 + 1, n)] - A[n1]), A[greater(n0 - 1, 0)] - A[n0],
                     q * (A[greater(n1 - 1, 0)] - A[n1]), A[lesser(n0 + 1, n)] - A[n0]};
    return slopes;
}

/* `Skeletons.fill`: as many voters as possible at the end named first, the rest of the budget at the other. */
static void split_budget(whole n0, whole n1, whole moving, int zero_first, whole *t0, whole *t1) {
    whole most0 = lesser(n0, moving), most1 = lesser(n1, moving);
    *t0 = zero_first ? most0 : lesser(n0, moving - most1);
    *t1 = zero_first ? lesser(n1, moving - most0) : most1;
}

/* Sieves 2 to 4 for one skeleton that passed the coarse one; returns whether it is left open. */
static int is_open(State *state, const double *A, whole n, whole n1, whole nx, whole ny, whole moving, double bend) {
    const Tables *tables = state->tables;
    whole n0 = n - n1, terms = lesser(tables->terms[moving], moving), t0, t1;
    double q = tables->q, Delta = tables->Delta, fuzz = state->search->fuzz, mean = (double)moving * Delta;
    Slopes slopes = slopes_at(A, n, n1, q);
    double down = slopes.down, up = slopes.up, up_to_one = slopes.up_to_one, down_from_one = slopes.down_from_one;

    /* 2, first order: the gain, and the second differences' share */
    double zero = largest(largest(down, up), 0.0), one = largest(largest(up_to_one, down_from_one), 0.0);
    split_budget(n0, n1, moving, zero >= one, &t0, &t1);
    double at_ends = q * A[n1] + A[n0], gain = zero * (double)t0 + one * (double)t1;
    double bound = at_ends + Delta * (gain + 2 * fuzz * (double)moving) + 0.5 * (mean * mean) * bend;
    if (bound <= level_of(state)) return leave_out(state, bound), 0;

    /* 3, farthest */
    whole m0 = lesser(n0, moving), m1 = lesser(n1, moving);
    bound = q * bound_by_extremes(state, A, n, n1, m0, m1, terms);
    bound += bound_by_extremes(state, A, n, n0, m1, m0, terms);
    if (bound <= level_of(state)) return leave_out(state, bound), 0;

    /* 4, one kind an end: evaluated, and ``overlap`` bounds what another choice could gain (`first_order_choice`) */
    whole window = tables->terms[moving] + 1;
    double near = largest(bend_near(A, n, n1, window), bend_near(A, n, n0, window));
    double e = mean * (near + tables->tail[moving] * bend + 4 * fuzz) + 2 * fuzz, low0, low1, rival0, rival1;
    int kind0 = pick(down, q * e, up, e, &low0, &rival0), kind1 = pick(up_to_one, q * e, down_from_one, e, &low1, &rival1);
    int zero_first = largest(down, up) >= largest(up_to_one, down_from_one);
    split_budget(n0, n1, moving, zero_first, &t0, &t1);
    double overlap = (double)m0 * largest(rival0 - low0, 0.0) + (double)m1 * largest(rival1 - low1, 0.0);
    if (kind0 && kind1 && n > moving) {
        double high0 = largest(down + q * e, up + e), high1 = largest(up_to_one + q * e, down_from_one + e);
        overlap += (double)moving * largest(zero_first ? high1 - low0 : high0 - low1, 0.0);
    }
    whole counts[CORNERS];
    fill(counts, nx, ny, n0, n1, kind0 == 1 ? t0 : 0, kind1 == 1 ? t1 : 0, kind1 == 2 ? t1 : 0, kind0 == 2 ? t0 : 0);
    double value = q * expected(tables, A, n1, counts[DOWN], counts[UP_TO_ONE], terms);
    value += expected(tables, A, n0, counts[DOWN_FROM_ONE], counts[UP], terms);
    if (wanted(state, value)) offer(state, value, counts);
    if (overlap <= 0) return 0;
    bound = value + Delta * overlap;
    if (bound > level_of(state) && goes_on(state)) return 1;
    leave_out(state, bound);
    return 0;
}

/* A row that passed sieve 1 (phi <= ``bound`` on all of it). */
static void sieve_row(State *state, const double *A, whole n, whole nx, whole ny, double bound, double bend, int mirrored) {
    const Tables *tables = state->tables;
    Search *search = state->search;
    whole moving = tables->affected - nx - ny, left = 0;
    double mean = (double)moving * tables->Delta, slack;
    int affordable = (n + 1) * (moving + 1) * (moving + 1) <= tables->most_entries;
    if (state->has_reach) {
        double reached = reach_bound(state, n, mirrored);
        if (reached <= level_of(state)) {
            leave_out(state, reached);
            return;
        }
    }
    if (mean > tables->most_mean && !affordable) {
        leave_out(state, bound);
        return;
    }
    if (mean > tables->most_mean || (mean > MOST_SIEVED_MEAN && affordable && moving >= n && goes_on(state))) {
        search_row(state, A, n, nx, ny, moving, mirrored);
        return;
    }
    slack = 0.5 * (mean * mean) * bend + 2 * mean * search->fuzz;
    double most = steepest_kind(A, n, tables->q, mean, state->steepest, state->bounds);
    if (most + slack <= level_of(state)) {
        leave_out(state, most + slack);
        return;
    }
    for (whole n1 = 0; n1 <= n; n1++) {
        if (state->bounds[n1] + slack <= level_of(state)) leave_out(state, state->bounds[n1] + slack);
        else if (is_open(state, A, n, n1, nx, ny, moving, bend)) state->open[left++] = n1;
    }
    /* whole rows at once cost less than many skeletons one by one */
    whole terms = lesser(tables->terms[moving], moving);
    if (affordable && left > 0 && left * (terms + 2) > 2 * n) {
        search_row(state, A, n, nx, ny, moving, mirrored);
        return;
    }
    for (whole k = 0; k < left && !out_of_time(state); k++) search_skeleton(state, A, n, state->open[k], nx, ny, moving);
}

/* ---------------------------------------------------------------------------------------------------------- the sweep */

/* Offer the worst of a row whose near-end voters all stay at their ends. */
static void offer_at_ends(State *state, const double *A, whole n, whole nx, whole ny, double best, int as_cut) {
    double q = state->tables->q;
    whole n1 = 0, counts[CORNERS];
    while (n1 < n && q * A[n1] + A[n - n1] != best) n1++;
    fill(counts, nx, ny, n - n1, n1, 0, 0, 0, 0);
    (as_cut ? offer : offer_value)(state, best, counts);
}

static void search_column(State *state, whole nx) {
    const Tables *tables = state->tables;
    whole K = tables->K, r = tables->affected, last = lesser(lesser(nx, r - nx), state->search->width);
    double *A = state->row, most, least, slope = 0.0, bend = 0.0, fuzz = state->search->fuzz;
    state->value = state->search->start;
    state->has_cut = state->has_reach = 0;
    memcpy(A, state->column, (size_t)(K - nx + 1) * sizeof(double));
    for (whole ny = 0; ny <= last; ny++) {
        whole n = K - nx - ny;
        if (ny) step(A, n + 1, tables->y, tables->x);
        if (state->has_reach) {
            step(state->high, n + 1, tables->y, tables->x);
            step(state->low, n + 1, tables->y, tables->x);
        }
        extremes(A, n, tables->q, &most, &least);
        if (tables->Delta > 0 && ny % ROWS_BETWEEN_BOUNDS == 0) { /* neither grows along a column: between, the last ones hold */
            differences(A, n, &slope, &bend);
            slope += 2 * fuzz;
            bend += 4 * fuzz;
        }
        double gain = tables->Delta * (double)(r - nx - ny) * slope;
        for (int mirrored = 0; mirrored < 2; mirrored++) {
            double best = mirrored ? -least : most;
            const double *row = A;
            int had_cut = state->has_cut, ends = wanted(state, best), further = tables->Delta > 0 && best + gain > level_of(state);
            if (tables->Delta > 0 && !further) leave_out(state, best + gain);
            if (!ends && !further) continue;
            if (mirrored) { /* exchange the two answers: phi becomes -phi, ones become zeros */
                reflect(state->turned, A, n);
                row = state->turned;
            }
            whole x = mirrored ? ny : nx, y = mirrored ? nx : ny;
            if (ends) offer_at_ends(state, row, n, x, y, best, tables->Delta == 0);
            if (!further) continue;
            /* leaving the ends gains something, so the sieves' cuts are worse: this one counts where they have none */
            state->has_cut = had_cut;
            sieve_row(state, row, n, x, y, best + gain, bend, mirrored);
            if (!state->has_cut && wanted(state, best)) offer_at_ends(state, row, n, x, y, best, 1);
        }
        if (out_of_time(state)) return;
    }
}

/* Search some columns; 0, or why not. */
int separate(const Tables *tables, Search *search) {
    whole K = tables->K, r = tables->affected, room = K + 1;
    double *doubles = malloc((size_t)(7 * room + 2 * (tables->stride + 1)) * sizeof(double));
    whole *open = malloc(2 * (size_t)room * sizeof(whole));
    State state = {.tables = tables, .search = search, .open = open, .starts = open + room};
    state.deadline = deadline_in(search->seconds);
    if (!doubles || !open) {
        free(doubles);
        free(open);
        return OUT_OF_MEMORY;
    }
    state.column = doubles;
    state.row = doubles + room;
    state.turned = doubles + 2 * room;
    state.steepest = doubles + 3 * room;
    state.bounds = doubles + 4 * room;
    state.high = doubles + 5 * room;
    state.low = doubles + 6 * room;
    state.above = doubles + 7 * room;
    state.below = state.above + tables->stride + 1;
    search->value = search->left_out = -DBL_MAX;
    search->kept = 0;
    memcpy(state.column, search->signed_values, (size_t)room * sizeof(double));
    for (whole nx = 0; nx <= r && !out_of_time(&state); nx++) {
        if (nx) step(state.column, K - nx + 1, tables->x, tables->y);
        if (nx >= search->first && (nx - search->first) % search->stride == 0) search_column(&state, nx);
    }
    free(doubles);
    free(open);
    free(state.table);
    free(state.crossed);
    return state.failed;
}

/* ------------------------------------------------------------------------------------------------------ monotone search */

/* mean[j] += mass[j] * A[top - j + t], for j in [t, many) : A lies reversed, so that both are read in order. */
LOOP void add_product(double *restrict mean, const double *restrict mass, const double *restrict reversed, whole many) {
    for (whole j = 0; j < many; j++) mean[j] += mass[j] * reversed[j];
}

/*
 * `monotone.search_monotone` where a mean has few terms: the worst multiset for every i, over j and s1.
 * values: the largest phi for each i; found: where, j and s1 for each i. Returns 0, or why not.
 */
int search_monotone(whole K, whole r, const double *signed_values, double x, double y, double q, double Delta, whole terms,
                    double seconds, double *values, whole *found) {
    whole others = K - r, wide = r + 1;
    size_t means = (size_t)(others + 1) * (size_t)wide;
    double *A = malloc(((size_t)(2 * (K + 1)) + (size_t)(terms + 1) * (size_t)wide + means) * sizeof(double));
    if (!A) return OUT_OF_MEMORY;
    double *reversed = A + K + 1, *mass = reversed + K + 1, *mean = mass + (terms + 1) * wide;
    State state = {.deadline = deadline_in(seconds)};
    memset(mass, 0, (size_t)((terms + 1) * wide) * sizeof(double));
    mass[0] = 1.0;
    for (whole j = 0; j < r; j++)
        for (whole t = 0; t <= terms; t++) {
            double next = (1.0 - Delta) * mass[t * wide + j];
            if (t) next += Delta * mass[(t - 1) * wide + j];
            mass[t * wide + j + 1] = next;
        }
    memcpy(A, signed_values, (size_t)(K + 1) * sizeof(double));
    for (whole i = 0; i <= r && !out_of_time(&state); i++) {
        whole n = K - i, free_voters = r - i;
        if (i) step(A, n + 1, x, y);
        for (whole j = 0; j <= n; j++) reversed[j] = A[n - j];
        for (whole s1 = 0; s1 <= others; s1++) {
            double *row = mean + s1 * wide;
            memset(row, 0, (size_t)(free_voters + 1) * sizeof(double));
            /* A[r - i - j + s1 + t] is reversed[others - s1 + j - t]; Bin(j) never exceeds j */
            for (whole t = 0; t <= lesser(terms, free_voters); t++)
                add_product(row + t, mass + t * wide + t, reversed + others - s1, free_voters - t + 1);
        }
        values[i] = -DBL_MAX;
        for (whole s1 = 0; s1 <= others; s1++)
            for (whole j = 0; j <= free_voters; j++) { /* the neighbour's mean: j and k, s0 and s1 exchanged */
                double here = q * mean[s1 * wide + j] + mean[(others - s1) * wide + free_voters - j];
                if (here > values[i]) values[i] = here, found[2 * i] = j, found[2 * i + 1] = s1;
            }
    }
    free(A);
    return state.failed;
}

/* --------------------------------------------------------------------------------------------------- constraint rows */

/* Pr[Bin(trials, t) = k] from the mode outward, cut where it falls below 2^-120 of the mode's; returns the first k. */
static whole binomial(double t, whole trials, double *to, whole *size) {
    whole mode = lesser((whole)((double)(trials + 1) * t), trials), first = mode, last = mode;
    double odds = t / (1.0 - t), total = 1.0;
    to[mode] = 1.0;
    for (whole k = mode; k < trials && to[k] > 0x1p-120; k++) {
        to[k + 1] = to[k] * ((double)(trials - k) / (double)(k + 1) * odds);
        total += to[last = k + 1];
    }
    for (whole k = mode; k > 0 && to[k] > 0x1p-120; k--) {
        to[k - 1] = to[k] / ((double)(trials - k + 1) / (double)k * odds);
        total += to[first = k - 1];
    }
    for (whole k = first; k <= last; k++) to[k] /= total;
    *size = last - first + 1;
    return first;
}

LOOP void spread(double *restrict to, const double *restrict from, whole many, double weight) {
    for (whole j = 0; j < many; j++) to[j] += weight * from[j];
}

LOOP void convolution_step(double *restrict to, const double *restrict from, whole many, double t) {
    for (whole j = 0; j < many; j++) to[j + 1] = (1.0 - t) * from[j + 1] + t * from[j];
}

/*
 * The law of the number of ones, one multiset: `polar_form.mass`. work: 3 (K + 3) doubles; returns mass[0..K], within it.
 * Few voters one by one; many as the convolution of binomials.
 */
static const double *mass_function(whole K, whole kinds, const double *at, const whole *order, const whole *counts,
                                   double *work, int stepwise) {
    double *mass = work + 1, *next = work + K + 4, *factor = work + 2 * (K + 3);
    whole ones = 0;
    for (whole k = 0; k < kinds; k++)
        if (at[k] >= 1.0) ones += counts[k];
    memset(work, 0, (size_t)(2 * (K + 3)) * sizeof(double));
    mass[ones] = 1.0;
    whole first = ones, last = ones;
    for (whole i = 0; i < kinds; i++) {
        whole k = order[i];
        if (at[k] <= 0.0 || at[k] >= 1.0 || !counts[k]) continue;
        if (stepwise) {
            for (whole c = 0; c < counts[k]; c++) {
                convolution_step(next + first - 1, mass + first - 1, last - first + 2, at[k]);
                last++;
                double *swap = mass;
                mass = next, next = swap;
            }
        } else {
            whole size, from = binomial(at[k], counts[k], factor, &size), width = last - first + 1;
            memset(next, 0, (size_t)(K + 1) * sizeof(double));
            if (width < size)
                for (whole j = 0; j < width; j++) spread(next + first + from + j, factor + from, size, mass[first + j]);
            else
                for (whole j = 0; j < size; j++) spread(next + first + from + j, mass + first, width, factor[from + j]);
            first += from, last = first + width + size - 2;
            double *swap = mass;
            mass = next, next = swap;
        }
    }
    return mass;
}

/* alpha_l - alpha_{K-l} for l > K/2, for each of many multisets: `PrivacyConstraint._signed_mass`. 0, or why not. */
int signed_mass(whole K, whole kinds, const double *at, const whole *counts, whole many, int stepwise, double *to) {
    double *work = malloc((size_t)(3 * (K + 3)) * sizeof(double));
    whole entries = (K + 1) / 2, order[CORNERS];
    if (!work) return OUT_OF_MEMORY;
    for (whole k = 0; k < kinds; k++) { /* by probability, as in polar_form.py */
        whole place = k;
        for (; place > 0 && at[order[place - 1]] > at[k]; place--) order[place] = order[place - 1];
        order[place] = k;
    }
    for (whole i = 0; i < many; i++) {
        const double *mass = mass_function(K, kinds, at, order, counts + i * kinds, work, stepwise);
        for (whole k = 0; k < entries; k++) to[i * entries + k] = mass[K / 2 + 1 + k] - mass[(K + 1) / 2 - 1 - k];
    }
    free(work);
    return DONE;
}
