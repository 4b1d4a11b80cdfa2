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

/* to[s] = the table's maximum within a + a' <= s, for all budgets s. */
static void by_budget(double *to, const double *table, whole rows, whole columns, whole budget) {
    for (whole s = 0; s <= budget; s++) to[s] = -DBL_MAX;
    for (whole a = 0; a < lesser(rows, budget + 1); a++)
        for (whole b = 0; b < lesser(columns, budget - a + 1); b++)
            to[a + b] = largest(to[a + b], table[a * columns + b]);
    for (whole s = 1; s <= budget; s++) to[s] = largest(to[s], to[s - 1]);
}

typedef struct { /* the two tables of one skeleton, and room for the maxima of both */
    const double *mine, *theirs; /* U_n1(a, a'), (m0 + 1) x (m1 + 1); U_n0(b', b), (m1 + 1) x (m0 + 1) */
    double *own, *other;
    whole n0, n1, m0, m1;
} Pair;

typedef struct {
    double value;
    whole A, A1, used, left; /* p may have A near 0 and A1 near 1, of `used` in all, p' the rest, of `left` in all */
} Joint;

/* Join two maxima over boxes that leave room for each other: where p takes `used` of the budget, p' `left`. */
static void join_boxes(const Pair *pair, double q, whole used, whole left, Joint *best) {
    whole m0 = pair->m0, m1 = pair->m1;
    within_budget(pair->own, pair->mine, m0 + 1, m1 + 1, used);
    within_budget(pair->other, pair->theirs, m1 + 1, m0 + 1, left);
    for (whole A = 0; A <= m0; A++)
        for (whole A1 = 0; A1 <= m1; A1++) {
            double value = q * pair->own[A * (m1 + 1) + A1]
                           + pair->other[lesser(pair->n1 - A1, m1) * (m0 + 1) + lesser(pair->n0 - A, m0)];
            if (value > best->value) *best = (Joint){value, A, A1, used, left};
        }
}

/*
 * Join a skeleton whose budget binds, by branch and bound on how it is shared: at most `used` of p, the rest of p'. With
 * the ends' room for each other left out, each way has a bound that grows with both shares; if the voters that attain
 * the largest bound have room, they are the worst multiset. If not, ways are joined in the order of their bounds. What
 * ends below the level of the search is left out.
 */
static Joint join_within(State *state, const Pair *pair, whole moving, double *shares) {
    double q = state->tables->q, *own = shares, *other = shares + moving + 1;
    by_budget(own, pair->mine, pair->m0 + 1, pair->m1 + 1, moving);
    by_budget(other, pair->theirs, pair->m1 + 1, pair->m0 + 1, moving);
    for (whole s = 0; 2 * s <= moving; s++) { /* bounds by `used`: other[] turned round and added */
        double head = q * own[s] + other[moving - s], tail = q * own[moving - s] + other[s];
        own[s] = head;
        own[moving - s] = tail;
    }
    Joint best = {-DBL_MAX, 0, 0, 0, 0};
    for (int first = 1;; first = 0) {
        whole used = 0, a, a1, b1, b;
        for (whole s = 1; s <= moving; s++)
            if (own[s] > own[used]) used = s;
        double bound = own[used];
        if (bound <= largest(best.value, level_of(state)) || out_of_time(state)) {
            if (bound > best.value) leave_out(state, bound);
            return best;
        }
        if (first) {
            Joint unrelated = {bound, pair->m0, pair->m1, used, moving - used};
            argmax_within(pair->mine, pair->m1 + 1, pair->m0, pair->m1, used, &a, &a1);
            argmax_within(pair->theirs, pair->m0 + 1, pair->m1, pair->m0, moving - used, &b1, &b);
            unrelated.A = a, unrelated.A1 = a1;
            if (a + b <= pair->n0 && a1 + b1 <= pair->n1) return unrelated;
        }
        join_boxes(pair, q, used, moving - used, &best);
        own[used] = -DBL_MAX;
    }
}

/*
 * Offer the worst multiset of one skeleton: `separable.offer_worst_of_skeleton`.
 * mine: U_n1(a, a'), (m0 + 1) x (m1 + 1); theirs: U_n0(b', b), (m1 + 1) x (m0 + 1); m = least of n and M.
 */
