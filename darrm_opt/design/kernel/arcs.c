/* Search over arcs: the worst multiset of the vertices of a voter that states a privacy profile. */

#include "kernel.h"

#define ARCS (2 * MAX_VERTICES + 2) /* vertices and unions of neighbours are at most that many */
#define NODES_BETWEEN_CHECKS 64
#define MAX_JOINT 16 /* slopes of a joint search */
#define SIDES 8 /* least and most of a, b, b - a, and of second differences at p or p' */

/* Some voters, who sit anywhere on some vertices. */
typedef struct {
    uint64_t alive;
    whole count;
    int fixed; /* these voters may not move: they sit at (0, 0) or at (1, 1) */
} Arc;

typedef struct {
    int arcs;
    Arc arc[ARCS];
} Node;

/* The fields stand in library.py, `ArcSearch`. */
typedef struct {
    whole K, vertices;
    const double *p, *reflected;       /* of each vertex, in the order of p + p': p and 1 - p' */
    const whole *previous, *following, *mirror; /* neighbours on the polygon, and (p', p); -1: none */
    whole zero, one;                   /* the vertices (0, 0) and (1, 1), or -1 */
    const double *signed_values;       /* g(0..K) */
    double q, fuzz, above, seconds;    /* fuzz: bound on the rounding of a mean of differences of g */
    whole most_nodes, most, enough; /* enough: cuts at which the search ends; 0: it does not */
    const volatile int *stop;
    /* found */
    double value, left_out;
    whole nodes, exhausted, kept;
    whole *counts;      /* [vertices] */
    double *cut_values; /* [most] */
    whole *cuts;        /* [most * vertices] */
} ArcSearch;

typedef struct {
    ArcSearch *search;
    double deadline;
    double *differences, *second; /* of g; K + 1 each */
    double *blossom[4];           /* K + 1 each */
    double *arrays, *part; /* SIDES times K + 1 each: bounds on a, b, b - a and the second differences */
    whole *multiset;                        /* vertices */
    int failed;
} Work;

typedef struct {
    double low, high;
} Range;

/* Where the voters of an arc may sit: p, p', both, and p' - p. */
typedef struct {
    Range p, p_prime, both, shift;
} Place;

/* Bounds on the slopes of phi for a voter: a = E[D] and b = E'[D], and b - a. */
typedef struct {
    Range a, b, difference;
} Slope;

/* Bounds of one array as a voter's chance lies in a range: n + 1 entries become n. */
LOOP void range_step(double *restrict low, double *restrict high, whole n, double t, double s, double t1, double s1) {
    for (whole j = 0; j < n; j++) {
        low[j] = smallest(s * low[j] + t * low[j + 1], s1 * low[j] + t1 * low[j + 1]);
        high[j] = largest(s * high[j] + t * high[j + 1], s1 * high[j] + t1 * high[j + 1]);
    }
}

/* The same of b - a, to which p' - p adds a second difference. */
LOOP void shifted_step(double *restrict low, double *restrict high, const double *restrict least,
                       const double *restrict most, whole n, double t, double s, double t1, double s1, double shift,
                       double shift1) {
    for (whole j = 0; j < n; j++) {
        double w = shift * least[j], x = shift * most[j], y = shift1 * least[j], z = shift1 * most[j];
        low[j] = smallest(s * low[j] + t * low[j + 1], s1 * low[j] + t1 * low[j + 1]) +
                 smallest(smallest(w, x), smallest(y, z));
        high[j] = largest(s * high[j] + t * high[j + 1], s1 * high[j] + t1 * high[j + 1]) +
                  largest(largest(w, x), largest(y, z));
    }
}

