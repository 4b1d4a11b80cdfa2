/* Complete search: every multiset of a row or of a skeleton, where the sieves of separation.c leave it open. */

#include "search.h"

LOOP void step_to(double *restrict to, const double *restrict a, whole n, double t, double complement) {
    for (whole j = 0; j < n; j++) to[j] = complement * a[j] + t * a[j + 1];
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

LOOP void maximum_into(double *restrict to, const double *restrict a, whole many) {
    for (whole j = 0; j < many; j++) to[j] = largest(to[j], a[j]);
}

/* best[j] = max(best[j], q own[j] + other[j]) */
LOOP void join_into(double *restrict best, const double *restrict own, const double *restrict other, whole many, double q) {
    for (whole j = 0; j < many; j++) best[j] = largest(best[j], q * own[j] + other[j]);
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
void search_skeleton(State *state, const double *A, whole n, whole n1, whole nx, whole ny, whole moving) {
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

double reach_bound(const State *state, whole n, int mirrored) {
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

void search_row(State *state, const double *A, whole n, whole nx, whole ny, whole moving, int mirrored) {
    if (moving >= n)
        search_free_row(state, A, n, nx, ny, mirrored);
    else
        search_bound_row(state, A, n, nx, ny, moving);
}
