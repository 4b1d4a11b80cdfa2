/* Complete search: every multiset of a row or of a skeleton, where the sieves of separation.c leave it open. */

#include "search.h"

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

/* ------------------------------------------------------------------------------------------------- all of a row at once */

/*
 * The blossoms of a row pass through one array: for each a, and then for each a', one step makes the entries
 * U_N(a, a') of N = a', a' + 1, ... from those before (`separable._near_end_table`). What is wanted of them is taken
 * as they pass, so that a row needs O(n) of memory, which stays in the cache, and not the whole table.
 */

/* One such step, and the largest and the least so far. */
LOOP void step_and_reach(double *restrict a, whole n, double t, double complement, double *restrict high,
                         double *restrict low) {
    for (whole j = 0; j < n; j++) {
        double value = complement * a[j] + t * a[j + 1];
        a[j] = value;
        high[j] = largest(high[j], value);
        low[j] = smallest(low[j], value);
    }
}

/* One such step, and where the largest so far was first found. */
LOOP void step_and_place(double *restrict a, whole n, double t, double complement, double *restrict high,
                         double *restrict place, double here) {
    for (whole j = 0; j < n; j++) {
        double value = complement * a[j] + t * a[j + 1];
        a[j] = value;
        place[j] = value > high[j] ? here : place[j];
        high[j] = largest(high[j], value);
    }
}

/*
 * Reach of a row: the largest and the least U_N(a, a') for each N. With each side at its largest, whatever the other
 * does, phi <= q high[n1] + high[n0] on a whole skeleton. Every U of the next row of a column is x U_N + y U_N+1 of this
 * one, so one step of both bounds them there, at the rounding of one step of each entry.
 */