/* One voter on every array, of `size` each: n + 1 entries of a, b and b - a become n, and n second differences one less. */
static void place_step(double *v, whole size, whole n, const Place *at) {
    double *second = v + 6 * size;
    range_step(v, v + size, n, at->p.low, 1.0 - at->p.low, at->p.high, 1.0 - at->p.high);
    range_step(v + 2 * size, v + 3 * size, n, at->p_prime.low, 1.0 - at->p_prime.low, at->p_prime.high,
               1.0 - at->p_prime.high);
    shifted_step(v + 4 * size, v + 5 * size, second, second + size, n, at->p.low, 1.0 - at->p.low, at->p.high,
                 1.0 - at->p.high, at->shift.low, at->shift.high);
    range_step(second, second + size, n - 1, at->both.low, 1.0 - at->both.low, at->both.high, 1.0 - at->both.high);
}

static void widen(Range *range, double value) {
    range->low = smallest(range->low, value);
    range->high = largest(range->high, value);
}

static Place place_of(const ArcSearch *search, uint64_t alive) {
    Range none = {2.0, -2.0};
    Place place = {none, none, none, none};
    for (; alive; alive &= alive - 1) {
        int v = __builtin_ctzll(alive);
        double p_prime = 1.0 - search->reflected[v];
        widen(&place.p, search->p[v]);
        widen(&place.p_prime, p_prime);
        widen(&place.shift, p_prime - search->p[v]);
    }
    place.both = place.p;
    widen(&place.both, place.p_prime.low);
    widen(&place.both, place.p_prime.high);
    return place;
}

