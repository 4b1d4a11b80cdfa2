/* Separation: the worst multiset by the sieves of pruned.py, one column after another. */

#include "search.h"

#ifndef SOURCE_CHECKSUM
#error "the checksum of all sources tells library.py whether a library is stale: hatch_build.py states it"
#endif

#define MOST_SIEVED_MEAN 2.0  /* with more voters off their ends a row's blossoms cost no more than its sieves */
#define BLOCK 8               /* columns that inherit the reach of the one before */
#define ROWS_BETWEEN_BOUNDS 8 /* rows of a column between two computations of max|D| and max|second difference| */

EXPORT uint32_t source_checksum(void) { return SOURCE_CHECKSUM; }

/* -------------------------------------------------------------------------------------------------------------- finds */

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

void offer(State *state, double value, const whole *counts) {
    Search *search = state->search;
    offer_value(state, value, counts);
    if (search->most && value > search->above) keep_cut(search, value, counts);
}

/* ------------------------------------------------------------------------------------------------------- inner loops */

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

LOOP void reflect(double *restrict to, const double *restrict a, whole n) {
    for (whole j = 0; j <= n; j++) to[j] = -a[n - j];
}

/* ------------------------------------------------------------------------------------------- means over the binomials */

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
    whole budget = lesser(n, moving), triangle = (budget + 1) * (budget + 2);
    whole entries = triangle / 2 * (n + 1) - triangle * budget / 3; /* of all its blossoms */
    int affordable = entries <= tables->most_passed;
    if (state->has_reach) {
        bound = smallest(bound, reach_bound(state, n, moving, mirrored));
        if (bound <= level_of(state)) {
            leave_out(state, bound);
            return;
        }
    }
    /* beyond `most_mean` there is no sieve; below, one pass over the row's blossoms may cost less than its sieves */
    int sieved = mean <= tables->most_mean;
    whole terms = sieved ? lesser(tables->terms[moving], moving) : 0;
    int told = (moving >= n || state->levels > 1) && mean > MOST_SIEVED_MEAN; /* whether a pass decides most skeletons */
    int passed = !sieved || (affordable && told && entries < 4 * n * terms * terms);
    if (search->settle == ONE_KIND && told) return search_row_one_kind(state, A, n, nx, ny, moving);
    if (passed) {
        if (affordable && !(search->settle == UNTIL_A_CUT && state->has_cut))
            search_row(state, A, n, nx, ny, moving, mirrored);
        else
            leave_out(state, bound);
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
    if (affordable && left > 0 && left * (terms + 2) > (told ? n / 4 : 2 * n)) {
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
    state->reach_row = -1;
    if (nx % BLOCK == 0 || state->search->spacing > 1) state->has_face = 0;
    if (state->has_face) { /* every U of this column's first row is y U_N + x U_N+1 of that before */
        step_reach(state, state->face_high, state->face_low, K - nx, tables->x, tables->y, r - nx);
        copy_reach(state, state->high, state->low, state->face_high, state->face_low, K - nx, r - nx);
        state->has_reach = 1;
    }
    memcpy(A, state->column, (size_t)(K - nx + 1) * sizeof(double));
    for (whole ny = 0; ny <= last; ny++) {
        whole n = K - nx - ny;
        if (ny) step(A, n + 1, tables->y, tables->x);
        if (ny && state->has_reach) step_reach(state, state->high, state->low, n, tables->y, tables->x, r - nx - ny);
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
        if (!ny && state->reach_row == 0) {
            copy_reach(state, state->face_high, state->face_low, state->high, state->low, n, r - nx);
            state->has_face = 1;
        }
        if (out_of_time(state)) return;
    }
}

/* Search some columns; 0, or why not. */
EXPORT int separate(const Tables *tables, Search *search) {
    whole K = tables->K, r = tables->affected, room = K + 1, levels = r < K && tables->Delta > 0 ? r + 1 : 1;
    if (levels * room > tables->most_entries) levels = 1; /* too much memory: the bounds are looser */
    double *doubles = malloc((size_t)((7 + 6 * levels) * room + 2 * (tables->stride + 1)) * sizeof(double)), *next = doubles;
    whole *open = malloc(2 * (size_t)room * sizeof(whole));
    State state = {.tables = tables, .search = search, .open = open, .starts = open + room, .levels = levels};
    double **single[] = {&state.column, &state.row, &state.turned, &state.steepest, &state.bounds, &state.outer, &state.inner};
    double **by_level[] = {&state.high, &state.low, &state.best, &state.place, &state.face_high, &state.face_low};
    state.deadline = deadline_in(search->seconds);
    if (!doubles || !open) {
        free(doubles);
        free(open);
        return OUT_OF_MEMORY;
    }
    for (int k = 0; k < 7; k++, next += room) *single[k] = next;
    for (int k = 0; k < 6; k++, next += levels * room) *by_level[k] = next;
    state.above = next;
    state.below = state.above + tables->stride + 1;
    search->value = search->left_out = -DBL_MAX;
    search->kept = 0;
    memcpy(state.column, search->signed_values, (size_t)room * sizeof(double));
    for (whole nx = 0; nx <= r && !out_of_time(&state); nx++) {
        if (nx) step(state.column, K - nx + 1, tables->x, tables->y);
        whole block = nx / BLOCK - search->first;
        if (nx % search->spacing) continue;
        if (block >= 0 && block % search->stride == 0) search_column(&state, nx);
    }
    free(doubles);
    free(open);
    return state.failed;
}