static void note_reach(State *state, const double *A, whole n, whole moving, int mirrored) {
    double Delta = state->tables->Delta, *outer = state->outer, *inner = state->inner;
    double *high = mirrored ? state->low : state->high, *low = mirrored ? state->high : state->low;
    size_t size = (size_t)(n + 1) * sizeof(double);
    memcpy(outer, A, size);
    memcpy(high, A, size);
    memcpy(low, A, size);
    for (whole a = 0; a <= lesser(n, moving) && !out_of_time(state); a++) {
        if (a) step_and_reach(outer, n - a + 1, Delta, 1.0 - Delta, high, low);
        memcpy(inner, outer, (size_t)(n - a + 1) * sizeof(double));
        for (whole a1 = 1; a1 <= lesser(n, moving) - a; a1++)
            step_and_reach(inner, n - a - a1 + 1, 1.0 - Delta, Delta, high + a1, low + a1);
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

/* The largest U_N(a, a') of each N, and the first (a, a') that attains it, as a * (n + 1) + a'. */
static void find_places(State *state, const double *A, whole n, whole moving) {
    double Delta = state->tables->Delta, *outer = state->outer, *inner = state->inner, stride = (double)(n + 1);
    size_t size = (size_t)(n + 1) * sizeof(double);
    memcpy(outer, A, size);
    memcpy(state->best, A, size);
    memset(state->place, 0, size);
    for (whole a = 0; a <= lesser(n, moving) && !out_of_time(state); a++) {
        double here = (double)a * stride;
        if (a) step_and_place(outer, n - a + 1, Delta, 1.0 - Delta, state->best, state->place, here);
        memcpy(inner, outer, (size_t)(n - a + 1) * sizeof(double));
        for (whole a1 = 1; a1 <= lesser(n, moving) - a; a1++)
            step_and_place(inner, n - a - a1 + 1, 1.0 - Delta, Delta, state->best + a1, state->place + a1, here + (double)a1);
    }
}

/*
 * Search some skeletons of a row completely: U of both sides is collected from a pass over the row, for as many of them
 * at a time as there is room for.
 */
static void join_skeletons(State *state, const double *A, whole n, whole nx, whole ny, whole moving, const whole *open,
                           whole many) {
    double Delta = state->tables->Delta, *outer = state->outer, *inner = state->inner;
    whole *start = state->starts, budget = lesser(n, moving);
    for (whole first = 0, after; first < many && !out_of_time(state); first = after) {
        whole entries = 0;
        for (after = first; after < many; after++) {
            whole m0 = lesser(n - open[after], moving), m1 = lesser(open[after], moving), both = 2 * (m0 + 1) * (m1 + 1);
            if (after > first && entries + both > state->tables->most_entries) break;
            start[after - first] = entries;
            entries += both;
        }
        double *table = malloc((size_t)entries * sizeof(double));
        if (!table) {
            state->failed = OUT_OF_MEMORY;
            return;
        }
        for (whole k = 0; k < entries; k++) table[k] = -DBL_MAX;
        memcpy(outer, A, (size_t)(n + 1) * sizeof(double));
        for (whole a = 0; a <= budget && !out_of_time(state); a++) {
            if (a) step(outer, n - a + 1, Delta, 1.0 - Delta);
            memcpy(inner, outer, (size_t)(n - a + 1) * sizeof(double));
            for (whole a1 = 0; a1 <= budget - a; a1++) {
                if (a1) step(inner, n - a - a1 + 1, 1.0 - Delta, Delta);
                for (whole k = first; k < after; k++) {
                    whole n1 = open[k], n0 = n - n1, m0 = lesser(n0, moving), m1 = lesser(n1, moving);
                    double *mine = table + start[k - first], *theirs = mine + (m0 + 1) * (m1 + 1);
                    if (a <= m0 && a1 <= m1) mine[a * (m1 + 1) + a1] = inner[n1 - a1];
                    if (a <= m1 && a1 <= m0) theirs[a * (m0 + 1) + a1] = inner[n0 - a1];
                }
            }
        }
        for (whole k = first; k < after && !out_of_time(state); k++) {
            whole n1 = open[k], n0 = n - n1, m0 = lesser(n0, moving), m1 = lesser(n1, moving);
            double *mine = table + start[k - first];
            join_skeleton(state, mine, mine + (m0 + 1) * (m1 + 1), nx, ny, n0, n1, moving);
        }
        free(table);
    }
}

/*
 * Search every skeleton of a row: `separable.search_separable`. Where the places at which both sides are at their
 * largest form a multiset, it is the worst of its skeleton; only where they do not are the two joined.
 */
void search_row(State *state, const double *A, whole n, whole nx, whole ny, whole moving, int mirrored) {
    double q = state->tables->q;
    if (state->reach_row != ny) {
        note_reach(state, A, n, moving, mirrored);
        state->reach_row = ny;
        double bound = reach_bound(state, n, mirrored);
        if (state->failed) return;
        if (bound <= level_of(state)) {
            leave_out(state, bound);
            return;
        }
    }
    find_places(state, A, n, moving);
    if (state->failed) return;
    whole conflicts = 0;
    for (whole n1 = 0; n1 <= n; n1++) {
        whole n0 = n - n1, own = (whole)state->place[n1], other = (whole)state->place[n0], counts[CORNERS];
        whole a = own / (n + 1), a1 = own % (n + 1), b1 = other / (n + 1), b = other % (n + 1);
        double value = q * state->best[n1] + state->best[n0];
        if (a + b <= n0 && a1 + b1 <= n1 && a + a1 + b + b1 <= moving) {
            fill(counts, nx, ny, n0, n1, a, a1, b1, b);
            if (wanted(state, value)) offer(state, value, counts);
        } else if (value <= level_of(state)) {
            leave_out(state, value);
        } else {
            state->open[conflicts++] = n1;
        }
    }
    if (goes_on(state)) {
        join_skeletons(state, A, n, nx, ny, moving, state->open, conflicts);
        return;
    }
    for (whole k = 0; k < conflicts; k++) { /* a multiset nearby: one side at its largest, the other at its end */
        whole n1 = state->open[k], n0 = n - n1, counts[CORNERS];
        double mine = q * state->best[n1] + A[n0], theirs = q * A[n1] + state->best[n0];
        whole at = (whole)state->place[mine >= theirs ? n1 : n0], plus = at / (n + 1), minus = at % (n + 1);
        if (mine >= theirs) fill(counts, nx, ny, n0, n1, plus, minus, 0, 0);
        else fill(counts, nx, ny, n0, n1, 0, 0, plus, minus);
        if (wanted(state, largest(mine, theirs))) offer(state, largest(mine, theirs), counts);
        leave_out(state, q * state->best[n1] + state->best[n0]);
    }
}

/*
 * Offer the worst multisets of which each side sees one kind of voters off their ends: of all U_N(a, 0) and U_N(0, a'), so
 * two passes over n arrays and not one over all pairs (a, a'). Of neighbouring n1, which give nearly the same row of the
 * program, only the worst is offered. Nothing is bounded. The budget must not bind: moving >= n.
 */
void search_row_one_kind(State *state, const double *A, whole n, whole nx, whole ny) {
    double Delta = state->tables->Delta, q = state->tables->q, *outer = state->outer, *worst = state->inner;
    double *best[2] = {state->best, state->steepest}, *place[2] = {state->place, state->bounds};
    whole *kinds = state->starts;
    size_t size = (size_t)(n + 1) * sizeof(double);
    for (int minus = 0; minus < 2; minus++) {
        double t = minus ? 1.0 - Delta : Delta, complement = minus ? Delta : 1.0 - Delta;
        memcpy(outer, A, size);
        memcpy(best[minus], A, size);
        memset(place[minus], 0, size);
        for (whole a = 1; a <= n; a++) {
            whole at = minus ? a : 0;
            step_and_place(outer, n - a + 1, t, complement, best[minus] + at, place[minus] + at, (double)a);
        }
    }
    for (whole n1 = 0; n1 <= n; n1++) {
        whole n0 = n - n1;
        worst[n1] = -DBL_MAX;
        for (int both = 0; both < 4; both++) {
            int mine = both & 1, theirs = both >> 1;
            whole own = (whole)place[mine][n1], other = (whole)place[theirs][n0];
            double value = q * best[mine][n1] + best[theirs][n0];
            whole near0 = (mine ? 0 : own) + (theirs ? other : 0);
            if (value <= worst[n1] || near0 > n0 || own + other - near0 > n1) continue;
            worst[n1] = value;
            kinds[n1] = both;
        }
    }
    for (whole n1 = 0; n1 <= n; n1++) {
        if ((n1 > 0 && worst[n1 - 1] >= worst[n1]) || (n1 < n && worst[n1 + 1] > worst[n1])) continue;
        if (worst[n1] == -DBL_MAX || !wanted(state, worst[n1])) continue;
        int mine = kinds[n1] & 1, theirs = kinds[n1] >> 1;
        whole n0 = n - n1, own = (whole)place[mine][n1], other = (whole)place[theirs][n0], counts[CORNERS];
        fill(counts, nx, ny, n0, n1, mine ? 0 : own, mine ? own : 0, theirs ? 0 : other, theirs ? other : 0);
        offer(state, worst[n1], counts);
    }
}