/* For each arc, bounds on the means of D(l) = g(l + 1) - g(l) over the votes of all voters but one of that arc. */
static void slopes(Work *work, const Node *node, Slope *slope, double *bend) {
    whole entries = work->search->K, size = entries + 1;
    int order[ARCS];
    Place place[ARCS];
    double *v = work->arrays, *part = work->part;
    for (int i = 0; i < node->arcs; i++) { /* narrow arcs first: what they smooth is moved less by the wide ones */
        place[i] = place_of(work->search, node->arc[i].alive);
        int at = i;
        for (; at && place[order[at - 1]].p.high - place[order[at - 1]].p.low > place[i].p.high - place[i].p.low; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int side = 0; side < SIDES; side++) {
        if (side == 4 || side == 5)
            memset(v + side * size, 0, (size_t)entries * sizeof(double));
        else
            memcpy(v + side * size, side < 4 ? work->differences : work->second, (size_t)entries * sizeof(double));
    }
    *bend = 0.0; /* the largest second difference: how much a slope changes at most as another voter moves by 1 */
    for (int k = 0; k < node->arcs; k++)
        for (whole voter = 1; voter < node->arc[order[k]].count; voter++) {
            if (entries == 2) *bend = largest(-v[6 * size], v[7 * size]);
            place_step(v, size, --entries, place + order[k]);
        }
    for (whole j = 0; j < entries - 1; j++) *bend = largest(*bend, largest(-v[6 * size + j], v[7 * size + j]));
    for (int i = 0; i < node->arcs; i++) {
        whole left = entries;
        for (int side = 0; side < SIDES; side++)
            memcpy(part + side * size, v + side * size, (size_t)left * sizeof(double));
        for (int k = 0; k < node->arcs; k++)
            if (order[k] != i) place_step(part, size, --left, place + order[k]);
        slope[i] = (Slope){{part[0], part[size]}, {part[2 * size], part[3 * size]}, {part[4 * size], part[5 * size]}};
    }
}

/*
 * The terms of phi, q value[0] - value[1], where the voters of each arc sit at one point, shape (arcs), of the region,
 * and there the slopes a and b for each arc.
 */
static void at_points(Work *work, const Node *node, const double *const points[2], double *const slope[2], double value[2]) {
    for (int side = 0; side < 2; side++) {
        whole n = work->search->K;
        double *a = work->blossom[2 * side], *b = work->blossom[2 * side + 1];
        memcpy(a, work->search->signed_values, (size_t)(n + 1) * sizeof(double));
        for (int i = 0; i < node->arcs; i++)
            for (whole voter = 1; voter < node->arc[i].count; voter++) step(a, n--, points[side][i], 1.0 - points[side][i]);
        for (int i = 0; i < node->arcs; i++) {
            whole left = n;
            memcpy(b, a, (size_t)(n + 1) * sizeof(double));
            for (int k = 0; k < node->arcs; k++)
                if (k != i) step(b, left--, points[side][k], 1.0 - points[side][k]);
            slope[side][i] = b[1] - b[0];
            value[side] = (1.0 - points[side][i]) * b[0] + points[side][i] * b[1];
        }
    }
}

static double mean(Work *work, const double *chances, const whole *multiset) {
    whole n = work->search->K;
    double *a = work->blossom[0];
    memcpy(a, work->search->signed_values, (size_t)(n + 1) * sizeof(double));
    for (whole v = 0; v < work->search->vertices; v++)
        for (whole voter = 0; voter < multiset[v]; voter++) step(a, n--, chances[v], 1.0 - chances[v]);
    return a[0];
}

/* Keep the worst multiset, and those above the level: the `most` largest, in a list of which the first is the least. */
static double offer(Work *work, const whole *multiset) {
    ArcSearch *search = work->search;
    size_t size = (size_t)search->vertices * sizeof(whole);
    double value = search->q * mean(work, search->p, multiset) + mean(work, search->reflected, multiset);
    if (value > search->value) {
        search->value = value;
        memcpy(search->counts, multiset, size);
    }
    if (!search->most || value <= search->above) return value;
    whole at = search->kept;
    for (whole k = 0; k < search->kept; k++)
        if (search->cut_values[k] == value && !memcmp(search->cuts + k * search->vertices, multiset, size)) return value;
    if (at == search->most) {
        at = 0;
        for (whole k = 1; k < search->kept; k++)
            if (search->cut_values[k] < search->cut_values[at]) at = k;
        if (value <= search->cut_values[at]) return value;
    } else {
        search->kept++;
    }
    search->cut_values[at] = value;
    memcpy(search->cuts + at * search->vertices, multiset, size);
    return value;
}

static double level(const ArcSearch *search) {
    return search->most ? search->above : largest(search->above, search->value);
}

/* The most of factor * x over a range. */
static double most_of(double factor, Range x) { return factor * (factor > 0 ? x.high : x.low); }

/* The most that phi can gain by a move of (dp, dp'): q a dp - b dp', where a, b and b - a are bounded, each two of them. */
static double most_gain(double q, double dp, double dp_prime, Slope slope) {
    double apart = most_of(q * dp, slope.a) + most_of(-dp_prime, slope.b);
    double by_a = most_of(q * dp - dp_prime, slope.a) + most_of(-dp_prime, slope.difference);
    double by_b = most_of(q * dp - dp_prime, slope.b) + most_of(-q * dp, slope.difference);
    return smallest(apart, smallest(by_a, by_b));
}

static double gain_from(const ArcSearch *search, double p, double p_prime, whole v, Slope slope) {
    return most_gain(search->q, search->p[v] - p, 1.0 - search->reflected[v] - p_prime, slope);
}

static void within(Range *range, double low, double high) {
    range->low = largest(range->low, low);
    range->high = smallest(range->high, high);
}

/* Whether every voter at v gains by going to w, whatever the others do within the node. */
static int loses(const ArcSearch *search, whole v, whole w, Slope slope) {
    if (w < 0 || w == v) return 0;
    double dp = search->p[w] - search->p[v], dp_prime = search->reflected[v] - search->reflected[w];
    /* the least gain of the way there is minus the most of the way back */
    return -most_gain(search->q, -dp, -dp_prime, slope) > 2 * search->fuzz * (fabs(dp) + fabs(dp_prime)) + 1e-290;
}

/* Drop the vertices at which no voter of a worst multiset sits, for any q asked; returns 0 where an arc has none left. */
static int reduce(Work *work, Node *node, Slope *slope, double *bend, const double *q, uint64_t asked) {
    ArcSearch *search = work->search;
    for (int changed = 1; changed;) {
        changed = 0;
        slopes(work, node, slope, bend);
        for (int i = 0; i < node->arcs; i++) {
            Arc *arc = node->arc + i;
            for (uint64_t rest = arc->alive; rest; rest &= rest - 1) {
                whole v = __builtin_ctzll(rest);
                int lost = 1;
                for (uint64_t each = asked; each && lost; each &= each - 1) {
                    search->q = q[__builtin_ctzll(each)];
                    if (arc->fixed)
                        lost = loses(search, v, v == search->zero ? search->one : search->zero, slope[i]);
                    else
                        lost = loses(search, v, search->previous[v], slope[i]) ||
                               loses(search, v, search->following[v], slope[i]) ||
                               loses(search, v, search->mirror[v], slope[i]);
                }
                if (!lost) continue;
                arc->alive &= ~((uint64_t)1 << v);
                if (!arc->alive) return 0;
                changed = 1;
            }
        }
    }
    return 1;
}

static int single(uint64_t alive) { return !(alive & (alive - 1)); }

static void leave_out(ArcSearch *search, double bound) { search->left_out = largest(search->left_out, bound); }

/* Add some voters of an arc to a node. */
static void add(Node *node, uint64_t alive, whole count) {
    if (!count) return;
    for (int i = 0; i < node->arcs; i++)
        if (node->arc[i].alive == alive && !node->arc[i].fixed) {
            node->arc[i].count += count;
            return;
        }
    node->arc[node->arcs++] = (Arc){alive, count, 0};
}

/* The middle of each arc, and how far all voters together are from there at most. */
static void middle_of(const ArcSearch *search, const Node *node, double *p, double *p_prime, double *way, double *way_prime) {
    *way = *way_prime = 0.0;
    for (int i = 0; i < node->arcs; i++) {
        int first = __builtin_ctzll(node->arc[i].alive), last = 63 - __builtin_clzll(node->arc[i].alive);
        p[i] = (search->p[first] + search->p[last]) / 2;
        p_prime[i] = 1.0 - (search->reflected[first] + search->reflected[last]) / 2;
        double farthest = 0.0, farthest_prime = 0.0;
        for (uint64_t rest = node->arc[i].alive; rest; rest &= rest - 1) {
            int v = __builtin_ctzll(rest);
            farthest = largest(farthest, fabs(search->p[v] - p[i]));
            farthest_prime = largest(farthest_prime, fabs(1.0 - search->reflected[v] - p_prime[i]));
        }
        *way += (double)node->arc[i].count * farthest;
        *way_prime += (double)node->arc[i].count * farthest_prime;
    }
}

/* The vertices of an arc before its middle: it is cut where its halves are least wide. */
static uint64_t first_half(const ArcSearch *search, uint64_t alive) {
    uint64_t left = 0, rest = alive;
    double first = 0.0, last = 0.0;
    for (uint64_t each = alive; each; each &= each - 1) {
        int v = __builtin_ctzll(each);
        double place = search->p[v] - search->reflected[v];
        if (each == alive) first = place;
        last = place;
    }
    for (; !single(rest); rest &= rest - 1) {
        int v = __builtin_ctzll(rest);
        if (left && search->p[v] - search->reflected[v] > (first + last) / 2) break;
        left |= rest & -rest;
    }
    return left;
}

/* Search a node whose multisets have phi <= bound. */
static void search_node(Work *work, const Node *given, double bound) {
    ArcSearch *search = work->search;
    if (bound <= level(search) || search->exhausted || work->failed || given->arcs + 2 > ARCS) {
        leave_out(search, bound);
        return;
    }
    if (search->nodes % NODES_BETWEEN_CHECKS == 0 && is_over(work->deadline, search->stop)) work->failed = OUT_OF_TIME;
    if (++search->nodes > search->most_nodes || (search->enough && search->kept >= search->enough)) search->exhausted = 1;
    Node node = *given;
    Slope slope[ARCS];
    double bend;
    double q = search->q;
    if (!reduce(work, &node, slope, &bend, &q, 1)) return;
    int open = 0;
    memset(work->multiset, 0, (size_t)search->vertices * sizeof(whole));
    for (int i = 0; i < node.arcs; i++) {
        open |= !single(node.arc[i].alive);
        work->multiset[__builtin_ctzll(node.arc[i].alive)] += node.arc[i].count;
    }
    if (!open) {
        offer(work, work->multiset);
        return;
    }

    double p[ARCS], p_prime[ARCS], a[ARCS], b[ARCS], way, way_prime;
    middle_of(search, &node, p, p_prime, &way, &way_prime);
    double means[2];
    at_points(work, &node, (const double *[2]){p, p_prime}, (double *[2]){a, b}, means);
    double value = search->q * means[0] - means[1];
    double change = (bend + search->fuzz) * way / 2, change_prime = (bend + search->fuzz) * way_prime / 2;

    /* what all multisets of the node may have beyond phi there: the sum over the voters of slopes on the way, averaged */
    int widest = -1;
    double term[ARCS], sum = 0.0;
    for (int i = 0; i < node.arcs; i++) {
        within(&slope[i].a, a[i] - change, a[i] + change);
        within(&slope[i].b, b[i] - change_prime, b[i] + change_prime);
        within(&slope[i].difference, b[i] - a[i] - (change + change_prime), b[i] - a[i] + (change + change_prime));
        double gain = -DBL_MAX;
        for (uint64_t rest = node.arc[i].alive; rest; rest &= rest - 1)
            gain = largest(gain, gain_from(search, p[i], p_prime[i], __builtin_ctzll(rest), slope[i]));
        term[i] = (double)node.arc[i].count * gain;
        sum += fabs(term[i]);
        value += term[i];
        if (!single(node.arc[i].alive) && (widest < 0 || term[i] > term[widest])) widest = i;
    }
    double rounding = 2 * search->fuzz * (way + way_prime) + 0x1p-46 * sum;
    bound = smallest(bound, value + rounding);
    if (bound <= level(search)) {
        leave_out(search, bound);
        return;
    }

    uint64_t alive = node.arc[widest].alive, left = first_half(search, alive);
    uint64_t halves[2] = {left, alive & ~left};
    double gain[2];
    for (int half = 0; half < 2; half++) {
        gain[half] = -DBL_MAX;
        for (uint64_t each = halves[half]; each; each &= each - 1)
            gain[half] = largest(gain[half], gain_from(search, p[widest], p_prime[widest], __builtin_ctzll(each), slope[widest]));
    }
    /* either at least h of them are in the half that promises more, or at least count - h + 1 in the other */
    whole count = node.arc[widest].count, h = (count + 1) / 2;
    int better = gain[1] > gain[0];
    double whole_gain = largest(gain[0], gain[1]);
    node.arc[widest] = node.arc[--node.arcs];
    for (int k = 0; k < 2; k++) {
        int half = k ? !better : better;
        whole there = k ? count - h + 1 : h;
        double terms = (double)there * gain[half] + (double)(count - there) * whole_gain;
        Node child = node;
        add(&child, halves[half], there);
        add(&child, alive, count - there);
        search_node(work, &child, smallest(bound, value - term[widest] + terms + rounding + 0x1p-46 * fabs(terms)));
    }
}

/* Memory of a search, and the differences of g; NULL where there is none. */
static double *prepare(Work *work) {
    const ArcSearch *search = work->search;
    size_t size = (size_t)(search->K + 1);
    double *memory = malloc((6 + 2 * SIDES) * size * sizeof(double) + (size_t)search->vertices * sizeof(whole));
    if (!memory) return NULL;
    work->differences = memory, work->second = memory + size;
    for (int k = 0; k < 4; k++) work->blossom[k] = memory + (size_t)(2 + k) * size;
    work->arrays = memory + 6 * size, work->part = work->arrays + SIDES * size;
    work->multiset = (whole *)(memory + (6 + 2 * SIDES) * size);
    for (whole l = 0; l < search->K; l++) work->differences[l] = search->signed_values[l + 1] - search->signed_values[l];
    for (whole l = 0; l < search->K; l++) work->second[l] = l + 1 < search->K ? work->differences[l + 1] - work->differences[l] : 0;
    return memory;
}

static uint64_t all_vertices(const ArcSearch *search) {
    return search->vertices == MAX_VERTICES ? ~(uint64_t)0 : ((uint64_t)1 << search->vertices) - 1;
}

/* Some voters anywhere, so many of the others at (1, 1), and the rest at (0, 0). */
static Node root_of(const ArcSearch *search, whole movable, whole ones) {
    whole others = search->K - movable;
    Node root = {0, {{0, 0, 0}}};
    if (movable) root.arc[root.arcs++] = (Arc){all_vertices(search), movable, 0};
    if (ones) root.arc[root.arcs++] = (Arc){(uint64_t)1 << search->one, ones, 1};
    if (others - ones) root.arc[root.arcs++] = (Arc){(uint64_t)1 << search->zero, others - ones, 1};
    return root;
}

/*
 * `arcs.search_arcs`: `movable` voters anywhere on the vertices, the others at (0, 0) and (1, 1) in every way. What is left
 * out has phi <= left_out. Returns 0, or why not.
 */
EXPORT int search_arcs(ArcSearch *search, whole movable) {
    Work work = {.search = search, .deadline = deadline_in(search->seconds)};
    double *memory = prepare(&work);
    if (!memory) return OUT_OF_MEMORY;
    whole others = search->K - movable;
    for (whole ones = 0; ones <= others; ones++) {
        Node root = root_of(search, movable, ones);
        search_node(&work, &root, DBL_MAX);
    }
    free(memory);
    return work.failed;
}

/* Several slopes q at once, and for each what `ArcSearch` has for one. */
typedef struct {
    const double *q, *above;
    double *value, *left_out;
    whole *counts; /* [slopes][vertices] */
} Joint;

static double level_of(const Joint *joint, int k) { return largest(joint->above[k], joint->value[k]); }

/* As `search_node`, for the slopes asked: their nodes are nearly the same, and most of the work is that of a node. */
static void search_jointly(Work *work, Joint *joint, const Node *given, const double *bounds, uint64_t asked) {
    ArcSearch *search = work->search;
    double bound[MAX_JOINT], value[MAX_JOINT], rounding[MAX_JOINT], term[ARCS][MAX_JOINT];
    int stop = search->exhausted || work->failed || given->arcs + 2 > ARCS;
    for (uint64_t each = asked; each; each &= each - 1) {
        int k = __builtin_ctzll(each);
        bound[k] = bounds[k];
        if (!stop && bound[k] > level_of(joint, k)) continue;
        joint->left_out[k] = largest(joint->left_out[k], bound[k]);
        asked &= ~((uint64_t)1 << k);
    }
    if (!asked) return;
    if (search->nodes % NODES_BETWEEN_CHECKS == 0 && is_over(work->deadline, search->stop)) work->failed = OUT_OF_TIME;
    if (++search->nodes > search->most_nodes) search->exhausted = 1;
    Node node = *given;
    Slope slope[ARCS];
    double bend;
    if (!reduce(work, &node, slope, &bend, joint->q, asked)) return;
    int open = 0;
    memset(work->multiset, 0, (size_t)search->vertices * sizeof(whole));
    for (int i = 0; i < node.arcs; i++) {
        open |= !single(node.arc[i].alive);
        work->multiset[__builtin_ctzll(node.arc[i].alive)] += node.arc[i].count;
    }
    if (!open) {
        double on_data = mean(work, search->p, work->multiset), on_neighbour = mean(work, search->reflected, work->multiset);
        for (uint64_t each = asked; each; each &= each - 1) {
            int k = __builtin_ctzll(each);
            if (joint->q[k] * on_data + on_neighbour <= joint->value[k]) continue;
            joint->value[k] = joint->q[k] * on_data + on_neighbour;
            memcpy(joint->counts + k * search->vertices, work->multiset, (size_t)search->vertices * sizeof(whole));
        }
        return;
    }
    double p[ARCS], p_prime[ARCS], a[ARCS], b[ARCS], means[2], way, way_prime;
    middle_of(search, &node, p, p_prime, &way, &way_prime);
    at_points(work, &node, (const double *[2]){p, p_prime}, (double *[2]){a, b}, means);
    double change = (bend + search->fuzz) * way / 2, change_prime = (bend + search->fuzz) * way_prime / 2;
    for (int i = 0; i < node.arcs; i++) {
        within(&slope[i].a, a[i] - change, a[i] + change);
        within(&slope[i].b, b[i] - change_prime, b[i] + change_prime);
        within(&slope[i].difference, b[i] - a[i] - (change + change_prime), b[i] - a[i] + (change + change_prime));
    }
    int pilot = -1; /* the slope that is farthest from being proved says where to cut */
    for (uint64_t each = asked; each; each &= each - 1) {
        int k = __builtin_ctzll(each);
        double sum = 0.0;
        search->q = joint->q[k];
        value[k] = search->q * means[0] - means[1];
        for (int i = 0; i < node.arcs; i++) {
            double gain = -DBL_MAX;
            for (uint64_t rest = node.arc[i].alive; rest; rest &= rest - 1)
                gain = largest(gain, gain_from(search, p[i], p_prime[i], __builtin_ctzll(rest), slope[i]));
            term[i][k] = (double)node.arc[i].count * gain;
            sum += fabs(term[i][k]);
            value[k] += term[i][k];
        }
        rounding[k] = 2 * search->fuzz * (way + way_prime) + 0x1p-46 * sum;
        bound[k] = smallest(bound[k], value[k] + rounding[k]);
        if (bound[k] <= level_of(joint, k)) {
            joint->left_out[k] = largest(joint->left_out[k], bound[k]);
            asked &= ~((uint64_t)1 << k);
        } else if (pilot < 0 || bound[k] - level_of(joint, k) > bound[pilot] - level_of(joint, pilot))
            pilot = k;
    }
    if (!asked) return;
    int widest = -1;
    for (int i = 0; i < node.arcs; i++)
        if (!single(node.arc[i].alive) && (widest < 0 || term[i][pilot] > term[widest][pilot])) widest = i;
    uint64_t alive = node.arc[widest].alive, left = first_half(search, alive);
    uint64_t halves[2] = {left, alive & ~left};
    double gain[2][MAX_JOINT];
    for (int half = 0; half < 2; half++)
        for (uint64_t each = asked; each; each &= each - 1) {
            int k = __builtin_ctzll(each);
            search->q = joint->q[k];
            gain[half][k] = -DBL_MAX;
            for (uint64_t rest = halves[half]; rest; rest &= rest - 1)
                gain[half][k] = largest(gain[half][k], gain_from(search, p[widest], p_prime[widest], __builtin_ctzll(rest), slope[widest]));
        }
    whole count = node.arc[widest].count, h = (count + 1) / 2;
    int better = gain[1][pilot] > gain[0][pilot];
    node.arc[widest] = node.arc[--node.arcs];
    for (int round = 0; round < 2; round++) {
        int half = round ? !better : better;
        whole there = round ? count - h + 1 : h;
        double below[MAX_JOINT];
        for (uint64_t each = asked; each; each &= each - 1) {
            int k = __builtin_ctzll(each);
            double terms = (double)there * gain[half][k] + (double)(count - there) * largest(gain[0][k], gain[1][k]);
            below[k] = smallest(bound[k], value[k] - term[widest][k] + terms + rounding[k] + 0x1p-46 * fabs(terms));
        }
        Node child = node;
        add(&child, halves[half], there);
        add(&child, alive, count - there);
        search_jointly(work, joint, &child, below, asked);
    }
}

/*
 * `arcs.search_jointly`: as `search_arcs`, without cuts, at `many` slopes q at once, at most MAX_JOINT.
 */
EXPORT int search_arcs_jointly(ArcSearch *search, whole movable, whole many, const double *q, const double *above,
                               double *value, double *left_out, whole *counts) {
    Work work = {.search = search, .deadline = deadline_in(search->seconds)};
    double *memory = prepare(&work);
    if (!memory) return OUT_OF_MEMORY;
    Joint joint = {q, above, value, left_out, counts};
    double none[MAX_JOINT];
    for (int k = 0; k < MAX_JOINT; k++) none[k] = DBL_MAX;
    whole others = search->K - movable;
    for (whole ones = 0; ones <= others; ones++) {
        Node root = root_of(search, movable, ones);
        search_jointly(&work, &joint, &root, none, many == 64 ? ~(uint64_t)0 : ((uint64_t)1 << many) - 1);
    }
    free(memory);
    return work.failed;
}

/*
 * `arcs.climb`: from each multiset, one voter at a time to the vertex where phi gains most, until none does. counts:
 * [many][vertices], in place; movable[v]: whether v moves (p is not p'); at most `affected` voters there.
 */
EXPORT int climb_multisets(ArcSearch *search, whole many, whole *multisets, const whole *moving, whole affected) {
    size_t size = (size_t)(search->K + 1);
    whole V = search->vertices;
    Work work = {.search = search, .deadline = deadline_in(search->seconds)};
    double *memory = malloc(4 * size * sizeof(double) + (size_t)V * sizeof(whole));
    if (!memory) return OUT_OF_MEMORY;
    work.blossom[0] = memory + 3 * size;
    double *differences = memory, *own[2] = {memory + size, memory + 2 * size};
    work.multiset = (whole *)(memory + 4 * size);
    for (whole l = 0; l < search->K; l++) differences[l] = search->signed_values[l + 1] - search->signed_values[l];
    for (whole k = 0; k < many && !work.failed; k++) {
        whole *multiset = multisets + k * V, moved = 0;
        for (whole v = 0; v < V; v++) moved += moving[v] ? multiset[v] : 0;
        for (whole round = 0; round < 4 * search->K + 16; round++) {
            double best = 0.0;
            whole from = -1, to = -1;
            if (is_over(work.deadline, search->stop)) {
                work.failed = OUT_OF_TIME;
                break;
            }
            for (whole v = 0; v < V; v++) {
                if (!multiset[v]) continue;
                double slope[2];
                for (int side = 0; side < 2; side++) {
                    const double *chances = side ? search->reflected : search->p;
                    whole n = search->K - 1;
                    memcpy(own[side], differences, (size_t)search->K * sizeof(double));
                    for (whole w = 0; w < V; w++)
                        for (whole voter = w == v; voter < multiset[w]; voter++)
                            step(own[side], n--, chances[w], 1.0 - chances[w]);
                    slope[side] = own[side][0];
                }
                for (whole w = 0; w < V; w++) {
                    if (moving[w] && !moving[v] && moved >= affected) continue;
                    double gain = search->q * slope[0] * (search->p[w] - search->p[v]) +
                                  slope[1] * (search->reflected[w] - search->reflected[v]);
                    if (gain > best) best = gain, from = v, to = w;
                }
            }
            if (best <= 4 * search->fuzz) break;
            multiset[from]--, multiset[to]++;
            moved += (moving[to] != 0) - (moving[from] != 0);
        }
        offer(&work, multiset);
    }
    free(memory);
    return work.failed;
}