static void join_skeleton(State *state, const double *mine, const double *theirs, whole nx, whole ny, whole n0, whole n1,
                          whole moving) {
    whole m0 = lesser(n0, moving), m1 = lesser(n1, moving), many = (m0 + 1) * (m1 + 1);
    double *room = malloc(2 * (size_t)(many + moving + 1) * sizeof(double));
    if (!room) {
        state->failed = OUT_OF_MEMORY;
        return;
    }
    Pair pair = {mine, theirs, room, room + many, n0, n1, m0, m1};
    Joint best = {-DBL_MAX, 0, 0, moving, moving};
    if (moving < n0 + n1) best = join_within(state, &pair, moving, room + 2 * many);
    else join_boxes(&pair, state->tables->q, moving, moving, &best);
    if (!state->failed && wanted(state, best.value)) {
        whole a, a1, b, b1, counts[CORNERS];
        argmax_within(mine, m1 + 1, best.A, best.A1, best.used, &a, &a1);
        argmax_within(theirs, m0 + 1, lesser(n1 - best.A1, m1), lesser(n0 - best.A, m0), best.left, &b1, &b);
        fill(counts, nx, ny, n0, n1, a, a1, b1, b);
        offer(state, best.value, counts);
    }
    free(room);
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

/* Start the arrays of all budgets of a row: nobody is off their ends yet. */
static void start_levels(const State *state, double *values, const double *A, whole n, whole moving, double nothing) {
    memcpy(values, A, (size_t)(n + 1) * sizeof(double));
    for (whole s = 1; s < splits_of(state, moving); s++)
        for (whole j = 0; j <= n; j++) within(state, values, s)[j] = nothing;
}

LOOP void extend_reach(double *restrict high, double *restrict low, const double *restrict fewer_high,
                       const double *restrict fewer_low, whole many) {
    for (whole j = 0; j < many; j++) {
        high[j] = largest(high[j], fewer_high[j]);
        low[j] = smallest(low[j], fewer_low[j]);
    }
}

/*
 * Reach of a row: the largest and the least U_N(a, a') for each N, of each budget a + a' where these are told apart. With
 * each side at its largest, phi <= q high[n1] + high[n0] on a whole skeleton, whatever the room that the voters of the
 * two sides leave each other; where the budget binds, for the worst way to share it. Every U of the next row of a column
 * is x U_N + y U_N+1 of this one, so one step of both bounds them there, at the rounding of one step of each entry.
 */
static void note_reach(State *state, const double *A, whole n, whole moving, int mirrored) {
    double Delta = state->tables->Delta, *outer = state->outer, *inner = state->inner;
    double *high = mirrored ? state->low : state->high, *low = mirrored ? state->high : state->low;
    whole splits = splits_of(state, moving);
    memcpy(outer, A, (size_t)(n + 1) * sizeof(double));
    start_levels(state, high, A, n, moving, -DBL_MAX);
    start_levels(state, low, A, n, moving, DBL_MAX);
    for (whole a = 0; a <= lesser(n, moving) && !out_of_time(state); a++) {
        if (a) step_and_reach(outer, n - a + 1, Delta, 1.0 - Delta, within(state, high, a), within(state, low, a));
        memcpy(inner, outer, (size_t)(n - a + 1) * sizeof(double));
        for (whole a1 = 1; a1 <= lesser(n, moving) - a; a1++)
            step_and_reach(inner, n - a - a1 + 1, 1.0 - Delta, Delta, within(state, high, a + a1) + a1,
                           within(state, low, a + a1) + a1);
    }
    for (whole s = 1; s < splits; s++)
        extend_reach(within(state, high, s), within(state, low, s), within(state, high, s - 1), within(state, low, s - 1), n + 1);
    if (mirrored) /* U_N(a, a') of the mirrored row is -U_n-N(a', a) */
        for (whole s = 0; s < splits; s++) {
            turn(within(state, state->high, s), n);
            turn(within(state, state->low, s), n);
        }
    state->has_reach = 1;
}

/* Take the reach of a row on to the next one of its column, of n + 1 entries, or to the first of the next column. */
void step_reach(State *state, double *high, double *low, whole n, double t, double complement, whole moving) {
    for (whole s = 0; s < splits_of(state, moving); s++) {
        step(within(state, high, s), n + 1, t, complement);
        step(within(state, low, s), n + 1, t, complement);
    }
}

void copy_reach(const State *state, double *high, double *low, const double *from_high, const double *from_low, whole n,
                whole moving) {
    for (whole s = 0; s < splits_of(state, moving); s++) {
        memcpy(within(state, high, s), from_high + (within(state, high, s) - high), (size_t)(n + 1) * sizeof(double));
        memcpy(within(state, low, s), from_low + (within(state, low, s) - low), (size_t)(n + 1) * sizeof(double));
    }
}

/* The largest and the least q own[j] + other[n - j]. */
LOOP void extremes_of_both(const double *restrict own, const double *restrict other, whole n, double q, double *restrict most,
                           double *restrict least) {
    double high = *most, low = *least;
    for (whole j = 0; j <= n; j++) {
        double value = q * own[j] + other[n - j];
        high = largest(high, value);
        low = smallest(low, value);
    }
    *most = high;
    *least = low;
}

double reach_bound(const State *state, whole n, whole moving, int mirrored) {
    double most = -DBL_MAX, least = DBL_MAX, *reach = mirrored ? state->low : state->high;
    whole splits = splits_of(state, moving);
    for (whole s = 0; s < splits; s++)
        extremes_of_both(within(state, reach, s), within(state, reach, splits - 1 - s), n, state->tables->q, &most, &least);
    return mirrored ? -least : most;
}

LOOP void extend_places(double *restrict best, double *restrict place, const double *restrict fewer_best,
                        const double *restrict fewer_place, whole many) {
    for (whole j = 0; j < many; j++) {
        place[j] = fewer_best[j] >= best[j] ? fewer_place[j] : place[j];
        best[j] = largest(best[j], fewer_best[j]);
    }
}

/* The largest U_N(a, a') of each N, and the first (a, a') that attains it, as a * (n + 1) + a'; of each budget. */
static void find_places(State *state, const double *A, whole n, whole moving) {
    double Delta = state->tables->Delta, *outer = state->outer, *inner = state->inner, stride = (double)(n + 1);
    double *best = state->best, *place = state->place;
    memcpy(outer, A, (size_t)(n + 1) * sizeof(double));
    start_levels(state, best, A, n, moving, -DBL_MAX);
    memset(place, 0, (size_t)(n + 1) * sizeof(double));
    for (whole a = 0; a <= lesser(n, moving) && !out_of_time(state); a++) {
        double here = (double)a * stride;
        if (a) step_and_place(outer, n - a + 1, Delta, 1.0 - Delta, within(state, best, a), within(state, place, a), here);
        memcpy(inner, outer, (size_t)(n - a + 1) * sizeof(double));
        for (whole a1 = 1; a1 <= lesser(n, moving) - a; a1++)
            step_and_place(inner, n - a - a1 + 1, 1.0 - Delta, Delta, within(state, best, a + a1) + a1,
                           within(state, place, a + a1) + a1, here + (double)a1);
    }
    for (whole s = 1; s < splits_of(state, moving); s++)
        extend_places(within(state, best, s), within(state, place, s), within(state, best, s - 1), within(state, place, s - 1),
                      n + 1);
}

/* Of each n1 the largest q own[n1] + other[n0] so far, and by which way to share the budget. */
LOOP void best_of_both(double *restrict best, double *restrict share, const double *restrict own,
                       const double *restrict other, whole n, double q, double here) {
    for (whole j = 0; j <= n; j++) {
        double value = q * own[j] + other[n - j];
        share[j] = value > best[j] ? here : share[j];
        best[j] = largest(best[j], value);
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
 * largest, in the best way to share the budget, form a multiset, it is the worst of its skeleton; only where they do not
 * are the two joined.
 */
void search_row(State *state, const double *A, whole n, whole nx, whole ny, whole moving, int mirrored) {
    double q = state->tables->q, *best = state->steepest, *share = state->bounds;
    whole splits = splits_of(state, moving);
    if (state->reach_row != ny) {
        note_reach(state, A, n, moving, mirrored);
        state->reach_row = ny;
        double bound = reach_bound(state, n, moving, mirrored);
        if (state->failed) return;
        if (bound <= level_of(state)) {
            leave_out(state, bound);
            return;
        }
    }
    find_places(state, A, n, moving);
    if (state->failed) return;
    for (whole n1 = 0; n1 <= n; n1++) best[n1] = -DBL_MAX, share[n1] = 0.0;
    for (whole s = 0; s < splits; s++)
        best_of_both(best, share, within(state, state->best, s), within(state, state->best, splits - 1 - s), n, q, (double)s);
    whole conflicts = 0;
    for (whole n1 = 0; n1 <= n; n1++) {
        whole n0 = n - n1, used = (whole)share[n1], counts[CORNERS];
        whole own = (whole)within(state, state->place, used)[n1];
        whole other = (whole)within(state, state->place, splits - 1 - used)[n0];
        whole a = own / (n + 1), a1 = own % (n + 1), b1 = other / (n + 1), b = other % (n + 1);
        double value = best[n1];
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
    const double *most = within(state, state->best, splits - 1), *places = within(state, state->place, splits - 1);
    for (whole k = 0; k < conflicts; k++) { /* a multiset nearby: one side at its largest, the other at its end */
        whole n1 = state->open[k], n0 = n - n1, counts[CORNERS];
        double mine = q * most[n1] + A[n0], theirs = q * A[n1] + most[n0];
        whole at = (whole)places[mine >= theirs ? n1 : n0], plus = at / (n + 1), minus = at % (n + 1);
        if (mine >= theirs) fill(counts, nx, ny, n0, n1, plus, minus, 0, 0);
        else fill(counts, nx, ny, n0, n1, 0, 0, plus, minus);
        if (wanted(state, largest(mine, theirs))) offer(state, largest(mine, theirs), counts);
        leave_out(state, best[n1]);
    }
}

/*
 * Offer the worst multisets of which each side sees one kind of voters off their ends: of all U_N(a, 0) and U_N(0, a'), so
 * two passes over n arrays and not one over all pairs (a, a'); a budget that binds is shared in every way. Of
 * neighbouring n1, which give nearly the same row of the program, only the worst is offered. Nothing is bounded.
 */
void search_row_one_kind(State *state, const double *A, whole n, whole nx, whole ny, whole moving) {
    double Delta = state->tables->Delta, q = state->tables->q, *outer = state->outer, *worst = state->inner;
    double *best[2] = {state->best, state->high}, *place[2] = {state->place, state->low}; /* no reach is noted here */
    whole *kinds = state->starts, *shares = state->open, splits = splits_of(state, moving);
    for (int minus = 0; minus < 2; minus++) {
        double t = minus ? 1.0 - Delta : Delta, complement = minus ? Delta : 1.0 - Delta;
        memcpy(outer, A, (size_t)(n + 1) * sizeof(double));
        start_levels(state, best[minus], A, n, moving, -DBL_MAX);
        memset(place[minus], 0, (size_t)(n + 1) * sizeof(double));
        for (whole a = 1; a <= lesser(n, moving); a++) {
            whole at = minus ? a : 0;
            step_and_place(outer, n - a + 1, t, complement, within(state, best[minus], a) + at,
                           within(state, place[minus], a) + at, (double)a);
        }
        for (whole s = 1; s < splits; s++)
            extend_places(within(state, best[minus], s), within(state, place[minus], s), within(state, best[minus], s - 1),
                          within(state, place[minus], s - 1), n + 1);
    }
    for (whole n1 = 0; n1 <= n; n1++) worst[n1] = -DBL_MAX;
    for (int both = 0; both < 4; both++) {
        int mine = both & 1, theirs = both >> 1;
        for (whole s = 0; s < splits; s++) {
            const double *value_own = within(state, best[mine], s), *value_other = within(state, best[theirs], splits - 1 - s);
            const double *own_at = within(state, place[mine], s), *other_at = within(state, place[theirs], splits - 1 - s);
            for (whole n1 = 0; n1 <= n; n1++) {
                double value = q * value_own[n1] + value_other[n - n1];
                if (value <= worst[n1]) continue;
                whole n0 = n - n1, own = (whole)own_at[n1], other = (whole)other_at[n0];
                whole near0 = (mine ? 0 : own) + (theirs ? other : 0);
                if (near0 > n0 || own + other - near0 > n1 || own + other > moving) continue;
                worst[n1] = value;
                kinds[n1] = both;
                shares[n1] = s;
            }
        }
    }
    for (whole n1 = 0; n1 <= n; n1++) {
        if ((n1 > 0 && worst[n1 - 1] >= worst[n1]) || (n1 < n && worst[n1 + 1] > worst[n1])) continue;
        if (worst[n1] == -DBL_MAX || !wanted(state, worst[n1])) continue;
        int mine = kinds[n1] & 1, theirs = kinds[n1] >> 1;
        whole n0 = n - n1, own = (whole)within(state, place[mine], shares[n1])[n1];
        whole other = (whole)within(state, place[theirs], splits - 1 - shares[n1])[n0], counts[CORNERS];
        fill(counts, nx, ny, n0, n1, mine ? 0 : own, mine ? own : 0, theirs ? 0 : other, theirs ? other : 0);
        offer(state, worst[n1], counts);
    }
}
